//! A NodeSet's workers, from what the caches hold.

use std::collections::BTreeMap;

use kube::ResourceExt;
use slipway_api::{NodeSet, annotation, label, name};
use slipway_plan::nodeset::{InSlurm, Leave, Shown, Stage, Worker};
use slipway_render::nodeset as render;
use slipway_runtime::view::PodView;

use super::slurm::Cluster;
use crate::{context::Context, memory::is_recent};

/// The NodeSet's pods: those in the cache, and those that we just created and the cache has yet to show.
pub(super) fn observe_workers(nodeset: &NodeSet, cluster: &Cluster<'_>, context: &Context) -> Vec<Worker> {
    let (name, uid) = (nodeset.name_any(), nodeset.uid().unwrap_or_default());
    let now = context.clock.now();
    let hash = render::template_hash(nodeset);
    let pods = context.stores.pods.state_filter(|pod| pod.metadata.namespace == nodeset.metadata.namespace && is_controlled_by(pod, &uid));
    let mut workers: BTreeMap<String, Worker> = BTreeMap::new();
    for pod in pods {
        if let Some(worker) = worker(&name, &hash, &pod, cluster, context) {
            workers.insert(worker.name.clone(), worker);
        }
    }
    let unseen = context.memory.created.sweep(|(owner, pod), at| is_recent(*at, now) && (*owner != uid || !workers.contains_key(pod)));
    for (_, pod) in unseen.into_iter().filter(|(owner, _)| *owner == uid) {
        let Some(ordinal) = name::worker_ordinal(&name, &pod) else { continue };
        let new = Worker {
            name: pod.clone(),
            ordinal,
            uid: String::new(),
            stage: Stage::Starting,
            ready_since: None,
            available_from: None,
            gone_by: None,
            host: None,
            is_current: true,
            deletion_cost: 0,
            is_cordoned: false,
            leave: Leave::WhenEmpty,
            node: pod.clone(),
            in_slurm: InSlurm::unknown("its pod was just created"),
            shown: Shown::default(),
            trouble: None,
        };
        workers.insert(pod, new);
    }
    workers.into_values().collect()
}

/// Whether we know of the pod only because we created it.
pub(super) fn is_unseen(worker: &Worker) -> bool {
    worker.uid.is_empty()
}

fn is_controlled_by(pod: &PodView, uid: &str) -> bool {
    pod.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

fn worker(nodeset: &str, hash: &str, pod: &PodView, cluster: &Cluster<'_>, context: &Context) -> Option<Worker> {
    let name = pod.name_any();
    let uid = pod.uid().unwrap_or_default();
    let is_deleted = context.memory.deleted.get(&uid).is_some_and(|at| is_recent(at, context.clock.now()));
    let node = pod.labels().get(label::POD_HOSTNAME).cloned().unwrap_or_else(|| name.clone());
    let stage = match pod {
        _ if is_deleted || pod.is_going() => Stage::Going,
        _ if pod.is_ended() => Stage::Ended,
        _ if pod.is_ready() => Stage::Ready,
        _ => Stage::Starting,
    };
    Some(Worker {
        ordinal: name::worker_ordinal(nodeset, &name)?,
        stage,
        ready_since: None,
        available_from: None,
        gone_by: None,
        host: None,
        is_current: pod.labels().get(label::TEMPLATE_HASH).is_some_and(|found| found == hash),
        deletion_cost: pod.annotations().get(annotation::POD_DELETION_COST).map_or(0, |cost| deletion_cost(cost)),
        is_cordoned: false,
        leave: Leave::WhenEmpty,
        in_slurm: cluster.node(&node),
        shown: Shown::default(),
        node,
        trouble: pod.trouble(),
        uid,
        name,
    })
}

/// A deletion cost as Kubernetes reads one: no plus sign, no leading zeros; what is none counts as 0.
fn deletion_cost(text: &str) -> i32 {
    let is_canonical = text.parse::<i32>().is_ok_and(|cost| cost.to_string() == text);
    if is_canonical { text.parse().unwrap_or(0) } else { 0 }
}
