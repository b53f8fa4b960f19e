//! A NodeSet becomes worker pods; all NodeSets of a Controller share a Service and a disruption budget.

mod claim;
pub mod gres;
mod pod;
pub mod revision;
mod shared;
mod slurm;
pub mod ssh;

use serde_json::Value;
use slipway_api::{NodeSet, SlurmController, child::Child, name};
use slipway_slurm::gres::Setup;

use crate::Invalid;

pub(crate) use slurm::{slurm_lines, slurm_nodeset};

/// What a NodeSet refers to, resolved.
#[derive(Clone, Debug)]
pub struct References {
    pub controller: SlurmController,
    /// The cluster's DNS domain, such as `cluster.local`.
    pub cluster_domain: String,
    /// What slurmctld's files say about GRES, where that is known.
    pub gres: Option<Setup>,
    /// Of the sssd.conf that workers with ssh have, if any.
    pub sssd_conf_hash: Option<String>,
    /// Of the revision that pods are made from.
    pub hash: String,
}

/// The Service and the budget that `nodesets`, all those of one Controller, share. The budget lets none of `protected` busy workers be evicted.
///
/// Each of them renders the same objects, whichever looks first. Fails where the Controller's name leaves no room for theirs.
pub fn shared(namespace: &str, controller: &str, nodesets: &[NodeSet], protected: usize) -> Result<Vec<Child>, Invalid> {
    name::check_controller(controller).map_err(|unfit| Invalid::name("spec.controllerRef.name", &unfit))?;
    Ok(vec![shared::service(namespace, controller, nodesets), shared::budget(namespace, controller, nodesets, protected)])
}

/// The worker pod with this ordinal.
pub fn pod(nodeset: &NodeSet, references: &References, ordinal: u32) -> Result<Value, Invalid> {
    pod::pod(nodeset, references, ordinal)
}

/// The worker pod of this Kubernetes node, in DaemonSet mode, with this hostname. It is for [`pinned`] to bind it to the node: what it demands of nodes is
/// as the user wrote it.
pub fn daemon_pod(nodeset: &NodeSet, references: &References, node: &str, hostname: &str) -> Result<Value, Invalid> {
    pod::daemon_pod(nodeset, references, node, hostname)
}

/// The hostname of the worker of this Kubernetes node, in DaemonSet mode: the node's own word, else its name up to the first dot.
pub fn daemon_hostname(nodeset: &NodeSet, node: &str, hostname_override: Option<&str>) -> Result<String, Invalid> {
    slurm::daemon_hostname(nodeset, node, hostname_override)
}

/// The claims of a worker, to be made before its pod. `claimant` is what their names end with: the name of the pod, or in DaemonSet mode a
/// [`name::worker_claimant`].
pub fn claims(nodeset: &NodeSet, claimant: &str) -> Result<Vec<Value>, Invalid> {
    claim::claims(nodeset, claimant)
}

/// `pod` for this Kubernetes node and no other. What else it demands of nodes must have been checked: this takes the place of it.
pub fn pinned(pod: Value, node: &str) -> Value {
    pod::pinned(pod, node)
}

/// How many digits the ordinals of a NodeSet have at least. The schema lets nothing else through than a number up to 18.
pub fn padding(nodeset: &NodeSet) -> usize {
    usize::try_from(nodeset.spec.ordinal_padding).unwrap_or(0)
}

#[cfg(test)]
mod tests;
