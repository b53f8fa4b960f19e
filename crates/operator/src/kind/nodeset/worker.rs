//! A NodeSet's workers, from the caches.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt, runtime::reflector::ObjectRef};
use slipway_api::{NodeSet, annotation, label, label::Component, name};
use slipway_plan::{
    finding::{Finding, Weight},
    nodeset::{
        Containers, Hold, Host, InSlurm, JobPolicy, JobPolicyAnnotation, Phase, Record, Revisions, Shown, Slot, Stage, Worker, doubts,
        note_lost_state,
    },
};
use slipway_runtime::view::{NodeView, PodView};

use super::{
    cordon::cordon,
    node_attributes,
    record::compare_pod,
    shown::{Unseen, shown},
    slurm::Cluster,
};
use crate::world::{
    context::Context,
    memory::{Created, is_recent},
    owner::is_ours,
};

/// Findings listed about unreadable annotations; the rest is only counted.
const MOST_DOUBTS: usize = 3;

/// The NodeSet's pods: those in the cache, and those just created that the cache does not show yet. Also returns findings about users' annotations on
/// them.
pub(super) fn observe_workers(
    nodeset: &NodeSet,
    revisions: &Revisions,
    cluster: &Cluster<'_>,
    context: &Context,
) -> (Vec<Worker>, Vec<Finding>) {
    let uid = nodeset.uid().unwrap_or_default();
    let now = context.clock.now();
    let set = Set::new(nodeset, revisions, &context.propagated_node_conditions);
    let pods = context.stores.pods.state_filter(|pod| pod.metadata.namespace == nodeset.metadata.namespace && is_ours(pod, &uid, context));
    let mut workers: BTreeMap<String, Worker> = BTreeMap::new();
    let mut unreadable = Vec::new();
    for pod in pods {
        unreadable.extend(doubts(pod.annotations()).into_iter().map(|words| (pod.name_any(), words)));
        if let Some(worker) = set.worker(&pod, look(&pod, cluster, context)) {
            workers.insert(worker.name.clone(), worker);
        }
    }
    let created = &context.memory.created;
    let unseen = created.sweep(|(owner, pod), created| is_recent(created.at, now) && (*owner != uid || !workers.contains_key(pod)));
    for key in unseen.into_iter().filter(|(owner, _)| *owner == uid) {
        let Some(Created { slot, hostname, .. }) = created.get(&key) else { continue };
        let (_, pod) = key;
        let new = Worker {
            name: pod.clone(),
            slot,
            uid: String::new(),
            created: None,
            stage: Stage::Starting,
            phase: Phase::Pending,
            ready_since: None,
            available_from: None,
            gone_by: None,
            host: None,
            hash: revisions.current().text,
            is_current: true,
            deletion_cost: 0,
            is_cordoned: false,
            job_policy: JobPolicy::Wait,
            node: hostname,
            in_slurm: InSlurm::unknown("its pod was just created"),
            record: Record::default(),
            is_lost: false,
            shown: Shown::default(),
            address: None,
            containers: Containers::Ready,
            trouble: None,
        };
        workers.insert(pod, new);
    }
    let mut workers: Vec<Worker> = workers.into_values().collect();
    note_lost_state(&mut workers, now);
    (workers, findings(&unreadable))
}

fn look(pod: &PodView, cluster: &Cluster<'_>, context: &Context) -> Seen {
    let (uid, now) = (pod.uid().unwrap_or_default(), context.clock.now());
    Seen {
        host: pod.node_name().and_then(|host| context.stores.nodes.get(&ObjectRef::new(host))),
        in_slurm: cluster.node(&node_of(pod)),
        record: compare_pod(pod, &node_of(pod), cluster),
        is_deleted: context.memory.deleted.get(&uid).is_some_and(|at| is_recent(at, now)),
        unseen: Unseen::of(pod, context),
    }
}

/// True if we know the pod only because we created it.
pub(super) fn is_unseen(worker: &Worker) -> bool {
    worker.uid.is_empty()
}

/// Values that all workers of a NodeSet share.
struct Set<'a> {
    nodeset: &'a NodeSet,
    name: String,
    revisions: &'a Revisions,
    min_ready: SignedDuration,
    /// The NodeSet's policy, for workers without their own.
    annotation: Option<JobPolicyAnnotation>,
    propagated: &'a [String],
}

/// Observations about one pod, beside the pod itself.
struct Seen {
    host: Option<Arc<NodeView>>,
    in_slurm: InSlurm,
    record: Record,
    /// True if we deleted it.
    is_deleted: bool,
    unseen: Unseen,
}

impl<'a> Set<'a> {
    fn new(nodeset: &'a NodeSet, revisions: &'a Revisions, propagated: &'a [String]) -> Self {
        Self {
            nodeset,
            name: nodeset.name_any(),
            revisions,
            min_ready: SignedDuration::from_secs(nodeset.spec.min_ready_seconds.unwrap_or(0).into()),
            annotation: JobPolicyAnnotation::read(nodeset.annotations()),
            propagated,
        }
    }

