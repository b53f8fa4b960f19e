//! gres.conf: which devices there are, and whether slurmd looks for them by itself.

use crate::{
    conf_check::file::{ConfFile, Entry},
    hostlist::{HostSet, Hostlist},
};

use super::Gres;

/// Slurm's own bound on the nodes of a cluster.
const MOST_NODES: usize = 65_536;

/// The lines of a gres.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GresConf {
    lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    /// The nodes it is about; all where it names none.
    nodes: Option<HostSet>,
    autodetect: Option<String>,
    /// What it says there is; the count is that of its device files.
    devices: Option<Gres>,
}

/// Whether slurmd looks for GPUs by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detection {
    /// Nothing is said. A dynamic node of 26.05 looks for GPUs then, unless its `Gres` or a line of the file names some.
    Unsaid,
    Off,
    /// In this way, also for GPUs that `Gres` names.
    By(String),
}

impl GresConf {
    pub fn parse(text: &str) -> Self {
        let file = ConfFile::parse(text);
        Self { lines: file.entries.iter().map(Line::of).collect() }
    }

    /// Whether slurmd looks for GPUs on a node. A line about the node goes before one about all.
    pub fn detection(&self, node: &str) -> Detection {
        let said = |has_nodes: bool| {
            self.of_node(node).filter(|line| line.nodes.is_some() == has_nodes).filter_map(|line| line.autodetect.as_deref()).next_back()
        };
        match said(true).or_else(|| said(false)) {
            None => Detection::Unsaid,
            Some(how) if how.eq_ignore_ascii_case("off") => Detection::Off,
            Some(how) => Detection::By(how.to_owned()),
        }
    }

    /// What the lines about a node say there is, with how many device files each names.
    pub fn devices(&self, node: &str) -> Vec<Gres> {
        self.of_node(node).filter_map(|line| line.devices.clone()).collect()
    }

    fn of_node(&self, node: &str) -> impl DoubleEndedIterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.nodes.as_ref().is_none_or(|nodes| nodes.contains(node)))
    }
}

impl Line {
    fn of(entry: &Entry) -> Self {
        // Of a list that cannot be read nobody is meant.
        let nodes = |list: &str| Hostlist::parse(list).and_then(|list| list.to_set(MOST_NODES)).unwrap_or_default();
        let devices = |name: &str| Gres {
            name: name.to_owned(),
            kind: entry.get("Type").map(str::to_owned),
            count: match (entry.get("File"), entry.get("MultipleFiles")) {
                (Some(files), _) => count_files(files),
                (None, Some(_)) => 1, // several files are one device
                (None, None) => 0,
            },
        };
        Self {
            nodes: entry.get("NodeName").map(nodes),
            autodetect: entry.get("AutoDetect").map(str::to_owned),
            devices: entry.get("Name").map(devices),
        }
    }
}

/// How many files an expression such as `/dev/nvidia[0-3]` stands for; at least one, as something is written there.
fn count_files(files: &str) -> u64 {
    // Slurm reads both with the same eyes, and no host has a slash in its name.
    Hostlist::parse(&files.replace('/', "x")).map_or(1, |list| u64::try_from(list.count()).unwrap_or(u64::MAX).max(1))
}
