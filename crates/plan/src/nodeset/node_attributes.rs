//! Topology and features of a worker's Slurm node, copied from the annotations of its Kubernetes node; and its address.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    time::Duration,
};

use slipway_api::{
    condition::{ConditionStatus, ConditionUpdate, NODE_ANNOTATIONS_APPLIED, Reason},
    slurm_node::FEATURE_PREFIX,
};

use super::{Hold, Host, InSlurm, Observed, Stage, Worker};
use crate::{Action, Plan, gate::Answer};

/// An attribute that is set on a Slurm node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeAttribute {
    /// An empty string removes the node from all topologies.
    Topology(String),
    /// Slurm does not remove an active feature, so both lists are set together. Neither is empty: an empty list would change nothing.
    Features { all: Vec<String>, active: Vec<String> },
    /// The address at which slurmctld reaches slurmd.
    Address(String),
}

/// An attribute that Slurm refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub attribute: NodeAttribute,
    /// Slurm's error message.
    pub why: String,
    /// Delay before the next attempt, if nothing changes until then.
    pub again_in: Duration,
}

/// Permission to have Slurm reread its configuration. Only then does Slurm move nodes to the partitions that their features select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    Now,
    /// Slurm has just reread it, or is about to read a new one.
    After(Duration),
    /// Slurm has reread it, and no node moved.
    Never,
}

/// Sets the attributes that differ, with one call for all nodes that get the same value. When all nodes have their features and some are in other
/// partitions than these select, Slurm rereads its configuration.
pub(super) fn plan_node_attributes(observed: &Observed<'_>, deleted: &BTreeSet<String>, plan: &mut Plan) {
    let staying = observed.workers.iter().filter(|worker| !deleted.contains(&worker.uid) && can_be_told(worker));
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
    match (misplaced.first(), observed.slurm.moves) {
        (Some(first), Moves::Now) if !is_moving => plan.actions.extend(Action::reconfigure(why(first, misplaced.len()))),
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

/// The condition `NodeAnnotationsApplied`, or `None` if there is nothing to report. The bool is false while the result is not final: a change may be
/// on its way to Slurm, or Slurm is unreachable.
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

/// Errors in the annotations of the worker's Kubernetes node, and attributes that Slurm refused.
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
        NodeAttribute::Address(_) => "drain the node in Slurm and delete the pod when its jobs have ended, so that it registers again",
    }
}

/// True if Slurm has applied or refused everything that the worker's Kubernetes node specifies.
fn is_settled(worker: &Worker) -> bool {
    can_be_told(worker) && differences(worker).iter().all(|attribute| refusal(attribute, &worker.in_slurm).is_some())
}

/// True if the worker is ready and the known state of its node is not about to change.
fn can_be_told(worker: &Worker) -> bool {
    let Worker { stage, in_slurm, .. } = worker;
    *stage == Stage::Ready && in_slurm.is_registered == Answer::Yes && in_slurm.hold != Hold::Unknown
}

fn refusal<'a>(attribute: &NodeAttribute, in_slurm: &'a InSlurm) -> Option<&'a Refusal> {
    in_slurm.refusals.iter().find(|refusal| refusal.attribute == *attribute)
}

/// Attributes to set in Slurm so that it matches the worker's Kubernetes node.
fn differences(worker: &Worker) -> Vec<NodeAttribute> {
    let Worker { host, in_slurm, .. } = worker;
    let Some(Host { topology, features, .. }) = host else { return Vec::new() };
    let topology =
        topology.iter().flatten().filter(|wanted| **wanted != in_slurm.topology).map(|wanted| NodeAttribute::Topology(wanted.clone()));
    let features = features.iter().flatten().filter_map(|wanted| other_features(wanted, in_slurm));
    topology.chain(features).chain(other_address(worker)).collect()
}

/// The pod's address, if slurmctld does not reach the worker and has another one. It has if its state was restored from a time before the pod existed.
/// slurmd does not register again by itself, so the node would stay DOWN.
fn other_address(worker: &Worker) -> Option<NodeAttribute> {
    let Worker { address, in_slurm, .. } = worker;
    let (ours, known) = (address.as_ref()?.parse::<IpAddr>().ok()?, in_slurm.address.parse::<IpAddr>().ok()?);
    let is_stale = in_slurm.has("NotResponding") && ours.is_ipv4() == known.is_ipv4() && ours != known;
    is_stale.then(|| NodeAttribute::Address(ours.to_string()))
}

/// The node's features with our old ones replaced by `wanted`, or `None` if they match already.
fn other_features(wanted: &BTreeSet<String>, in_slurm: &InSlurm) -> Option<NodeAttribute> {
    let InSlurm { features, active_features, .. } = in_slurm;
    let has_wanted = |list: &[String]| list.iter().filter(|feature| is_ours(feature)).collect::<BTreeSet<_>>() == wanted.iter().collect();
    if has_wanted(features) && has_wanted(active_features) {
        return None;
    }
    let with_wanted = |list: &[String]| list.iter().filter(|feature| !is_ours(feature)).chain(wanted).cloned().collect::<Vec<_>>();
    let (all, active) = (with_wanted(features), with_wanted(active_features));
    // Slurm reads an empty list as "unchanged".
    (!all.is_empty() && !active.is_empty()).then_some(NodeAttribute::Features { all, active })
}

/// True for every feature with our prefix. One that was set by other means is removed.
fn is_ours(feature: &str) -> bool {
    feature.starts_with(FEATURE_PREFIX)
}

impl NodeAttribute {
    /// True if it still fits a node with these features: the features that are not ours are unchanged since the decision.
    pub fn fits(&self, features: &[String], active: &[String]) -> bool {
        let others = |list: &[String]| list.iter().filter(|feature| !is_ours(feature)).cloned().collect::<Vec<_>>();
        match self {
            Self::Topology(_) | Self::Address(_) => true,
            Self::Features { all, active: acts } => others(all) == others(features) && others(acts) == others(active),
        }
    }
}

impl fmt::Display for NodeAttribute {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(out, "address {address}"),
            Self::Topology(path) if path.is_empty() => out.write_str("no topology"),
            Self::Topology(path) => write!(out, "topology {path}"),
            Self::Features { all, active } if all == active => write!(out, "features {}", all.join(",")),
            Self::Features { all, active } => write!(out, "features {}, active {}", all.join(","), active.join(",")),
        }
    }
}

#[cfg(test)]
mod tests;
