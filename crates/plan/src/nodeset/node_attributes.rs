//! Where a worker's node is in the network and what it has: what its Kubernetes node says about that becomes Slurm's.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use slipway_api::{
    condition::{NODE_ANNOTATIONS_APPLIED, Reason, ConditionUpdate, ConditionStatus},
    slurm_node::FEATURE_PREFIX,
};

use super::{Hold, Host, InSlurm, Observed, Stage, Worker};
use crate::{Action, Plan, gate::Answer};

/// Something that Slurm is told about where a node is or what it has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeAttribute {
    /// An empty one takes it out of all topologies.
    Topology(String),
    /// Slurm takes no feature away that is active, so both go together. Neither list is empty: that would change nothing.
    Features { all: Vec<String>, active: Vec<String> },
}

/// What Slurm did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub attribute: NodeAttribute,
    /// In its words.
    pub why: String,
    /// When to try again, if nothing changes until then.
    pub again_in: Duration,
}

/// Whether Slurm may be made to read its configuration once more. Only then does it move nodes to the partitions that their features ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    Now,
    /// It just was, or is about to read another one.
    After(Duration),
    /// It was, and nobody moved.
    Never,
}

/// Tells Slurm what differs, one call for all nodes that are told the same. When all have their features and some are in other partitions than these ask
/// for, Slurm reads its configuration once more.
pub(super) fn plan_node_attributes(observed: &Observed<'_>, plan: &mut Plan) {
    let deleted: BTreeSet<&str> = plan.actions.iter().filter_map(deleted).collect();
    let staying = observed.workers.iter().filter(|worker| !deleted.contains(worker.uid.as_str()) && can_be_told(worker));
    let mut changes = BTreeMap::<NodeAttribute, Vec<String>>::new();
    let (mut misplaced, mut next_try) = (Vec::new(), None);
    for worker in staying {
        for attribute in differences(worker) {
            match refusal(&attribute, &worker.in_slurm) {
                Some(refusal) => next_try = next_try.into_iter().chain([refusal.again_in]).min(),
                None => changes.entry(attribute).or_default().push(worker.node.clone()),
            }
        }
        if worker.in_slurm.is_misplaced {
            misplaced.push(worker.node.as_str());
        }
    }
    let is_moving = changes.keys().any(|attribute| matches!(attribute, NodeAttribute::Features { .. }));
    plan.actions.extend(changes.into_iter().map(|(attribute, nodes)| Action::SetAttribute { nodes, attribute }));
    if let Some(next_try) = next_try {
        plan.wake_within(next_try);
    }
    match (misplaced.first(), observed.moves) {
        (Some(first), Moves::Now) if !is_moving => plan.actions.push(Action::Reconfigure { why: why(first, misplaced.len()) }),
        (Some(_), Moves::After(time)) => plan.wake_within(time),
        _ => {}
    }
}

fn why(first: &str, count: usize) -> String {
    match count {
        1 => format!("the features of node {first} ask for other partitions than those it is in"),
        _ => format!("the features of {count} nodes, such as {first}, ask for other partitions than those they are in"),
    }
}

/// The condition `NodeAnnotationsApplied`, if there is anything to say, and whether it is the last word: something may be on its way to Slurm, or Slurm
/// cannot be asked.
pub fn annotations_applied(workers: &[Worker]) -> (Option<ConditionUpdate>, bool) {
    let staying = || workers.iter().filter(|worker| worker.stage != Stage::Going);
    let mut problems = staying().flat_map(problems);
    let is_settled = staying().filter(|worker| worker.stage == Stage::Ready).all(is_settled);
    let say = |status: ConditionStatus, reason, message| Some(ConditionUpdate { type_: NODE_ANNOTATIONS_APPLIED, status, reason, message });
    if let Some(first) = problems.next() {
        let more = problems.count();
        let more = if more > 0 { format!("; likewise {more} more") } else { String::new() };
        return (say(ConditionStatus::False, Reason::NodeAnnotationRefused, first + &more), is_settled);
    }
    if !staying().filter_map(|worker| worker.host.as_ref()).any(is_annotated) {
        return (None, is_settled);
    }
    let message = "the nodes in Slurm have the topology and the features that are written on their Kubernetes nodes".to_owned();
    (say(ConditionStatus::True, Reason::AllReady, message), is_settled)
}

fn is_annotated(host: &Host) -> bool {
    host.topology.is_some() || host.features.as_ref().is_some_and(|features| features.as_ref().is_ok_and(|features| !features.is_empty()))
}

