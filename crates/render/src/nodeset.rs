//! A NodeSet becomes worker pods; all NodeSets of a Controller share a Service and a disruption budget.

mod pod;
mod shared;
mod slurm;

use serde_json::{Value, json};
use slipway_api::{NodeSet, SlurmController, child::Child, digest, name};

use crate::Invalid;

pub(crate) use slurm::{slurm_lines, slurm_nodeset};

/// What a NodeSet refers to, resolved.
#[derive(Clone, Debug)]
pub struct References {
    pub controller: SlurmController,
    /// The cluster's DNS domain, such as `cluster.local`.
    pub cluster_domain: String,
}

/// The Service and the budget that `nodesets`, all those of one Controller, share.
///
/// Each of them renders the same objects, whichever looks first. Fails where the Controller's name leaves no room for theirs.
pub fn shared(namespace: &str, controller: &str, nodesets: &[NodeSet]) -> Result<Vec<Child>, Invalid> {
    name::check_controller(controller).map_err(|unfit| Invalid::name("spec.controllerRef.name", &unfit))?;
    Ok(vec![shared::service(namespace, controller, nodesets), shared::budget(namespace, controller, nodesets)])
}

/// The worker pod with this ordinal.
pub fn pod(nodeset: &NodeSet, references: &References, ordinal: u32) -> Result<Value, Invalid> {
    pod::pod(nodeset, references, ordinal)
}

/// Hash of what the user wrote about the pods; a pod with another one was made from an older template.
///
/// Nothing that we generate goes in: a new version of the operator must not make every worker look outdated.
pub fn template_hash(nodeset: &NodeSet) -> String {
    let spec = &nodeset.spec;
    digest::short_of_json(&json!({
        "template": spec.template,
        "slurmd": spec.slurmd,
        "logfile": spec.logfile,
        "extraConf": spec.extra_conf,
        "oversubscribeNode": spec.oversubscribe_node,
    }))
}

#[cfg(test)]
mod tests;
