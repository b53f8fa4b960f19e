//! Kubernetes nodes: one watch for all scopes, as nodes are not namespaced.
//!
//! Every node changes every few minutes, when its kubelet sends a heartbeat. That triggers no reconcile: only changes that affect decisions do.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{StreamExt, channel::mpsc::UnboundedReceiver};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use slipway_api::{API_VERSION, NodeSet, ScalingMode};
use slipway_runtime::{
    health::Health,
    hub::{Filled, Hub},
    metrics::Metrics,
    tasks::Tasks,
    view::{NodeConditionView, NodeView, PodView},
};
use tokio_util::sync::CancellationToken;

/// Watch on Kubernetes nodes.
pub(crate) struct NodeWatch {
    hub: Hub<NodeView>,
    /// True if the change that is being routed is more than a heartbeat.
    is_news: Arc<AtomicBool>,
}

impl NodeWatch {
    /// `propagated` are the types of the conditions whose reason and message matter. Of all others only the status does.
    pub(crate) fn new(propagated: Arc<[String]>, health: &Health, metrics: &Metrics) -> Self {
        let mut hub: Hub<NodeView> = Hub::new((), health.gate("nodes"), metrics.clone());
        let (store, filled, is_news) = (hub.store(), hub.filled(), Arc::new(AtomicBool::new(false)));
        let (seen, verdict) = (Mutex::new(HashMap::new()), is_news.clone());
        // Must be the first route, so that later routes see the verdict. It enqueues nothing.
        drop(hub.route(move |node: &NodeView| -> Vec<ObjectRef<NodeView>> {
            let now = store.get(&ObjectRef::from_obj(node)).map(|node| essence(&node, &propagated));
            let mut seen: std::sync::MutexGuard<'_, HashMap<String, u64>> = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let before = match now {
                Some(now) => seen.insert(node.name_any(), now),
                None => seen.remove(&node.name_any()),
            };
            // In the first list every node is new. Nothing has been reconciled yet, and everything will be.
            verdict.store(now != before && filled.is_filled(), Ordering::SeqCst);
            Vec::new()
        }));
        Self { hub, is_news }
    }

    /// The cache.
    pub(crate) fn store(&self) -> Store<NodeView> {
        self.hub.store()
    }

    /// Signals that the cache was filled.
    pub(crate) fn filled(&self) -> Filled {
        self.hub.filled()
    }

    /// Enqueues the NodeSets of one scope that are affected by a change of a node.
    pub(crate) fn route(&mut self, nodesets: &Store<NodeSet>, pods: &Store<PodView>) -> UnboundedReceiver<ObjectRef<NodeSet>> {
        let (nodesets, pods, is_news) = (nodesets.clone(), pods.clone(), self.is_news.clone());
        self.hub.route(move |node: &NodeView| if is_news.load(Ordering::SeqCst) { concerned(node, &nodesets, &pods) } else { Vec::new() })
    }

    /// Starts the watch.
    pub(crate) fn start(self, client: &Client, stop: &CancellationToken, tasks: &mut Tasks) {
        let events = watcher(Api::<NodeView>::all(client.clone()), watcher::Config::default());
        tasks.spawn("watch of nodes", self.hub.run(events.take_until(stop.clone().cancelled_owned())));
    }
}

/// The NodeSets with a pod on the node, and those that run a pod on every node.
fn concerned(node: &NodeView, nodesets: &Store<NodeSet>, pods: &Store<PodView>) -> Vec<ObjectRef<NodeSet>> {
    let name = node.metadata.name.as_deref();
    let mut found: Vec<ObjectRef<NodeSet>> =
        pods.state_filter(|pod| pod.node_name() == name).iter().filter_map(|pod| its_nodeset(pod)).collect();
    let everywhere = nodesets.state_filter(|nodeset| nodeset.spec.scaling_mode == ScalingMode::DaemonSet);
    found.extend(everywhere.iter().map(|nodeset| ObjectRef::from_obj(nodeset.as_ref())));
    found
}

fn its_nodeset(pod: &PodView) -> Option<ObjectRef<NodeSet>> {
    let mut owners = pod.owner_references().iter();
    let owner = owners.find(|owner| owner.api_version == API_VERSION && owner.kind == NodeSet::kind(&()))?;
    Some(ObjectRef::new(&owner.name).within(&pod.namespace().unwrap_or_default()))
}

/// Hash of everything about a node that affects decisions.
fn essence(node: &NodeView, propagated: &[String]) -> u64 {
    let NodeView { metadata, spec, status } = node;
    let mut hasher = DefaultHasher::new();
    (&metadata.uid, &metadata.labels, &metadata.annotations, metadata.deletion_timestamp.is_some(), spec).hash(&mut hasher);
    for NodeConditionView { type_, status, reason, message } in &status.conditions {
        (type_, status, propagated.contains(type_).then_some((reason, message))).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;
