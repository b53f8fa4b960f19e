//! Slurm configuration of a NodeSet.

use serde_json::Value;
use slipway_api::{NodeSet, Raw, annotation, name};
use slipway_slurm::{
    conf::{NodeSetLine, PartitionOptions},
    dynamic::NodeItems,
    gres::Gres,
    name::{NodeName, NodeSetName},
    topology::Topology,
};

use crate::Invalid;

/// Source of a worker's Slurm name, and its field: the template's hostname, else the NodeSet's own name.
fn source(nodeset: &NodeSet) -> (Option<&str>, &'static str) {
    let hostname = nodeset.spec.template.as_ref().and_then(|template| template.hostname());
    (hostname, if hostname.is_some() { "spec.template.spec.hostname" } else { "metadata.name" })
}

/// True if pods have the network and the hostname of their Kubernetes node. That hostname is then also their name in Slurm, whatever we set.
pub(super) fn is_on_host_network(user: Option<&Raw>) -> bool {
    user.and_then(|user| user.0.get("hostNetwork")).and_then(Value::as_bool).unwrap_or(false)
}

/// Slurm's name for the nodes of a NodeSet: its node set, its baseline feature and its partition.
pub(crate) fn slurm_nodeset(nodeset: &NodeSet) -> Result<NodeSetName, Invalid> {
    let (hostname, field) = source(nodeset);
    let text = name::slurm_nodeset(crate::identity(&nodeset.metadata).1, hostname);
    NodeSetName::parse(&text).map_err(|error| Invalid::name(field, &error))
}

/// The lines of slurm.conf for a NodeSet. While it is being deleted, it keeps its lines until they are no longer needed, and its partition takes no
/// new jobs.
pub(crate) fn slurm_lines(nodeset: &NodeSet) -> Result<NodeSetLine, Invalid> {
    let lines = open_lines(nodeset)?;
    Ok(if nodeset.metadata.deletion_timestamp.is_some() { lines.closed() } else { lines })
}

fn open_lines(nodeset: &NodeSet) -> Result<NodeSetLine, Invalid> {
    let line = NodeSetLine::new(slurm_nodeset(nodeset)?);
    let Some(partition) = nodeset.spec.partition.as_ref().filter(|partition| partition.enabled) else { return Ok(line) };
    let options = PartitionOptions::parse(partition.config.as_deref().unwrap_or_default())
        .map_err(|error| Invalid::new("spec.partition.config", error.to_string()))?;
    line.with_partition(options).map_err(|error| Invalid::name(source(nodeset).1, &error))
}

/// The hostname of `pod`, which is also its Slurm node name.
pub(super) fn hostname(nodeset: &NodeSet, pod: &str, ordinal: u32) -> Result<String, Invalid> {
    let (hostname, field) = source(nodeset);
    let name = crate::identity(&nodeset.metadata).1;
    let text = name::padded_worker_hostname(name, hostname, ordinal, super::padding(nodeset));
    name::check_nodeset(name).map_err(|unfit| Invalid::name("metadata.name", &unfit))?;
    name::check_worker(pod, &text).map_err(|unfit| Invalid::name(field, &unfit))?;
    NodeName::parse(&text).map_err(|error| Invalid::name(field, &error))?;
    Ok(text)
}

/// The hostname of the worker of a Kubernetes node. On the host's network it is the host's own, whatever the override.
pub(super) fn daemon_hostname(nodeset: &NodeSet, node: &str, hostname_override: Option<&str>) -> Result<String, Invalid> {
    let name = crate::identity(&nodeset.metadata).1;
    let is_on_host = is_on_host_network(nodeset.spec.template.as_ref().and_then(|template| template.spec.as_ref()));
    let hostname_override = hostname_override.filter(|_| !is_on_host);
    let text = name::daemon_hostname(node, hostname_override);
    let field = match hostname_override {
        Some(_) => format!("annotation {} of node `{node}`", annotation::HOSTNAME_OVERRIDE),
        None => format!("the name of node `{node}`"),
    };
    name::check_nodeset(name).map_err(|unfit| Invalid::name("metadata.name", &unfit))?;
    name::check_worker(&name::daemon_pod(name, node), text).map_err(|unfit| Invalid::name(&field, &unfit))?;
    NodeName::parse(text).map_err(|error| Invalid::name(&field, &error))?;
    Ok(text.to_owned())
}

/// Items with which the node registers at slurmctld. A known topology is written out: a reference to the environment would need a shell between us
/// and slurmd, which not every image has.
pub(super) fn node_items(nodeset: &NodeSet, topology: Option<&str>, gres: Option<&Gres>) -> Result<String, Invalid> {
    let mut items = NodeItems::default();
    if let Some(gres) = gres {
        items.set_gres(gres);
    }
    items.add_feature(slurm_nodeset(nodeset)?.feature());
    if let Some(topology) = topology.filter(|topology| !topology.is_empty()) {
        let field = format!("annotation {} of the pods", annotation::TOPOLOGY);
        items.set_topology(&Topology::parse(topology).map_err(|error| Invalid::name(&field, &error))?);
    }
    items
        .parse(nodeset.spec.extra_conf.as_deref().unwrap_or_default())
        .map_err(|error| Invalid::new("spec.extraConf", error.to_string()))?;
    Ok(items.text())
}
