//! Input of the plan for a NodeSet.

use jiff::Timestamp;
use slipway_api::{ClaimRetention, child::Child};

use super::{Claim, Layout, Maintenance, Moves, Orphan, Reach, ReplacementBackoff, Revisions, StaleNode, Update, Worker};
use crate::{Wait, drift::SeenChildren};

/// Desired and observed state of a NodeSet at one moment.
pub struct Observed<'a> {
    pub policy: Policy<'a>,
    /// Problem with the NodeSet itself, if any: no worker can be created.
    pub problem: Option<Wait>,
    /// Prerequisite that new workers wait for, if any. Existing workers do not need it.
    pub new_workers_wait: Option<Wait>,
    pub workers: &'a [Worker],
    pub kubernetes: Kubernetes<'a>,
    pub slurm: Slurm<'a>,
    /// History of earlier workers.
    pub backoff: &'a ReplacementBackoff,
    pub now: Timestamp,
}

/// The NodeSet and what its spec asks for.
#[derive(Clone, Copy)]
pub struct Policy<'a> {
    pub namespace: &'a str,
    pub nodeset: &'a str,
    pub uid: &'a str,
    /// Name of the Controller.
    pub controller: &'a str,
    /// Desired number of workers.
    pub replicas: usize,
    /// Placement of the workers.
    pub layout: Layout<'a>,
    /// Minimum number of digits of an ordinal.
    pub padding: usize,
    /// Hostname prefix of numbered workers, if not the name of the NodeSet.
    pub hostname: Option<&'a str>,
    /// Names of the claim templates.
    pub claim_templates: &'a [String],
    pub retention: ClaimRetention,
    /// Rollout strategy for a changed template.
    pub update: Update,
    /// Number of workers that may be unavailable at a time, at least one.
    pub max_unavailable: usize,
    /// True if busy workers are protected from eviction.
    pub protects: bool,
    /// True if records of workers that are gone for good are deleted.
    pub prunes: bool,
}

/// Objects in Kubernetes besides the workers.
pub struct Kubernetes<'a> {
    /// The desired Service and PodDisruptionBudget, which all NodeSets of a Controller share.
    pub shared: Vec<Child>,
    /// The present ones.
    pub seen: &'a SeenChildren,
    /// Pods that look like workers and have no controlling owner.
    pub orphans: &'a [Orphan],
    pub claims: &'a [Claim],
    pub revisions: &'a Revisions,
}

/// State of Slurm besides that of the workers' nodes.
pub struct Slurm<'a> {
    /// State of the connection to Slurm.
    pub reach: Reach,
    /// Records of this NodeSet in Slurm without a pod.
    pub stale_nodes: &'a [StaleNode],
    /// The reservation in which scheduled updates happen.
    pub maintenance: &'a Maintenance,
    /// Permission to have Slurm reread its configuration, for nodes whose features select other partitions.
    pub moves: Moves,
}
