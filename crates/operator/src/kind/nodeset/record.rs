//! Compares Slurm's records of workers with their pods, and finds jobs and reservations that need the records.

use serde_json::Value;
use slipway_api::{
    NodeSet,
    condition::{ConditionStatus, ConditionUpdate, RECORDS_CURRENT, Reason},
    env, event,
    label::Component,
};
use slipway_plan::{
    Action, Report,
    nodeset::{Needed, Record, Slot, StaleNode, Worker},
};
use slipway_runtime::{events::Kind, view::PodView};
use slipway_slurm::registration::{Difference, Inputs};

use super::{site::Places, slurm::Cluster};
use crate::world::context::Context;

/// Maximum number of pods created in one reconcile, so no more records need to be compared.
const MOST: usize = 250;

/// Differences between a pod and its record. The inputs of a terminating pod are remembered for the next pod of that node.
pub(super) fn compare_pod(pod: &PodView, node: &str, cluster: &Cluster<'_>) -> Record {
    let Some(inputs) = inputs_of_pod(pod) else { return Record::default() };
    let differences = cluster.record(node).map(|record| inputs.differences(record)).unwrap_or_default();
    if pod.is_going() {
        cluster.remember_inputs(node, inputs);
    }
    compared(differences)
}

/// Compares records of missing workers with the pods that would be created. `body` renders a pod, if possible.
pub(super) fn compare_stale_nodes(
    stale_nodes: &mut [StaleNode],
    nodeset: &str,
    workers: &[Worker],
    places: &Places,
    cluster: &Cluster<'_>,
    body: impl Fn(&Slot, &str) -> Option<Value>,
) {
    let missing = places.missing(workers).min(MOST);
    if missing == 0 {
        return;
    }
    let slots = places.slots_of(nodeset, stale_nodes);
    // The next pods get the lowest slots.
    let mut lowest: Vec<(Slot, &mut StaleNode)> =
        slots.into_iter().zip(stale_nodes).filter_map(|(slot, stale_node)| Some((slot?, stale_node))).collect();
    lowest.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    for (slot, stale_node) in lowest.into_iter().take(missing) {
        let inputs = body(&slot, &stale_node.node).and_then(|body| inputs_of_body(&body));
        let Some((inputs, record)) = inputs.zip(cluster.record(&stale_node.node)) else { continue };
        let mut differences = inputs.differences(record);
        // Inputs of the previous pod that the next one lacks do not show in the record.
        if differences.is_empty() && cluster.last_inputs(&stale_node.node).is_some_and(|last| last != inputs) {
            differences.push(Difference { words: "its pod was told something else".to_owned(), is_curable: true });
        }
        stale_node.record = compared(differences);
    }
}

/// Finds what needs the records that may be deleted or recreated, apart from the NodeSet's `own` reservation.
pub(super) fn observe_needs(
    workers: &mut [Worker],
    stale_nodes: &mut [StaleNode],
    with_all_stale_nodes: bool,
    own: &str,
    cluster: &Cluster<'_>,
) {
    let of_workers = workers.iter_mut().map(|Worker { node, record, .. }| (node.as_str(), record, false));
    let of_stale_nodes = stale_nodes.iter_mut().map(|StaleNode { node, record, .. }| (node.as_str(), record, with_all_stale_nodes));
    let mut asked: Vec<(&str, &mut Record)> = of_workers
        .chain(of_stale_nodes)
        .filter(|(_, record, is_asked)| *is_asked || !record.differences.is_empty())
        .map(|(node, record, _)| (node, record))
        .collect();
    if asked.is_empty() {
        return;
    }
    let nodes: Vec<&str> = asked.iter().map(|(node, _)| *node).collect();
    let needs = cluster.needs(&nodes, own);
    for (node, record) in &mut asked {
        record.needed = match &needs {
            Err(why) => Needed::Unknown(why.clone()),
            Ok((found, _)) if let Some(whom) = found.get(*node) => Needed::By(whom.clone()),
            Ok((_, true)) => Needed::ByNone,
            Ok((_, false)) => {
                Needed::Unknown("jobs and reservations may have been created since Slurm was queried; it is queried again".to_owned())
            }
        };
    }
}

/// Repeats the current condition while Slurm cannot be asked: a short outage changes nothing.
pub(super) fn keep_saying(nodeset: &NodeSet, cluster: &Cluster<'_>, report: &mut Report) {
    if cluster.is_known().is_ok() || report.condition_updates.iter().any(|condition_update| condition_update.type_ == RECORDS_CURRENT) {
        return;
    }
    let mut conditions = nodeset.status.iter().flat_map(|status| &status.conditions);
    report.condition_updates.extend(conditions.find(|said| said.type_ == RECORDS_CURRENT).map(|said| ConditionUpdate {
        type_: RECORDS_CURRENT,
        status: ConditionStatus::False,
        reason: Reason::RecordsKept,
        message: said.message.clone(),
    }));
}

/// Reports records that are deleted because they are no longer wanted.
pub(super) fn tell_pruned(nodeset: &NodeSet, actions: &[Action], stale_nodes: &[StaleNode], context: &Context) {
    let forgotten = actions.iter().filter_map(|action| if let Action::Forget { nodes, .. } = action { Some(nodes) } else { None });
    let is_pruned =
        |node: &&String| stale_nodes.iter().any(|stale_node| stale_node.node == **node && stale_node.record.differences.is_empty());
    for node in forgotten.flatten().filter(is_pruned) {
        let message = format!("the record of node `{node}` in Slurm is deleted: its pod is gone, and no other is wanted");
        context.say(nodeset, Kind::Normal, event::reason::DEFUNCT_SLURM_NODE_PRUNED, event::action::DELETE, &message);
    }
}

fn compared(differences: Vec<Difference>) -> Record {
    Record {
        is_curable: differences.iter().any(|difference| difference.is_curable),
        differences: differences.into_iter().map(|difference| difference.words).collect(),
        ..Record::default()
    }
}

/// Inputs with which a pod's slurmd registers.
fn inputs_of_pod(pod: &PodView) -> Option<Inputs> {
    let slurmd = pod.spec.containers.first()?;
    let variable = |name: &str| slurmd.env.iter().find(|variable| variable.name == name).map_or("", |variable| variable.value.as_str());
    Inputs::read(slurmd.args.iter().map(String::as_str), variable(env::POD_CPUS), variable(env::POD_MEMORY))
}

/// Inputs of a pod that is about to be created.
fn inputs_of_body(body: &Value) -> Option<Inputs> {
    let mut pod = PodView::default();
    pod.spec.containers = serde_json::from_value(body["spec"]["containers"].clone()).ok()?;
    pod.spec.containers.retain(|container| container.name == Component::Worker.daemon());
    inputs_of_pod(&pod)
}
