//! slurm.conf of a Controller and its NodeSets.

use std::collections::BTreeMap;

use slipway_api::{NodeSet, SlurmController, image, name};
use slipway_slurm::{
    conf::{self, ControllerHost, ExternalConf, Layout, NodeSetLine, SlurmConf},
    name::{HostName, NodeSetName},
};

use super::{
    AccountingHost,
    address::{external_host, host_and_port},
    replicas,
};
use crate::{
    Invalid,
    nodeset::slurm::{slurm_lines, slurm_nodeset},
};

/// User, ports and paths in the images.
pub const LAYOUT: Layout = Layout {
    slurm_user: image::SLURM_USER,
    slurmctld_port: image::SLURMCTLD_PORT,
    slurmd_port: image::SLURMD_PORT,
    state_dir: image::STATE_DIR,
    slurmd_spool_dir: image::SLURMD_SPOOL_DIR,
    slurmctld_log: image::SLURMCTLD_LOG,
    slurmd_log: image::SLURMD_LOG,
    config_dir: image::CONFIG_DIR,
    jwt_key: image::JWT_KEY_FILE,
    jwks: image::JWKS_FILE,
};

/// slurm.conf of a slurmctld that runs here, and notes on what was left out.
pub(super) fn full(
    controller: &SlurmController,
    nodesets: &[NodeSet],
    accounting: Option<conf::AccountingHost>,
    scripts: conf::Scripts,
    has_jwks: bool,
) -> Result<(SlurmConf, Vec<String>), Invalid> {
    let (namespace, name) = crate::identity(&controller.metadata);
    let spec = &controller.spec;
    let host = |text: String| HostName::parse(&text).map_err(|error| Invalid::name("metadata.name", &error));
    let has_backups = replicas(controller) > 1;
    let hosts = (0..replicas(controller)).map(|index| {
        // A pod's own DNS name does not resolve while the pod is absent, and clients wait for it. The DNS name of its Service always resolves, and
        // connections are refused immediately. A single slurmctld needs neither: clients use `address` below.
        let address = if has_backups {
            name::controller_pod_service_dns(name, index, namespace)
        } else {
            name::controller_pod_dns(name, index, namespace)
        };
        Ok(ControllerHost { hostname: host(name::controller_pod(name, index))?, address: host(address)? })
    });
    let (nodesets, notes) = lines(nodesets);
    let conf = SlurmConf {
        cluster_name: super::cluster_name(controller)?,
        hosts: hosts.collect::<Result<_, Invalid>>()?,
        address: if has_backups { None } else { Some(host(name::controller_dns(name, namespace))?) },
        has_jwks,
        has_metrics: spec.metrics.as_ref().is_some_and(|metrics| metrics.enabled),
        accounting,
        scripts,
        nodesets,
        extra: spec.extra_conf.clone().unwrap_or_default(),
    };
    Ok((conf, notes))
}

/// slurm.conf for clients of an external slurmctld.
pub(super) fn external(controller: &SlurmController, accounting: Option<conf::AccountingHost>) -> Result<ExternalConf, Invalid> {
    let (host, port) = external_host(controller)?;
    Ok(ExternalConf { cluster_name: super::cluster_name(controller)?, host, port, accounting })
}

pub(super) fn accounting_host(accounting: Option<&AccountingHost>) -> Result<Option<conf::AccountingHost>, Invalid> {
    let Some(AccountingHost { host, port }) = accounting else { return Ok(None) };
    let (host, port) = host_and_port(host, *port, " of the Accounting")?;
    Ok(Some(conf::AccountingHost { host, port }))
}

/// Lines of all NodeSets, sorted by NodeSet name, and a note for each NodeSet that was left out.
///
/// If two NodeSets have the same name in Slurm, the older one keeps its lines: slurmctld exits on a duplicate partition.
fn lines(nodesets: &[NodeSet]) -> (Vec<NodeSetLine>, Vec<String>) {
    fn own(nodeset: &NodeSet) -> &str {
        crate::identity(&nodeset.metadata).1
    }
    let mut by_age: Vec<&NodeSet> = nodesets.iter().collect();
    by_age.sort_by_key(|nodeset| (nodeset.metadata.creation_timestamp.as_ref().map(|created| created.0), own(nodeset)));
    let mut taken: BTreeMap<NodeSetName, &NodeSet> = BTreeMap::new();
    let (mut lines, mut notes) = (BTreeMap::new(), BTreeMap::new());
    for nodeset in by_age {
        let Ok(name) = slurm_nodeset(nodeset) else { continue };
        if let Some(older) = taken.get(&name) {
            let note = format!(
                "NodeSet `{}` is left out of slurm.conf, because its nodes are called `{name}` like those of the older NodeSet `{}`: \
                 give it another name or another spec.template.spec.hostname",
                own(nodeset),
                own(older)
            );
            notes.insert(own(nodeset), note);
        } else {
            taken.insert(name, nodeset);
            lines.extend(line(nodeset).map(|line| (own(nodeset), line)));
        }
    }
    (lines.into_values().collect(), notes.into_values().collect())
}

/// Lines of a NodeSet, or `None` if its name is invalid. An invalid NodeSet reports its own error and does not affect others. With an invalid
/// partition it keeps its node set, because the user's own lines may name it, and slurmctld would not start without it.
fn line(nodeset: &NodeSet) -> Option<NodeSetLine> {
    slurm_lines(nodeset).ok().or_else(|| slurm_nodeset(nodeset).ok().map(NodeSetLine::new))
}
