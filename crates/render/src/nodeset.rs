//! Renders a NodeSet as worker pods; all NodeSets of a Controller share a Service and a disruption budget.

mod claim;
pub mod gres;
mod pod;
pub mod revision;
mod shared;
pub(crate) mod slurm;
pub mod ssh;

use serde_json::Value;
use slipway_api::{NodeSet, SlurmController, child::Child, name};
use slipway_slurm::gres::Setup;

use crate::Invalid;

/// Resolved references of a NodeSet.
#[derive(Clone, Debug)]
pub struct References {
    pub controller: SlurmController,
    /// The cluster's DNS domain, such as `cluster.local`.
    pub cluster_domain: String,
    /// GRES settings in slurmctld's files, if known.
    pub gres: Option<Setup>,
    /// Hash of the sssd.conf of workers with ssh, if any.
    pub sssd_conf_hash: Option<String>,
    /// Hash of the revision that pods are rendered from.
    pub hash: String,
}

/// The Service and the budget that `nodesets`, all NodeSets of one Controller, share. The budget permits no eviction of the `protected` busy
/// workers.
///
/// Each NodeSet renders the same objects, whichever is reconciled first. Fails if the Controller's name is unfit for their names.
pub fn shared(namespace: &str, controller: &str, nodesets: &[NodeSet], protected: usize) -> Result<Vec<Child>, Invalid> {
    name::check_controller(controller).map_err(|unfit| Invalid::name("spec.controllerRef.name", &unfit))?;
    Ok(vec![shared::service(namespace, controller, nodesets), shared::budget(namespace, controller, nodesets, protected)])
}

/// The worker pod with this ordinal.
pub fn pod(nodeset: &NodeSet, references: &References, ordinal: u32) -> Result<Value, Invalid> {
    pod::pod(nodeset, references, ordinal)
}

/// The worker pod of this Kubernetes node with this hostname, in DaemonSet mode. [`pinned`] binds it to the node: its own node requirements are as
/// the user wrote them.
pub fn daemon_pod(nodeset: &NodeSet, references: &References, node: &str, hostname: &str) -> Result<Value, Invalid> {
    pod::daemon_pod(nodeset, references, node, hostname)
}

/// Hostname of the worker of this Kubernetes node, in DaemonSet mode: the node's override, else its name up to the first dot.
pub fn daemon_hostname(nodeset: &NodeSet, node: &str, hostname_override: Option<&str>) -> Result<String, Invalid> {
    slurm::daemon_hostname(nodeset, node, hostname_override)
}

/// Claims of a worker, to be created before its pod. `claimant` is the end of their names: the name of the pod, or in DaemonSet mode a
/// [`name::worker_claimant`].
pub fn claims(nodeset: &NodeSet, claimant: &str) -> Result<Vec<Value>, Invalid> {
    claim::claims(nodeset, claimant)
}

/// `pod` pinned to this Kubernetes node. This replaces its other node requirements, which must have been checked before.
pub fn pinned(pod: Value, node: &str) -> Value {
    pod::pinned(pod, node)
}

/// Minimum number of digits in the ordinals of a NodeSet. The schema accepts only numbers up to 18.
pub fn padding(nodeset: &NodeSet) -> usize {
    usize::try_from(nodeset.spec.ordinal_padding).unwrap_or(0)
}

#[cfg(test)]
mod tests;
