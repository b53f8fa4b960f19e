//! Nodes in Slurm that belong to a NodeSet and have no pod.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures::future::join_all;
use kube::{Api, ResourceExt, runtime::reflector::ObjectRef};
use slipway_api::{NodeSet, ScalingMode, annotation::HOSTNAME_OVERRIDE, name, slurm_node::PodInfo};
use slipway_plan::{
    Action,
    nodeset::{Record, StaleNode, Worker},
};
use slipway_render::nodeset as render;
use slipway_runtime::view::{NodeView, PodView};
use slipway_slurm::rest::model::{Node, NodeState};

use super::slurm::Cluster;
use crate::world::context::Context;

/// Pods queried by name in one reconcile. More would exceed its time limit; the rest follows in the next one.
const MOST_BY_NAME: usize = 100;
/// Number of concurrent queries.
const SIDE_BY_SIDE: usize = 10;

/// The NodeSet's records in Slurm for which the caches have no pod. Empty if the snapshot is not fresh.
pub(super) fn observe_stale_nodes(nodeset: &NodeSet, workers: &[Worker], cluster: &Cluster<'_>, context: &Context) -> Vec<StaleNode> {
    let family = Family::of(nodeset, context);
    let nodes: HashSet<&str> = workers.iter().map(|worker| worker.node.as_str()).collect();
    let pods: HashSet<&str> = workers.iter().map(|worker| worker.name.as_str()).collect();
    let without_worker = cluster.records().filter(|record| !nodes.contains(record.name.as_str()));
    let stale_nodes = without_worker.filter_map(|record| family.member(record)).filter(|(_, pod, _)| !pods.contains(pod.as_str()));
    // A pod that the NodeSet does not control, or no longer controls, is still a pod.
    let stale_nodes = stale_nodes.filter(|(_, pod, _)| context.stores.pods.get(&ObjectRef::new(pod).within(&family.namespace)).is_none());
    stale_nodes
        .map(|(record, pod, info)| StaleNode {
            node: record.name.clone(),
            pod,
            in_slurm: cluster.node(&record.name),
            record: Record::default(),
            info,
        })
        .collect()
}

/// Queries the API server for the pod of every node to be set DOWN or deleted, as the cache may be stale. Keeps in `actions` only nodes on which
/// nothing can run any more. True if a node was dropped.
pub(super) async fn confirm_gone(
    actions: &mut Vec<Action>,
    stale_nodes: &[StaleNode],
    workers: &[Worker],
    namespace: &str,
    context: &Context,
) -> bool {
    let down: BTreeSet<&str> = actions.iter().filter_map(taken_away).flatten().map(String::as_str).collect();
    if down.is_empty() {
        return false;
    }
    let stale_nodes = stale_nodes.iter().map(|StaleNode { node, pod, .. }| Suspect { node, pod, ended: None });
    let ended = workers.iter().map(|Worker { node, name, uid, .. }| Suspect { node, pod: name, ended: Some(uid) });
    let suspects: Vec<Suspect<'_>> = stale_nodes.chain(ended).filter(|suspect| down.contains(suspect.node)).take(MOST_BY_NAME).collect();
    let api: Api<PodView> = Api::namespaced(context.client.clone(), namespace);
    let mut gone = BTreeSet::new();
    for some in suspects.chunks(SIDE_BY_SIDE) {
        let answers = join_all(some.iter().map(|suspect| suspect.is_gone(&api))).await;
        gone.extend(some.iter().zip(answers).filter(|(_, is_gone)| *is_gone).map(|(suspect, _)| suspect.node.to_owned()));
    }
    let is_unconfirmed = gone.len() < down.len();
    for action in actions.iter_mut() {
        if let Action::SetDown { nodes, .. } | Action::Forget { nodes, .. } = action {
            nodes.retain(|node| gone.contains(node));
        }
    }
    actions.retain(|action| taken_away(action).is_none_or(|nodes| !nodes.is_empty()));
    is_unconfirmed
}

/// A node to be set DOWN or deleted.
struct Suspect<'a> {
    node: &'a str,
    pod: &'a str,
    /// UID of the pod, if it has ended and may still exist.
    ended: Option<&'a str>,
}

impl Suspect<'_> {
    /// True if the API server confirms that nothing runs there. A pod that cannot be queried does not count as gone.
    async fn is_gone(&self, api: &Api<PodView>) -> bool {
        match api.get_opt(self.pod).await {
            Ok(None) => true,
            Ok(Some(found)) => self.ended.is_some() && found.uid().as_deref() == self.ended && found.is_ended(),
            Err(error) => {
                tracing::warn!(pod = self.pod, node = self.node, %error, "cannot determine whether the pod still exists");
                false
            }
        }
    }
}