    fn worker(&self, pod: &PodView, seen: Seen) -> Option<Worker> {
        let Seen { host, in_slurm, record, is_deleted, unseen } = seen;
        let name = pod.name_any();
        let stage = match pod {
            _ if is_deleted || pod.is_going() => Stage::Going,
            _ if pod.is_ended() => Stage::Ended,
            _ if pod.is_ready() => Stage::Ready,
            _ => Stage::Starting,
        };
        Some(Worker {
            slot: slot(&self.name, pod)?,
            created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            stage,
            phase: phase(pod),
            ready_since: pod.ready_since(),
            available_from: self.available_from(pod),
            gone_by: pod.gone_by(),
            address: pod.status.pod_ip.clone(),
            host: pod.node_name().map(|host_name| self.host(host_name, host.as_deref(), &name)),
            is_current: pod.labels().get(label::TEMPLATE_HASH).is_some_and(|hash| self.revisions.is_current(hash)),
            hash: pod.labels().get(label::TEMPLATE_HASH).cloned().unwrap_or_default(),
            deletion_cost: pod.annotations().get(annotation::POD_DELETION_COST).map_or(0, |cost| deletion_cost(cost)),
            is_cordoned: pod.annotations().get(annotation::POD_CORDON).is_some_and(|cordon| cordon == "true"),
            job_policy: self.job_policy(pod, &in_slurm),
            node: node_of(pod),
            in_slurm,
            record,
            is_lost: false,
            shown: shown(pod, unseen),
            // Only the kubelet writes this condition; while it is silent, Kubernetes clears `Ready` in its place.
            containers: match pod.condition("ContainersReady") {
                Some(_) if pod.is_hung(Component::Worker.daemon()) => Containers::Hung,
                Some(condition) if condition.status == "False" => Containers::NotReady,
                _ => Containers::Ready,
            },
            trouble: pod.trouble(),
            uid: pod.uid().unwrap_or_default(),
            name,
        })
    }

    fn available_from(&self, pod: &PodView) -> Option<Timestamp> {
        // Without minReadySeconds, being ready is enough.
        let created = || pod.metadata.creation_timestamp.as_ref().map(|time| time.0).filter(|_| pod.is_ready() && self.min_ready.is_zero());
        pod.ready_since().or_else(created)?.checked_add(self.min_ready).ok()
    }

    fn host(&self, name: &str, host: Option<&NodeView>, pod: &str) -> Host {
        Host {
            name: name.to_owned(),
            cordon: self.cordon(host, pod),
            topology: host.and_then(node_attributes::topology),
            features: host.map(node_attributes::features),
        }
    }

    fn cordon(&self, host: Option<&NodeView>, pod: &str) -> Option<String> {
        let namespace = self.nodeset.metadata.namespace.as_deref().unwrap_or_default();
        cordon(host?, &format!("{namespace}/{pod}"), self.propagated)
    }

    /// The pod's policy, or the NodeSet's if the pod has none.
    fn job_policy(&self, pod: &PodView, in_slurm: &InSlurm) -> JobPolicy {
        let annotation = JobPolicyAnnotation::read(pod.annotations()).or(self.annotation);
        let drained_since = in_slurm.reason_since.filter(|_| in_slurm.hold == Hold::DrainedByUs);
        annotation.map_or(JobPolicy::Wait, |annotation| annotation.policy(drained_since))
    }
}

/// The slot that a pod fills: a Kubernetes node if it has the per-node label, else the ordinal in its name.
pub(super) fn slot(nodeset: &str, pod: &PodView) -> Option<Slot> {
    if pod.labels().get(label::SCALING_MODE).is_some_and(|mode| mode == label::PER_NODE) {
        return Some(Slot::Node(pod.target_node().unwrap_or_default().to_owned()));
    }
    name::worker_ordinal(nodeset, &pod.name_any()).map(Slot::Ordinal)
}

/// Name of the pod's node in Slurm.
fn node_of(pod: &PodView) -> String {
    // slurmd uses the hostname, which on the host network is that of the Kubernetes node.
    if let Some(host) = pod.node_name().filter(|_| pod.spec.host_network) {
        return name::daemon_hostname(host, None).to_owned();
    }
    pod.labels().get(label::POD_HOSTNAME).cloned().unwrap_or_else(|| pod.name_any())
}

/// Findings about unreadable annotations: only the first few, as the same mistake is often made on all pods.
fn findings(doubts: &[(String, String)]) -> Vec<Finding> {
    let mut doubts: Vec<_> = doubts.iter().map(|(pod, words)| format!("pod `{pod}`: {words}")).collect();
    doubts.sort_unstable();
    let more = doubts.len().saturating_sub(MOST_DOUBTS);
    doubts.truncate(MOST_DOUBTS);
    doubts.extend((more > 0).then(|| format!("likewise {more} times on other pods")));
    doubts.into_iter().map(|words| Finding { weight: Weight::Warning, words }).collect()
}

fn phase(pod: &PodView) -> Phase {
    match pod.status.phase.as_str() {
        "Running" => Phase::Running,
        "Unknown" => Phase::Unknown,
        _ => Phase::Pending,
    }
}

/// Deletion cost as Kubernetes parses it: no plus sign, no leading zeros. Any other text counts as 0.
fn deletion_cost(text: &str) -> i32 {
    let is_canonical = text.parse::<i32>().is_ok_and(|cost| cost.to_string() == text);
    if is_canonical { text.parse().unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests;
