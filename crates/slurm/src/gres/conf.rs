//! gres.conf: the devices, and their detection by slurmd.

use crate::{
    conf_check::file::{ConfFile, Entry},
    hostlist::{HostSet, Hostlist},
};

use super::Gres;

/// Slurm's limit on the nodes of a cluster.
const MOST_NODES: usize = 65_536;

/// The lines of a gres.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GresConf {
    lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    /// The nodes it applies to, or `None` for all.
    nodes: Option<HostSet>,
    autodetect: Option<String>,
    /// The devices it declares; the count is the number of device files.
    devices: Option<Gres>,
}

/// Detection of GPUs by slurmd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detection {
    /// Not configured. A dynamic node of 26.05 then detects GPUs, unless its `Gres` or a line of the file names some.
    Unsaid,
    Off,
    /// With this method, also for GPUs that `Gres` names.
    By(String),
}

impl GresConf {
    pub fn parse(text: &str) -> Self {
        let file = ConfFile::parse(text);
        Self { lines: file.entries.iter().map(Line::of).collect() }
    }

    /// Detection of GPUs on a node. A line about the node takes precedence over one about all nodes.
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

    /// Devices that the lines about a node declare, with the number of device files of each.
    pub fn devices(&self, node: &str) -> Vec<Gres> {
        self.of_node(node).filter_map(|line| line.devices.clone()).collect()
    }

    fn of_node(&self, node: &str) -> impl DoubleEndedIterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.nodes.as_ref().is_none_or(|nodes| nodes.contains(node)))
    }
}

impl Line {
    fn of(entry: &Entry) -> Self {
        // A list that cannot be parsed matches no node.
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

/// Number of files in an expression such as `/dev/nvidia[0-3]`; at least one, because something is written there.
fn count_files(files: &str) -> u64 {
    // Slurm parses both the same way, and no host name has a slash.
    Hostlist::parse(&files.replace('/', "x")).map_or(1, |list| u64::try_from(list.count()).unwrap_or(u64::MAX).max(1))
}
