//! A worker, as it was observed.

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
    /// Since when the pod has been there, as far as is known.
    pub created: Option<Timestamp>,
    pub stage: Stage,
    /// What the pod itself says about that.
    pub phase: Phase,
    /// Since when it has been ready, if it is.
    pub ready_since: Option<Timestamp>,
    /// From when on it counts as available, if it stays ready.
    pub available_from: Option<Timestamp>,
    /// When the time that it was given to end is up, if it is being deleted.
    pub gone_by: Option<Timestamp>,
    /// The Kubernetes node that it is on, once it has one.
    pub host: Option<Host>,
    /// Of the template that it was made from.
    pub hash: String,
    /// Whether that one means the same as the present one.
    pub is_current: bool,
    /// The lower, the sooner it leaves when the NodeSet shrinks.
    pub deletion_cost: i32,
    /// Whether a user marked it so that no job comes to it.
    pub is_cordoned: bool,
    /// What a user permits when it is to leave and jobs are running.
    pub job_policy: JobPolicy,
    /// Name of its node in Slurm, and what Slurm says about that.
    pub node: String,
    pub in_slurm: InSlurm,
    pub record: Record,
    /// What the pod shows of its node.
    pub shown: Shown,
    /// What keeps it from getting ready, when the kubelet or the scheduler said so.
    pub trouble: Option<String>,
}

/// How far a worker pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Starting,
    Ready,
    /// Its containers ended and will not come back.
    Ended,
    /// It is being deleted.
    Going,
}

/// What a pod says about its own life; the sooner it leaves when the NodeSet shrinks, the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It does not run yet, or not any more.
    Pending,
    /// Nobody hears from its kubelet.
    Unknown,
    Running,
}

/// The Kubernetes node that a worker is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    /// Why no new work should come there, if so: it is cordoned, or has a condition that counts as a reason.
    pub cordon: Option<String>,
    /// Where it says that it is in the network, or what is wrong with that; nothing where it does not say.
    pub topology: Option<Result<String, String>>,
    /// What it says that it has, with our prefix, or what is wrong with that; nothing where the node itself is not known.
    pub features: Option<Result<BTreeSet<String>, String>>,
}

/// What a pod shows of its node in Slurm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Our conditions that are `True`, by type, with their messages.
    pub conditions: BTreeMap<String, String>,
    /// Whether it is marked as busy, so that it is not evicted.
    pub is_protected: bool,
    /// When its last job ends, as the pod says.
    pub deadline: Option<String>,
}

/// A record in Slurm that says it belongs to a NodeSet, and no pod is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleNode {
    pub node: String,
    /// The pod that was behind it.
    pub pod: String,
    pub in_slurm: InSlurm,
    pub record: Record,
    pub info: Option<PodInfo>,
}

/// What the names of a worker's claims end with: the name of its pod, or, where that says nothing, its hostname.
pub fn claimant(slot: &Slot, pod: &str, hostname: &str, nodeset: &str) -> String {
    match slot {
        Slot::Ordinal(_) => pod.to_owned(),
        Slot::Node(_) => name::worker_claimant(nodeset, hostname),
    }
}

impl Worker {
    /// What the names of its claims end with.
    pub fn claimant(&self, nodeset: &str) -> String {
        claimant(&self.slot, &self.name, &self.node, nodeset)
    }

    /// Whether it has been ready for as long as the NodeSet asks.
    pub fn is_available(&self, now: Timestamp) -> bool {
        self.stage == Stage::Ready && self.available_from.is_some_and(|from| from <= now)
    }

    /// Whether it is available and, as far as is known, jobs can come to it.
    pub fn serves(&self, now: Timestamp) -> bool {
        self.is_available(now) && !self.is_unregistered()
    }

    /// Whether it is up and Slurm says that it has no record of it: it serves nobody, whatever its probes say.
    pub fn is_unregistered(&self) -> bool {
        self.stage == Stage::Ready && self.in_slurm.is_registered == Answer::No
    }
}
