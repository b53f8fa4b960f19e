//! Observed state of a worker.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use slipway_api::{name, slurm_node::PodInfo};

use super::{InSlurm, JobPolicy, Record, Slot};
use crate::gate::Answer;

/// A worker pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    pub name: String,
    pub slot: Slot,
    pub uid: String,
    /// Creation time of the pod, if known.
    pub created: Option<Timestamp>,
    pub stage: Stage,
    /// Phase that the pod itself reports.
    pub phase: Phase,
    /// Time since which it has been ready, if it is.
    pub ready_since: Option<Timestamp>,
    /// Time from which it counts as available, if it stays ready.
    pub available_from: Option<Timestamp>,
    /// End of its termination grace period, if it is being deleted.
    pub gone_by: Option<Timestamp>,
    /// IP address of the pod, once assigned.
    pub address: Option<String>,
    /// The Kubernetes node that it runs on, once assigned.
    pub host: Option<Host>,
    /// Hash of the template that it was created from.
    pub hash: String,
    /// True if that template means the same as the current one.
    pub is_current: bool,
    /// Workers with a lower cost are deleted first when the NodeSet is scaled in.
    pub deletion_cost: i32,
    /// True if a user cordoned it, so that it gets no new job.
    pub is_cordoned: bool,
    /// Treatment of running jobs when it is to be deleted.
    pub job_policy: JobPolicy,
    /// Name of its Slurm node; `in_slurm` is the state that Slurm reports for it.
    pub node: String,
    pub in_slurm: InSlurm,
    pub record: Record,
    /// True if it may run jobs of which Slurm has lost its record.
    pub is_lost: bool,
    /// State of its Slurm node that the pod shows.
    pub shown: Shown,
    /// Last report of its kubelet.
    pub containers: Containers,
    /// Reason why it does not become ready, if the kubelet or the scheduler reports one.
    pub trouble: Option<String>,
}

/// Stage in the life of a worker pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Starting,
    Ready,
    /// Its containers ended and will not be restarted.
    Ended,
    /// It is terminating.
    Going,
}

/// State of a pod's containers, as their kubelet last reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containers {
    Ready,
    /// Not all are ready.
    NotReady,
    /// slurmd was ready since it started, and does not respond any more.
    Hung,
}

/// Phase that a pod reports; smaller ones are deleted first when the NodeSet is scaled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It is not running yet, or no longer.
    Pending,
    /// Its kubelet is unreachable.
    Unknown,
    Running,
}

/// The Kubernetes node that a worker runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    /// Reason why no new jobs should start there, if any: it is cordoned, or has a condition that counts as a reason.
    pub cordon: Option<String>,
    /// Topology from its annotation, or the error in it; `None` without annotation.
    pub topology: Option<Result<String, String>>,
    /// Features from its annotation, with our prefix, or the error in them; `None` if the node itself is unknown.
    pub features: Option<Result<BTreeSet<String>, String>>,
}

/// State of a Slurm node as shown on its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Our conditions that are `True`, by type, with their messages.
    pub conditions: BTreeMap<String, String>,
    /// True if it is labeled as busy, so that it is not evicted.
    pub is_protected: bool,
    /// End of its last job, as annotated on the pod.
    pub deadline: Option<String>,
}

/// A record in Slurm that names a NodeSet as its owner and has no pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleNode {
    pub node: String,
    /// The pod that it belonged to.
    pub pod: String,
    pub in_slurm: InSlurm,
    pub record: Record,
    pub info: Option<PodInfo>,
}

/// Suffix of the names of a worker's claims: the pod name, or the hostname if the pod name has no meaning.
pub fn claimant(slot: &Slot, pod: &str, hostname: &str, nodeset: &str) -> String {
    match slot {
        Slot::Ordinal(_) => pod.to_owned(),
        Slot::Node(_) => name::worker_claimant(nodeset, hostname),
    }
}

impl Worker {
    /// Suffix of the names of its claims.
    pub fn claimant(&self, nodeset: &str) -> String {
        claimant(&self.slot, &self.name, &self.node, nodeset)
    }

    /// True if it has been ready for as long as the NodeSet requires.
    pub fn is_available(&self, now: Timestamp) -> bool {
        self.stage == Stage::Ready && self.available_from.is_some_and(|from| from <= now)
    }

    /// True if it is available and, as far as is known, can get jobs.
    pub fn serves(&self, now: Timestamp) -> bool {
        self.is_available(now) && !self.is_unregistered() && !self.is_lost
    }

    /// True if its slurmd was up, so that Slurm's state is shown on the pod, and no longer responds to its kubelet.
    pub(super) fn is_hung(&self) -> bool {
        self.was_up() && self.containers == Containers::Hung
    }

    /// True if it was up and its kubelet does not report any more: its probes had succeeded until then.
    pub(super) fn is_silent(&self) -> bool {
        self.was_up() && self.containers == Containers::Ready
    }

    fn was_up(&self) -> bool {
        self.stage == Stage::Starting && self.phase == Phase::Running && !self.shown.conditions.is_empty()
    }

    /// True if it is ready and Slurm has no record of it: it gets no jobs, whatever its probes report.
    pub fn is_unregistered(&self) -> bool {
        self.stage == Stage::Ready && self.in_slurm.is_registered == Answer::No
    }
}
