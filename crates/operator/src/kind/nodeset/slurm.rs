//! State of workers in Slurm, and commands about them.

mod confirm;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::{Discriminant, discriminant},
};

use jiff::Timestamp;
use slipway_api::slurm_node::POD_TERMINATING;
use slipway_plan::{
    Action,
    gate::Answer,
    nodeset::{Finish, Hold, InSlurm, NodeAttribute, Reserved, Seen, Told as Booked},
};
use slipway_slurm::{
    conf_check::member::Members,
    hostlist::Hostlist,
    registration::Inputs,
    rest::model::{Node, NodeState, Reservation},
    snapshot::{self, Deadline, Nodes, Snapshot},
};
use tokio::time::Instant;

use super::node_attributes::observe_members;
use crate::{
    slurm::{Gone, SlurmCommand, hold, needs, state_words},
    world::{
        context::Context,
        memory::{self, Told},
    },
};

/// Time for a command about a node to show an effect. After that it counts as failed.
const SETTLE: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

/// One Slurm cluster, as a NodeSet sees it.
pub(super) struct Cluster<'a> {
    namespace: &'a str,
    controller: &'a str,
    snapshot: Option<std::sync::Arc<Snapshot>>,
    /// Partitions that select nodes by our features, if there are any.
    members: Option<Members>,
    context: &'a Context,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(namespace: &'a str, controller: &'a str, context: &'a Context) -> Self {
        let snapshot = context.clusters.snapshot(namespace, controller);
        Self { namespace, controller, snapshot, members: observe_members(namespace, controller, context), context }
    }

    /// State of a node in Slurm.
    pub(super) fn node(&self, node: &str) -> InSlurm {
        let Some(snapshot) = self.snapshot.as_deref() else {
            return InSlurm::unknown("there is no RestApi by which Slurm could be asked");
        };
        let now = Instant::now();
        let fresh = snapshot.fresh_nodes(now);
        // A list that lacks known nodes may be wrong about any node, so none of it is used.
        if let Some(missing) = fresh.as_ref().ok().map(|nodes| nodes.missing).filter(|missing| *missing > 0) {
            return InSlurm::unknown(&format!("Slurm's list of nodes lacks {missing} that were in it"));
        }
        let record = fresh.as_ref().ok().and_then(|nodes| nodes.get(node));
        let known = InSlurm {
            is_registered: answer(snapshot.is_registered(node, now)),
            is_drained: answer(snapshot.is_drained(node, now)),
            is_busy: answer(snapshot.is_busy(node, now)),
            hold: if fresh.is_err() { Hold::Unknown } else { record.map_or(Hold::Open, hold) },
            reason: record.map(|record| record.reason.clone()).unwrap_or_default(),
            reason_since: record.and_then(|record| record.reason_changed_at.moment()),
            states: record.map(|record| state_words(&record.state)).unwrap_or_default(),
            response_since: record.and_then(|record| self.response_since(record)),
            completing_since: record.and_then(|record| self.completing_since(record)),
            is_counting: record.is_some_and(|record| record.state.has(&NodeState::Allocated) && record.alloc_cpus == 0),
            address: record.map(|record| record.address.clone()).unwrap_or_default(),
            comment: record.map(|record| record.comment.clone()).unwrap_or_default(),
            gres: record.map(|record| record.gres.clone()).unwrap_or_default(),
            topology: record.map(|record| record.topology.clone()).unwrap_or_default(),
            features: record.map(|record| record.features.clone()).unwrap_or_default(),
            active_features: record.map(|record| record.active_features.clone()).unwrap_or_default(),
            reservations: record.map(|record| record.reservation.clone()).unwrap_or_default(),
            is_misplaced: record.is_some_and(|record| self.is_misplaced(record)),
            refusals: self.context.clusters.refusals(self.namespace, self.controller, node),
            finish: match snapshot.job_deadline(node, now) {
                Deadline::Free => Finish::Free,
                Deadline::At(end) => Finish::At(end),
                Deadline::Never => Finish::Never,
                Deadline::Unknown(_) => Finish::Unknown,
            },
        };
        match self.told(node) {
            // A command has not taken effect yet. Until then the node gets no further command and its pod is not deleted.
            Some(told) if !shows(&known, &told) => InSlurm {
                hold: Hold::Unknown,
                is_drained: Answer::Unknown("a command for its node was just sent to Slurm".to_owned()),
                ..known
            },
            _ => known,
        }
    }

    /// The reservation with this name in Slurm, and the last command about it.
    pub(super) fn reservation(&self, name: &str) -> (Seen, Option<Booked>) {
        let known = match self.snapshot.as_deref() {
            Some(snapshot) => snapshot.reservation(name, Instant::now()).map_err(|why| why.to_string()),
            None => Err("there is no RestApi by which Slurm could be asked".to_owned()),
        };
        let seen = match known {
            Ok(Some(reservation)) => seen(reservation),
            Ok(None) => Seen::Absent,
            Err(cause) => Seen::Unknown(cause),
        };
        (seen, self.context.clusters.booked(self.namespace, self.controller, name))
    }

    /// Ok if all nodes are known, else the cause.
    pub(super) fn is_known(&self) -> Result<(), String> {
        let Some(snapshot) = self.snapshot.as_deref() else { return Err("there is no RestApi by which Slurm could be asked".to_owned()) };
        let nodes = snapshot.fresh_nodes(Instant::now()).map_err(|why| why.to_string())?;
        if nodes.missing > 0 { Err(format!("Slurm's list lacks {} nodes that were there before", nodes.missing)) } else { Ok(()) }
    }

    /// True if the effect of a recent command about one of these nodes may still be missing.
    pub(super) fn is_settling<'n>(&self, mut nodes: impl Iterator<Item = &'n str>) -> bool {
        nodes.any(|node| self.told(node).is_some() || self.described(node).is_some() || self.was_placed(node))
    }

    /// Queues an action about nodes for the cluster's task.
    pub(super) fn tell(&self, action: &Action) {
        let (nodes, hold, reason, command) = match action {
            Action::Drain { nodes, reason } => {
                (nodes, Hold::DrainedByUs, Some(reason.clone()), SlurmCommand::Drain(nodes.clone(), reason.clone()))
            }
            Action::Undrain { nodes } => (nodes, Hold::Open, None, SlurmCommand::Undrain(self.reasons(nodes))),
            Action::Resume { nodes } => (nodes, Hold::Open, None, SlurmCommand::Resume(self.reasons(nodes))),
            // The preStop hook may set the node DOWN at the same moment with its own reason, so no reason is remembered.
            Action::SetDown { nodes, reason, .. } => (nodes, Hold::DownByUs, None, SlurmCommand::SetDown(self.gone(nodes), reason.clone())),
            Action::Describe { comments } => return self.describe(comments),
            Action::SetAttribute { nodes, attribute } => return self.set_attribute(nodes, attribute),
            Action::Reconfigure { why, .. } => {
                self.send(SlurmCommand::Reconfigure(why.clone()));
                return;
            }
            Action::Reserve { name, booking, .. } => {
                self.send(SlurmCommand::Reserve(name.clone(), Some(booking.clone())));
                return;
            }
            Action::Unreserve { name, .. } => {
                self.send(SlurmCommand::Reserve(name.clone(), None));
                return;
            }
            Action::Forget { nodes, .. } => (nodes, Hold::Open, None, SlurmCommand::Forget(self.starts(nodes))),
            _ => return,
        };
        if self.send(command) {
            let now = self.context.clock.now();
            for node in nodes {
                self.context.memory.told.insert(self.key(node), Told { hold, reason: reason.clone(), at: now });
            }
        }
    }

    /// Queues comments, except those already on their way.
    fn describe(&self, comments: &BTreeMap<String, String>) {
        let new = comments.iter().filter(|(node, comment)| self.described(node).as_ref() != Some(*comment));
        let new: BTreeMap<String, String> = new.map(|(node, comment)| (node.clone(), comment.clone())).collect();
        if !new.is_empty() && self.send(SlurmCommand::Describe(new.clone())) {
            let now = self.context.clock.now();
            for (node, comment) in new {
                self.context.memory.described.insert(self.key(&node), (comment, now));
            }
        }
    }

    /// Queues an attribute for nodes, except those that already have it on its way.
    fn set_attribute(&self, nodes: &[String], attribute: &NodeAttribute) {
        let new = nodes.iter().filter(|node| self.attributes_set(node, discriminant(attribute)).as_ref() != Some(attribute));
        let new: Vec<String> = new.cloned().collect();
        if !new.is_empty() && self.send(SlurmCommand::SetAttribute(new.clone(), attribute.clone())) {
            let now = self.context.clock.now();
            for node in new {
                self.context.memory.attributes_set.insert((self.key(&node), discriminant(attribute)), (attribute.clone(), now));
            }
        }
    }

    /// Records of all nodes if the snapshot is fresh; some may be missing.
    pub(super) fn records(&self) -> impl Iterator<Item = &Node> {
        let fresh = self.snapshot.as_deref().and_then(|snapshot| snapshot.fresh_nodes(Instant::now()).ok());
        fresh.into_iter().flat_map(Nodes::iter)
    }

    /// The record of a node, or `None` if the snapshot is not fresh or lacks it.
    pub(super) fn record(&self, node: &str) -> Option<&Node> {
        self.snapshot.as_deref()?.fresh_nodes(Instant::now()).ok()?.get(node)
    }

    /// Jobs and reservations that need these nodes' records; see [`needs`]. Requests a reading of the queue if the result is not certain.
    pub(super) fn needs(&self, nodes: &[&str], own: &str) -> Result<(BTreeMap<String, String>, bool), String> {
        let needs = needs(self.snapshot.as_deref(), nodes, own, Instant::now());
        if needs.as_ref().is_ok_and(|(found, is_certain)| !is_certain && nodes.iter().any(|node| !found.contains_key(*node))) {
            self.context.clusters.read_soon(self.namespace, self.controller);
        }
        needs
    }

    /// Inputs with which the last pod of a node registered, or `None` if no pod was seen terminating.
    pub(super) fn last_inputs(&self, node: &str) -> Option<Inputs> {
        self.context.memory.inputs.get(&self.key(node))
    }

    pub(super) fn remember_inputs(&self, node: &str, inputs: Inputs) {
        self.context.memory.inputs.insert(self.key(node), inputs);
    }

    /// Start time of slurmd on each of these nodes.
    fn starts(&self, nodes: &[String]) -> BTreeMap<String, Option<Timestamp>> {
        let table = self.snapshot.as_deref().map(Snapshot::nodes);
        let start = |node: &String| table?.get(node)?.slurmd_start_time.moment();
        nodes.iter().map(|node| (node.clone(), start(node))).collect()
    }

    /// State of slurmd on each of these nodes, whose pods are gone.
    fn gone(&self, nodes: &[String]) -> BTreeMap<String, Gone> {
        let table = self.snapshot.as_deref().map(Snapshot::nodes);
        let is_silent = |node: &String| table?.get(node).map(|record| record.state.has(&NodeState::NotResponding));
        let gone = |(node, started)| (is_silent(&node).unwrap_or_default(), node, started);
        self.starts(nodes).into_iter().map(gone).map(|(is_silent, node, started)| (node, Gone { started, is_silent })).collect()
    }

    /// Reason on the record of each of these nodes.
    fn reasons(&self, nodes: &[String]) -> BTreeMap<String, String> {
        let table = self.snapshot.as_deref().map(Snapshot::nodes);
        let reason = |node: &String| Some(table?.get(node)?.reason.clone());
        nodes.iter().map(|node| (node.clone(), reason(node).unwrap_or_default())).collect()
    }

    /// Time since which the node has been in its current state, responding or not responding.
    fn response_since(&self, node: &Node) -> Option<Timestamp> {
        let responds = !node.state.has(&NodeState::NotResponding);
        self.context.memory.responses.since(&self.key(&node.name), responds, self.context.clock.now())
    }

    /// Time since which a job on the node has been completing, if one is.
    fn completing_since(&self, node: &Node) -> Option<Timestamp> {
        let (known, key) = (&self.context.memory.completing, self.key(&node.name));
        if !node.state.has(&NodeState::Completing) {
            known.remove(&key);
            return None;
        }
        let since = known.get(&key).unwrap_or_else(|| self.context.clock.now());
        known.insert(key, since);
        Some(since)
    }

    fn send(&self, command: SlurmCommand) -> bool {
        self.context.clusters.send(self.namespace, self.controller, command)
    }

    fn described(&self, node: &str) -> Option<String> {
        // Comments are sent after all other commands, so they get more time.
        let (comment, at) = self.context.memory.described.get(&self.key(node))?;
        memory::is_recent(at, self.context.clock.now()).then_some(comment)
    }

    fn attributes_set(&self, node: &str, kind: Discriminant<NodeAttribute>) -> Option<NodeAttribute> {
        let (attribute, at) = self.context.memory.attributes_set.get(&(self.key(node), kind))?;
        is_recent(at, self.context.clock.now()).then_some(attribute)
    }

    fn was_placed(&self, node: &str) -> bool {
        let kinds = [
            NodeAttribute::Topology(String::new()),
            NodeAttribute::Features { all: Vec::new(), active: Vec::new() },
            NodeAttribute::Address(String::new()),
        ];
        kinds.iter().any(|kind| self.attributes_set(node, discriminant(kind)).is_some())
    }

    /// True if the node's features select other partitions than those it is in.
    fn is_misplaced(&self, node: &Node) -> bool {
        self.members.as_ref().is_some_and(|members| members.would_move(&node.name, &node.features, &node.partitions))
    }

    fn told(&self, node: &str) -> Option<Told> {
        let told = self.context.memory.told.get(&self.key(node))?;
        is_recent(told.at, self.context.clock.now()).then_some(told)
    }

    fn key(&self, node: &str) -> String {
        format!("{}/{}/{node}", self.namespace, self.controller)
    }
}

