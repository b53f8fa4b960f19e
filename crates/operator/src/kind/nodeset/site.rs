//! Kubernetes nodes as slots for workers in DaemonSet mode.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::Value;
use slipway_api::{NodeSet, ScalingMode, annotation, label, label::Component, name};
use slipway_plan::nodeset::{
    Layout, Site, Sites, Slot, StaleNode, Worker,
    fit::{Demands, Fit},
};
use slipway_render::nodeset as render;
use slipway_runtime::view::{NodeView, PodView};

use super::pin::fit;
use crate::world::{context::Context, owner::is_ours};

/// Placeholder node name: the demands of pods do not depend on it.
const ANY: &str = "node";

/// A pod of the NodeSet as it would be created now, bound to no node. `last` is the highest ordinal, which has the longest name.
pub(super) fn sample(nodeset: &NodeSet, references: &render::References, last: u32) -> Result<Value, slipway_render::Invalid> {
    match nodeset.spec.scaling_mode {
        ScalingMode::StatefulSet => render::pod(nodeset, references, last),
        ScalingMode::DaemonSet => render::daemon_pod(nodeset, references, ANY, ANY),
    }
}

/// The pod for a slot.
pub(super) fn pod(
    nodeset: &NodeSet,
    references: &render::References,
    slot: &Slot,
    hostname: &str,
    pin: impl Fn(u32) -> Option<String>,
) -> Result<Value, slipway_render::Invalid> {
    match slot {
        Slot::Node(node) => render::daemon_pod(nodeset, references, node, hostname).map(|pod| render::pinned(pod, node)),
        Slot::Ordinal(ordinal) => render::pod(nodeset, references, *ordinal).map(|pod| match pin(*ordinal) {
            Some(node) => render::pinned(pod, &node),
            None => pod,
        }),
    }
}

/// Slots for the workers of a NodeSet.
pub(super) enum Places {
    Numbered(usize),
    PerNode(Sites),
    /// The pods' demands on nodes are not known now. This many workers were wanted before.
    Untold(usize),
}

impl Places {
    /// `pod` is a [`sample`], if one could be rendered.
    pub(super) fn observe(nodeset: &NodeSet, pod: Option<&Value>, workers: &[Worker], context: &Context) -> Self {
        if nodeset.spec.scaling_mode == ScalingMode::StatefulSet {
            return Self::Numbered(usize::try_from(nodeset.spec.replicas).unwrap_or(0));
        }
        let Some(demands) = pod.and_then(|pod| Demands::parse(&pod["spec"]).ok()) else {
            let before = nodeset.status.as_ref().and_then(|status| status.desired).and_then(|desired| usize::try_from(desired).ok());
            return Self::Untold(before.unwrap_or(0));
        };
        let nodes = context.stores.nodes.state();
        let sites = nodes.iter().map(|node| (node.name_any(), site(nodeset, &demands, node))).collect();
        Self::PerNode(Sites::new(sites, workers, &hostnames_of_others(nodeset, context)))
    }

    pub(super) fn layout(&self) -> Layout<'_> {
        match self {
            Self::Numbered(_) => Layout::Numbered,
            Self::PerNode(sites) => Layout::PerNode(sites),
            Self::Untold(_) => Layout::Untold,
        }
    }

    /// Slots of the pods of these records, present or future; `None` if no worker is wanted.
    pub(super) fn slots_of(&self, nodeset: &str, stale_nodes: &[StaleNode]) -> Vec<Option<Slot>> {
        match self {
            Self::Numbered(_) => {
                stale_nodes.iter().map(|stale_node| name::worker_ordinal(nodeset, &stale_node.pod).map(Slot::Ordinal)).collect()
            }
            Self::PerNode(sites) => {
                let wanted = sites.iter().filter(|(_, site)| site.is_wanted());
                let by_hostname: BTreeMap<&str, &str> = wanted.map(|(node, site)| (site.hostname.as_str(), node)).collect();
                stale_nodes
                    .iter()
                    .map(|stale_node| by_hostname.get(stale_node.node.as_str()).map(|node| Slot::Node((*node).to_owned())))
                    .collect()
            }
            Self::Untold(_) => stale_nodes.iter().map(|_| None).collect(),
        }
    }

    /// Maximum number of workers still to be created.
    pub(super) fn missing(&self, workers: &[Worker]) -> usize {
        let numbered = || workers.iter().filter(|worker| worker.slot.ordinal().is_some()).count();
        match self {
            Self::Numbered(replicas) => replicas.saturating_sub(numbered()),
            // A Kubernetes node with a worker has no stale record.
            Self::PerNode(sites) => sites.wanted(),
            Self::Untold(_) => 0,
        }
    }

    /// Number of wanted workers.
    pub(super) fn wanted(&self) -> usize {
        match self {
            Self::Numbered(replicas) | Self::Untold(replicas) => *replicas,
            Self::PerNode(sites) => sites.wanted(),
        }
    }
}

fn site(nodeset: &NodeSet, demands: &Demands, node: &NodeView) -> Site {
    let name = node.name_any();
    let is_going = node.metadata.deletion_timestamp.is_some();
    let hostname = render::daemon_hostname(nodeset, &name, node.annotations().get(annotation::HOSTNAME_OVERRIDE).map(String::as_str));
    let (hostname, refusal) = match hostname {
        Ok(hostname) => (hostname, None),
        Err(wrong) => (String::new(), Some(format!("node `{name}` gets no new worker: {wrong}"))),
    };
    // A terminating node gets no new worker. A worker on it is left alone, as on a deleted node.
    let fit = match fit(demands, node) {
        Fit::Yes if is_going => Fit::Keeps,
        fit => fit,
    };
    Site { hostname, fit, refusal }
}

/// Hostnames of workers of the cluster's other NodeSets, with their pods.
fn hostnames_of_others(nodeset: &NodeSet, context: &Context) -> BTreeMap<String, String> {
    let uid = nodeset.uid().unwrap_or_default();
    let own = Component::Worker.selector(&nodeset.name_any());
    let is_other = |pod: &PodView| {
        let is_of_cluster = pod.metadata.namespace == nodeset.metadata.namespace
            && pod.labels().get(label::CLUSTER) == Some(&nodeset.spec.controller_ref.name)
            && pod.labels().contains_key(label::POD_HOSTNAME);
        // An orphan of ours is about to be adopted.
        let is_like_ours = own.iter().all(|(key, value)| pod.labels().get(*key) == Some(value));
        is_of_cluster && !is_like_ours && !is_ours(pod, &uid, context) && !pod.is_ended()
    };
    let pods = context.stores.pods.state_filter(is_other);
    pods.iter().filter_map(|pod| Some((pod.labels().get(label::POD_HOSTNAME)?.clone(), pod.name_any()))).collect()
}
