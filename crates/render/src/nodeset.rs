//! A NodeSet becomes worker pods; all NodeSets of a Controller share a Service and a disruption budget.

mod pod;
mod shared;

use serde_json::{Value, json};
use slipway_api::{NodeSet, SlurmController, child::Child, digest};

use crate::Invalid;

/// What a NodeSet refers to, resolved.
#[derive(Clone, Debug)]
pub struct References {
    pub controller: SlurmController,
    /// The cluster's DNS domain, such as `cluster.local`.
    pub cluster_domain: String,
}

/// The Service and the budget that `nodesets`, all those of one Controller, share.
///
/// Each of them renders the same objects, whichever looks first.
pub fn shared(namespace: &str, controller: &str, nodesets: &[NodeSet]) -> Vec<Child> {
    vec![shared::service(namespace, controller, nodesets), shared::budget(namespace, controller, nodesets)]
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
