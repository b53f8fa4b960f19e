//! Entry points of the bed's own processes; each runs as one of them or execs it.

use std::path::PathBuf;

use clap::Subcommand;
use slipway_bed::cache::Cache;
use slipway_bed::failure::Failure;
use slipway_bed::layout::Layout;
use slipway_bed::name::BedName;
use slipway_bed::{keeper, ns};

#[derive(Subcommand)]
pub(crate) enum Inside {
    /// Run as the keeper of a bed.
    Keep { cache: PathBuf, name: BedName },
    /// Clean up after a keeper.
    Sweep { cache: PathBuf, name: BedName, keeper: i32 },
    /// Enter a control group and exec `unshare`.
    Stage {
        cgroup: String,
        #[arg(trailing_var_arg = true, required = true)]
        inner: Vec<String>,
    },
    /// Run as the first process of a bed.
    Bed { root: PathBuf },
    /// Run as the first process of a node.
    Node { root: PathBuf, index: u8 },
}

/// Runs the process and returns when it has nothing more to do. A clean exit is returned as the failure "ended".
pub(crate) fn run(verb: Inside) -> Failure {
    let ended = || Failure::new("ended");
    let keep = |cache: PathBuf, name: BedName| {
        let cache = Cache::at(cache)?;
        let layout = Layout::new(&cache, &name);
        keeper::keep(&cache, &layout)
    };
    let sweep = |cache: PathBuf, name: BedName, pid: i32| {
        let cache = Cache::at(cache)?;
        let layout = Layout::new(&cache, &name);
        keeper::sweep(&cache, &layout, pid)
    };
    match verb {
        Inside::Keep { cache, name } => keep(cache, name).err().unwrap_or_else(ended),
        Inside::Sweep { cache, name, keeper } => sweep(cache, name, keeper).err().unwrap_or_else(ended),
        Inside::Stage { cgroup, inner } => ns::enter_stage(&cgroup, &inner),
        Inside::Bed { root } => layout_at(root).map_or_else(|failure| failure, |layout| ns::bed::run(&layout)),
        Inside::Node { root, index } => layout_at(root).map_or_else(|failure| failure, |layout| ns::node::run(&layout, index)),
    }
}

fn layout_at(root: PathBuf) -> Result<Layout, Failure> {
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Layout { name: name.parse()?, root })
}