/// Converts a reservation as Slurm reports it.
fn seen(reservation: &Reservation) -> Seen {
    let Reservation { start_time, end_time, node_list, flags, .. } = reservation;
    let (Some(start), Some(end)) = (start_time.moment(), end_time.moment()) else {
        return Seen::Unknown("Slurm does not report its start and end".to_owned());
    };
    // A reservation that lost its last node has an empty list.
    let nodes = if node_list.is_empty() { Ok(BTreeSet::new()) } else { Hostlist::parse(node_list).map(|nodes| nodes.names().collect()) };
    match nodes {
        Ok(nodes) => Seen::There(Reserved { start, end, flags: flags.iter().cloned().collect(), nodes }),
        Err(wrong) => Seen::Unknown(wrong.to_string()),
    }
}

/// True if the node shows the effect of the command.
fn shows(known: &InSlurm, told: &Told) -> bool {
    let is_held = match told.hold {
        // DOWN counts no matter who set it: a node that does not respond is never `Hold::DownByUs`.
        Hold::DownByUs => known.has("Down"),
        hold => known.hold == hold,
    };
    // The preStop hook runs after all other commands about a worker, and writes its own reason.
    let is_terminated = known.has("Down") && known.our_reason() == Some(POD_TERMINATING);
    is_held && (is_terminated || told.reason.as_deref().is_none_or(|reason| known.our_reason() == Some(reason)))
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at).abs() < SETTLE
}

fn answer(answer: snapshot::Answer) -> Answer {
    match answer {
        snapshot::Answer::Yes => Answer::Yes,
        snapshot::Answer::No => Answer::No,
        snapshot::Answer::Unknown(why) => Answer::Unknown(why.to_string()),
    }
}
