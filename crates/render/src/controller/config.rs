use std::collections::BTreeMap;

use serde_json::json;
use slipway_api::{
    NodeSet, SlurmController,
    child::{Child, ChildKind},
    image,
    label::Component,
    name, owner,
};
use slipway_slurm::{
    cgroup,
    conf::{ControllerHost, Layout, NodeSetLine, SlurmConf},
    name::HostName,
};

use super::References;
use crate::{
    Invalid,
    metadata::Marks,
    nodeset::{slurm_lines, slurm_nodeset},
};

/// Where the images have things.
pub const LAYOUT: Layout = Layout {
    slurm_user: image::SLURM_USER,
    slurmctld_port: image::SLURMCTLD_PORT,
    slurmd_port: image::SLURMD_PORT,
    state_dir: image::STATE_DIR,
    slurmd_spool_dir: image::SLURMD_SPOOL_DIR,
    slurmctld_log: image::SLURMCTLD_LOG,
    slurmd_log: image::SLURMD_LOG,
    jwt_key: "/etc/slurm/jwt.key",
};

/// The ConfigMap with slurm.conf, and cgroup.conf unless the user brings one.
pub(super) fn config_map(controller: &SlurmController, references: &References) -> Result<Child, Invalid> {
    let (namespace, name) = crate::identity(&controller.metadata);
    let mut data = BTreeMap::from([(image::SLURM_CONF, slurm_conf(controller, &references.nodesets)?.text(&LAYOUT))]);
    let brings_cgroup_conf = references.config_files.iter().any(|files| files.files.iter().any(|file| file == image::CGROUP_CONF));
    if !brings_cgroup_conf {
        data.insert(image::CGROUP_CONF, cgroup::default_text());
    }

    let metadata = Marks::inherited(&controller.metadata).of(Component::Controller, name).of_object(&[owner::controller_of(controller)]);
    let body = json!({ "metadata": metadata, "data": data });
    Ok(Child::new(ChildKind::ConfigMap, namespace, &name::controller_config(name), body))
}

fn slurm_conf(controller: &SlurmController, nodesets: &[NodeSet]) -> Result<SlurmConf, Invalid> {
    let (namespace, name) = crate::identity(&controller.metadata);
    let host = |text: String| HostName::parse(&text).map_err(|error| Invalid::name("metadata.name", &error));
    let hosts = vec![ControllerHost {
        hostname: host(name::controller_pod(name, 0))?,
        address: host(name::controller_pod_dns(name, 0, namespace))?,
    }];
    let mut nodesets: Vec<&NodeSet> = nodesets.iter().collect();
    nodesets.sort_by_key(|nodeset| crate::identity(&nodeset.metadata).1);
    Ok(SlurmConf {
        cluster_name: super::cluster_name(controller)?,
        hosts,
        address: host(name::controller_dns(name, namespace))?,
        nodesets: nodesets.into_iter().filter_map(line).collect(),
        extra: controller.spec.extra_conf.clone().unwrap_or_default(),
    })
}

/// The lines of a NodeSet. One that is wrong says so itself and takes nobody with it: without a proper name it has no lines. With a wrong
/// partition it keeps its node set, because the user's own lines may name it, and slurmctld would not start without.
fn line(nodeset: &NodeSet) -> Option<NodeSetLine> {
    slurm_lines(nodeset).ok().or_else(|| slurm_nodeset(nodeset).ok().map(NodeSetLine::new))
}
