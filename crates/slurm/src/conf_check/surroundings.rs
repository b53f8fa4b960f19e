//! Facts about pods and the cluster that configuration files are checked against.

use std::collections::BTreeSet;

use crate::hostlist::HostSet;

/// Facts that the files are checked against. Unknown ones are not checked.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Cluster name of the state on disk.
    pub cluster_name: Option<String>,
    /// Host names of the slurmctld pods; empty if unknown.
    pub controllers: Vec<String>,
    /// The port of Services and probes.
    pub slurmctld_port: Option<u16>,
    /// The user the daemon runs as.
    pub slurm_user: Option<String>,
    /// The folder that must contain the state.
    pub state_folder: Option<String>,
    /// True if workers register by themselves, which needs MaxNodeCount.
    pub dynamic_nodes: bool,
    /// Nodes known to slurmctld besides those of the file.
    pub nodes: HostSet,
    /// Partitions with pending or running jobs.
    pub partitions: BTreeSet<String>,
    /// QOS known to slurmdbd.
    pub qualities: Option<BTreeSet<String>>,
    /// slurmdbd's pod, if slurmdbd.conf is checked.
    pub slurmdbd: SlurmdbdPod,
    /// Files and folders in the pods, by absolute path. The checked files need not be among them.
    pub paths: Option<BTreeSet<String>>,
    /// Groups known in slurmctld's pod.
    pub groups: Option<BTreeSet<String>>,
    /// Host names that resolve; addresses need not be listed.
    pub names: Option<BTreeSet<String>>,
}

/// Facts that slurmdbd.conf has to agree with.
#[derive(Clone, Debug, Default)]
pub struct SlurmdbdPod {
    /// The pod's own host name.
    pub host: Option<String>,
    /// The port of its Service and probes.
    pub port: Option<u16>,
    /// The mode with which the file is mounted.
    pub mode: Option<u32>,
}

impl Surroundings {
    /// True if slurmctld can resolve this host, or if that is unknown.
    pub(super) fn resolves(&self, host: &str) -> bool {
        host.parse::<std::net::IpAddr>().is_ok() || self.names.as_ref().is_none_or(|names| names.contains(host))
    }

    /// True if the file exists, or if that is unknown.
    pub(super) fn has(&self, path: &str) -> bool {
        self.paths.as_ref().is_none_or(|paths| paths.contains(path))
    }
}