/// What is wrong with what the worker's Kubernetes node says, and what Slurm did not take of it.
fn problems(worker: &Worker) -> Vec<String> {
    let Some(host) = &worker.host else { return Vec::new() };
    let (name, node) = (&host.name, &worker.node);
    let topology = host.topology.as_ref().and_then(|topology| topology.as_ref().err());
    let features = host.features.as_ref().and_then(|features| features.as_ref().err());
    let unreadable = topology
        .into_iter()
        .chain(features)
        .map(|wrong| format!("Kubernetes node `{name}`: {wrong}; node `{node}` in Slurm keeps what it has"));
    let differences = differences(worker);
    let refused = differences.iter().filter_map(|attribute| {
        let why = &refusal(attribute, &worker.in_slurm)?.why;
        Some(format!("Kubernetes node `{name}`: Slurm does not take {attribute} for node `{node}`: {why}; {}", remedy(attribute)))
    });
    unreadable.chain(refused).collect()
}

fn remedy(attribute: &NodeAttribute) -> &'static str {
    match attribute {
        NodeAttribute::Topology(_) => "name topologies and units that topology.yaml of the Controller has, or add these there",
        NodeAttribute::Features { .. } => "change the features on the Kubernetes node",
    }
}

/// Whether Slurm has, or has refused, what the worker's Kubernetes node says.
fn is_settled(worker: &Worker) -> bool {
    can_be_told(worker) && differences(worker).iter().all(|attribute| refusal(attribute, &worker.in_slurm).is_some())
}

/// Whether the worker serves and what is known of its node is not about to change.
fn can_be_told(worker: &Worker) -> bool {
    let Worker { stage, in_slurm, .. } = worker;
    *stage == Stage::Ready && in_slurm.is_registered == Answer::Yes && in_slurm.hold != Hold::Unknown
}

fn refusal<'a>(attribute: &NodeAttribute, in_slurm: &'a InSlurm) -> Option<&'a Refusal> {
    in_slurm.refusals.iter().find(|refusal| refusal.attribute == *attribute)
}

/// What Slurm has to be told, so that it says what the worker's Kubernetes node says.
fn differences(worker: &Worker) -> Vec<NodeAttribute> {
    let Worker { host, in_slurm, .. } = worker;
    let Some(Host { topology, features, .. }) = host else { return Vec::new() };
    let topology = topology.iter().flatten().filter(|wanted| **wanted != in_slurm.topology).map(|wanted| NodeAttribute::Topology(wanted.clone()));
    let features = features.iter().flatten().filter_map(|wanted| other_features(wanted, in_slurm));
    topology.chain(features).collect()
}

/// The features of a node with ours in the place of those that were ours; nothing where they are there already.
fn other_features(wanted: &BTreeSet<String>, in_slurm: &InSlurm) -> Option<NodeAttribute> {
    let InSlurm { features, active_features, .. } = in_slurm;
    let has_wanted = |list: &[String]| list.iter().filter(|feature| is_ours(feature)).collect::<BTreeSet<_>>() == wanted.iter().collect();
    if has_wanted(features) && has_wanted(active_features) {
        return None;
    }
    let with_wanted = |list: &[String]| list.iter().filter(|feature| !is_ours(feature)).chain(wanted).cloned().collect::<Vec<_>>();
    let (all, active) = (with_wanted(features), with_wanted(active_features));
    // Slurm reads an empty list as "as it is".
    (!all.is_empty() && !active.is_empty()).then_some(NodeAttribute::Features { all, active })
}

/// Whoever writes a feature with our prefix by other means loses it.
fn is_ours(feature: &str) -> bool {
    feature.starts_with(FEATURE_PREFIX)
}

fn deleted(action: &Action) -> Option<&str> {
    match action {
        Action::DeleteWorker { uid, .. } => Some(uid),
        _ => None,
    }
}

impl NodeAttribute {
    /// Whether it is right for a node with these features: those that are not ours are as they were when it was decided.
    pub fn fits(&self, features: &[String], active: &[String]) -> bool {
        let others = |list: &[String]| list.iter().filter(|feature| !is_ours(feature)).cloned().collect::<Vec<_>>();
        match self {
            Self::Topology(_) => true,
            Self::Features { all, active: acts } => others(all) == others(features) && others(acts) == others(active),
        }
    }
}

impl fmt::Display for NodeAttribute {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topology(attribute) if attribute.is_empty() => out.write_str("no topology"),
            Self::Topology(attribute) => write!(out, "topology {attribute}"),
            Self::Features { all, active } if all == active => write!(out, "features {}", all.join(",")),
            Self::Features { all, active } => write!(out, "features {}, active {}", all.join(","), active.join(",")),
        }
    }
}

#[cfg(test)]
mod tests;
