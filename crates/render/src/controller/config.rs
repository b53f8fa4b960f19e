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
};

use super::References;
use crate::{Invalid, metadata::Marks};

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

/// Files that only the operator writes.
const RESERVED: [&str; 2] = [image::SLURM_CONF, "slurmdbd.conf"];

/// The ConfigMap with slurm.conf, and cgroup.conf unless the user brings one.
pub(super) fn config_map(controller: &SlurmController, references: &References) -> Result<Child, Invalid> {
    for files in &references.config_files {
        if let Some(file) = files.files.iter().find(|file| RESERVED.contains(&file.as_str())) {
            let problem = format!("names ConfigMap `{}`, which has a file `{file}`: use spec.extraConf for lines of your own", files.name);
            return Err(Invalid::new("spec.configFileRefs", problem));
        }
    }

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
    let cluster_name = super::cluster_name(controller);
    if !cluster_name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(Invalid::new("spec.clusterName", format!("is `{cluster_name}`: use letters, digits, `-`, `_` and `.` only")));
    }
    let hosts = vec![ControllerHost { hostname: name::controller_pod(name, 0), address: name::controller_pod_dns(name, 0, namespace) }];
    let mut lines: Vec<_> = nodesets.iter().map(|nodeset| (crate::identity(&nodeset.metadata).1, nodeset_line(nodeset))).collect();
    lines.sort_by_key(|(nodeset, _)| *nodeset);
    Ok(SlurmConf {
        cluster_name,
        hosts,
        address: name::controller_dns(name, namespace),
        nodesets: lines.into_iter().map(|(_, line)| line).collect(),
        extra: controller.spec.extra_conf.clone().unwrap_or_default(),
    })
}

fn nodeset_line(nodeset: &NodeSet) -> NodeSetLine {
    let hostname = nodeset.spec.template.as_ref().and_then(|template| template.hostname());
    let partition = nodeset.spec.partition.clone().filter(|partition| partition.enabled);
    NodeSetLine {
        name: name::slurm_nodeset(crate::identity(&nodeset.metadata).1, hostname),
        partition: partition.map(|partition| partition.config.unwrap_or_default()),
    }
}