fn taken_away(action: &Action) -> Option<&Vec<String>> {
    match action {
        Action::SetDown { nodes, .. } | Action::Forget { nodes, .. } => Some(nodes),
        _ => None,
    }
}

/// Properties that identify a NodeSet's records.
struct Family {
    namespace: String,
    nodeset: String,
    uid: String,
    /// The template's hostname, which is the prefix of its node names.
    prefix: Option<String>,
    padding: usize,
    /// The feature that its nodes register with.
    feature: String,
    /// Worker pods by hostname, in DaemonSet mode.
    daemons: HashMap<String, String>,
    /// True if workers of other Kubernetes clusters may be in the same Slurm cluster under the same names.
    is_shared: bool,
}

impl Family {
    fn of(nodeset: &NodeSet, context: &Context) -> Self {
        let (namespace, name) = (nodeset.namespace().unwrap_or_default(), nodeset.name_any());
        let prefix = nodeset.spec.template.as_ref().and_then(|template| template.hostname()).map(str::to_owned);
        let controller = context.stores.controller(&namespace, &nodeset.spec.controller_ref.name);
        Self {
            uid: nodeset.uid().unwrap_or_default(),
            padding: usize::try_from(nodeset.spec.ordinal_padding).unwrap_or(0),
            feature: name::slurm_nodeset(&name, prefix.as_deref()),
            is_shared: controller.is_none_or(|controller| controller.spec.external),
            daemons: daemons(nodeset, context),
            prefix,
            nodeset: name,
            namespace,
        }
    }

    /// A record of the NodeSet with its current or former pod, or `None` if it is not the NodeSet's. Identified by the link in its comment. Without
    /// one, by name and feature: a newly registered node has no comment yet.
    fn member<'r>(&self, record: &'r Node) -> Option<(&'r Node, String, Option<PodInfo>)> {
        let names_us = record.comment.contains(&self.nodeset) || record.comment.contains(&self.uid);
        match names_us.then(|| PodInfo::parse(&record.comment)).flatten() {
            Some(info) => self.claims(record, &info).then(|| (record, info.pod_name.clone(), Some(info))),
            None if record.comment.starts_with('{') => None, // JSON of another owner
            None => {
                // A node that responds has an owner. In a shared cluster that may be a foreign one, so the node does not count as ours.
                let may_be_strange = self.is_shared && !record.state.has(&NodeState::NotResponding);
                let pod = self.pod_of(record).filter(|_| !may_be_strange)?;
                Some((record, pod, None))
            }
        }
    }

    /// True if the link names a pod of this NodeSet, or of a former one with the same name.
    fn claims(&self, record: &Node, info: &PodInfo) -> bool {
        let PodInfo { namespace, pod_name, node_set_name, node_set_uid, .. } = info;
        let is_its = match (node_set_name.as_str(), node_set_uid.as_str()) {
            ("", "") => self.pod_of(record).as_ref() == Some(pod_name),
            (name, "") => name == self.nodeset,
            (name, uid) => uid == self.uid || (name == self.nodeset && !self.is_shared),
        };
        *namespace == self.namespace && !pod_name.is_empty() && is_its
    }

    /// The pod of this record by hostname and feature, or `None` if the NodeSet does not assign these.
    fn pod_of(&self, record: &Node) -> Option<String> {
        let has_feature = record.features.contains(&self.feature);
        if let Some(daemon) = self.daemons.get(&record.name).filter(|_| has_feature) {
            return Some(daemon.clone());
        }
        let own = format!("{}-", self.nodeset);
        let ordinal = record.name.strip_prefix(self.prefix.as_deref().unwrap_or(&own))?.parse().ok()?;
        let is_hostname = name::padded_worker_hostname(&self.nodeset, self.prefix.as_deref(), ordinal, self.padding) == record.name;
        (is_hostname && has_feature).then(|| name::padded_worker_pod(&self.nodeset, ordinal, self.padding))
    }
}

/// Worker pods by hostname, in DaemonSet mode.
fn daemons(nodeset: &NodeSet, context: &Context) -> HashMap<String, String> {
    if nodeset.spec.scaling_mode != ScalingMode::DaemonSet {
        return HashMap::new();
    }
    let nodes = context.stores.nodes.state();
    let pod = |node: &NodeView| {
        let hostname_override = node.annotations().get(HOSTNAME_OVERRIDE).map(String::as_str);
        let hostname = render::daemon_hostname(nodeset, &node.name_any(), hostname_override).ok()?;
        Some((hostname, name::daemon_pod(&nodeset.name_any(), &node.name_any())))
    };
    nodes.iter().filter_map(|node| pod(node)).collect()
}

#[cfg(test)]
mod tests;
