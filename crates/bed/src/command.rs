//! The commands of `slipway-bed`.

mod inside;
mod show;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Instant;

use clap::{Parser, Subcommand};
use slipway_bed::bed::Bed;
use slipway_bed::cache::Cache;
use slipway_bed::doctor::{self, Facts};
use slipway_bed::failure::Failure;
use slipway_bed::image::Image;
use slipway_bed::interrupt::until_interrupted;
use slipway_bed::name::BedName;
use slipway_bed::progress::{Progress, seconds};
use slipway_bed::spec::Extent;
use slipway_bed::tool;
use slipway_bed::up::{self, Wanted};

/// A real Kubernetes with real Slurm images on one machine, in its own namespaces.
#[derive(Parser)]
#[command(name = "slipway-bed", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Args)]
struct Which {
    /// Name of the bed; several can run side by side.
    #[arg(long, short, default_value = "demo", env = "SLIPWAY_BED_NAME")]
    name: BedName,
}

#[derive(Subcommand)]
enum Verb {
    /// Bring a bed up; installs and builds missing programs and images first.
    Up {
        #[command(flatten)]
        which: Which,
        /// Number of nodes.
        #[arg(long, default_value_t = 2)]
        nodes: u8,
        /// Run only etcd and the API server, for tests of the API.
        #[arg(long)]
        api_only: bool,
        /// With --api-only: also run the controller manager.
        #[arg(long, requires = "api_only")]
        controllers: bool,
        /// Number of API servers on the one etcd; each has a context in the kubeconfig.
        #[arg(long, default_value_t = 1)]
        api_servers: u8,
        /// Port on this machine for the first API server; zero picks a free one.
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// Take a bed down and remove everything that belongs to it.
    Down {
        #[command(flatten)]
        which: Which,
        /// Take down all beds.
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Show the beds on this machine and the state of their parts.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the path of a bed's kubeconfig.
    Kubeconfig {
        #[command(flatten)]
        which: Which,
    },
    /// Run a command inside a bed, or inside one of its nodes.
    Exec {
        #[command(flatten)]
        which: Which,
        /// Number of the node.
        #[arg(long)]
        node: Option<u8>,
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
    /// Print the log of a part, or list all parts.
    Logs {
        #[command(flatten)]
        which: Which,
        /// A part as listed by `status`, such as `kube-apiserver` or `n1/kubelet`.
        part: Option<String>,
        /// Number of lines, counted from the end.
        #[arg(long, default_value_t = 100)]
        lines: usize,
    },
    /// Kill, freeze, thaw, start or add a node of a running bed.
    Node {
        #[command(flatten)]
        which: Which,
        #[command(subcommand)]
        verb: NodeVerb,
    },
    /// Run helm, built first if missing; against the bed if it is up.
    Helm {
        #[command(flatten)]
        which: Which,
        /// Arguments for helm.
        #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Build missing images and list all of them.
    Images {
        /// Include the images of the older Slurm, for tests of upgrades.
        #[arg(long)]
        all: bool,
    },
    /// Report what this machine lacks to run a bed.
    Doctor,
    /// Entry points of the bed's own processes.
    #[command(hide = true)]
    Inside {
        #[command(subcommand)]
        verb: inside::Inside,
    },
}

#[derive(Subcommand)]
enum NodeVerb {
    /// Add a node.
    Add,
    /// Kill a node as a power cut would.
    Kill { node: u8 },
    /// Restart a killed node.
    Start { node: u8 },
    /// Freeze every process of a node.
    Freeze { node: u8 },
    /// Thaw a frozen node.
    Thaw { node: u8 },
}

pub(crate) fn run(args: Args) -> Result<ExitCode, Failure> {
    if let Verb::Inside { verb } = args.verb {
        return Err(inside::run(verb));
    }
    let cache = Cache::open()?;
    match args.verb {
        Verb::Up { which, nodes, api_only, controllers, api_servers, port } => {
            let extent = if api_only { Extent::ApiOnly { controllers } } else { Extent::Cluster { nodes } };
            let images = if api_only { Vec::new() } else { Image::of_slurm() };
            let wanted = Wanted { extent, api_servers, port, images, progress: Progress::Shown, ..Wanted::cluster(which.name, nodes) };
            bring_up(&cache, &wanted)?;
        }
        Verb::Down { which, all } => take_down(&cache, which.name, all)?,
        Verb::Status { json } => show::status(&cache, json)?,
        Verb::Kubeconfig { which } => println!("{}", Bed::open(&cache, &which.name)?.kubeconfig().display()),
        Verb::Exec { which, node, command } => return exec(&Bed::open(&cache, &which.name)?, node, &command),
        Verb::Logs { which, part, lines } => show::logs(&Bed::open(&cache, &which.name)?, part.as_deref(), lines)?,
        Verb::Node { which, verb } => {
            let bed = Bed::open(&cache, &which.name)?;
            match verb {
                NodeVerb::Add => println!("added node n{}", bed.add_node()?),
                NodeVerb::Kill { node } => bed.kill_node(node)?,
                NodeVerb::Start { node } => bed.start_node(node)?,
                NodeVerb::Freeze { node } => bed.freeze_node(node)?,
                NodeVerb::Thaw { node } => bed.thaw_node(node)?,
            }
        }
        Verb::Helm { which, args } => return helm(&cache, &which.name, &args),
        Verb::Images { all } => show::images(&cache, all)?,
        Verb::Doctor => return Ok(examine(&cache)),
        Verb::Inside { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn bring_up(cache: &Cache, wanted: &Wanted) -> Result<(), Failure> {
    up::prepare(cache, wanted)?;
    let started = Instant::now();
    let mut bed = until_interrupted(up::up(cache, wanted))?;
    bed.detach()?;
    println!("bed `{}` is up after {}", bed.name(), seconds(started.elapsed()));
    for line in bed.exports() {
        println!("  {line}");
    }
    println!("  slipway-bed down --name {}", bed.name());
    Ok(())
}

fn take_down(cache: &Cache, name: BedName, all: bool) -> Result<(), Failure> {
    let names = if all { show::bed_names(cache)? } else { vec![name] };
    for name in names {
        let started = Instant::now();
        if up::down(cache, &name)? {
            println!("bed `{name}` is down after {}", seconds(started.elapsed()));
        } else {
            println!("there was no bed `{name}`");
        }
    }
    Ok(())
}

fn exec(bed: &Bed, node: Option<u8>, command: &[String]) -> Result<ExitCode, Failure> {
    let words = bed.enter(node)?;
    let programs = &bed.spec().programs;
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{}:{path}", programs.distribution.display(), programs.kubernetes.display());
    let error = Command::new(&words[0])
        .args(&words[1..])
        .args(command)
        .env("PATH", path)
        .env("KUBECONFIG", bed.layout().pki().join("admin.conf"))
        .exec();
    Err(Failure::new(format!("could not run nsenter: {error}")))
}

fn helm(cache: &Cache, name: &BedName, args: &[String]) -> Result<ExitCode, Failure> {
    let mut command = Command::new(tool::go::ensure_helm(cache, Progress::Shown)?);
    if let Ok(bed) = Bed::open(cache, name) {
        command.env("KUBECONFIG", bed.kubeconfig());
    }
    let error = command.args(args).exec();
    Err(Failure::new(format!("could not run helm: {error}")))
}

fn examine(cache: &Cache) -> ExitCode {
    let facts = Facts::gather(cache);
    let problems = doctor::problems(&facts);
    if !facts.missing_packages.is_empty() {
        println!("`up` will install: {}", facts.missing_packages.join(" "));
    }
    if !facts.built {
        println!("`up` will build Kubernetes, which takes 10 to 20 minutes once");
    }
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() {
        println!("this machine can carry beds; their cache is {}", facts.cache.display());
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}
