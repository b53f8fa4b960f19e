//! What Slurm says about workers, and what is told to it about them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use slipway_plan::{
    Action,
    gate::Answer,
    nodeset::{Finish, Hold, InSlurm, Stage, Worker},
};
use slipway_slurm::{
    name::NodeName,
    rest::{
        RestError,
        model::{Node, NodeState},
    },
    snapshot::{self, Deadline, Snapshot},
};
use tokio::time::Instant;

use crate::{
    context::Context,
    memory::Told,
    slurm::{Wish, hold, state_words},
};

/// So long what we told Slurm about a node may stay unseen before we believe that nothing came of it.
const SETTLE: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

/// Nodes that are asked for by name in one pass: more than that takes longer than a pass may, and the rest has its turn in the next.
const MOST_BY_NAME: usize = 20;

/// One cluster, as a NodeSet looks at it.
pub(super) struct Cluster<'a> {
    namespace: &'a str,
    controller: &'a str,
    snapshot: Option<std::sync::Arc<Snapshot>>,
    context: &'a Context,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(namespace: &'a str, controller: &'a str, context: &'a Context) -> Self {
        Self { namespace, controller, snapshot: context.clusters.snapshot(namespace, controller), context }
    }

    /// What is known of a node.
    pub(super) fn node(&self, node: &str) -> InSlurm {
        let Some(snapshot) = self.snapshot.as_deref() else {
            return InSlurm::unknown("there is no RestApi by which Slurm could be asked");
        };
        let now = Instant::now();
        let fresh = snapshot.fresh_nodes(now);
        let record = fresh.as_ref().ok().and_then(|nodes| nodes.get(node));
        let known = InSlurm {
            is_registered: answer(snapshot.is_registered(node, now)),
            is_drained: answer(snapshot.is_drained(node, now)),
            is_busy: answer(snapshot.is_busy(node, now)),
            hold: if fresh.is_err() { Hold::Unknown } else { record.map_or(Hold::Open, hold) },
            reason: record.map(|record| record.reason.clone()).unwrap_or_default(),
            reason_since: record.and_then(|record| record.reason_changed_at.moment()),
            states: record.map(|record| state_words(&record.state)).unwrap_or_default(),
            comment: record.map(|record| record.comment.clone()).unwrap_or_default(),
            gres: record.map(|record| record.gres.clone()).unwrap_or_default(),
            finish: match snapshot.job_deadline(node, now) {
                Deadline::Free => Finish::Free,
                Deadline::At(end) => Finish::At(end),
                Deadline::Never | Deadline::Unknown(_) => Finish::Never,
            },
        };
        match self.told(node) {
            // Slurm was told and its answer is on the way: until then nothing more is said about the node, and it is not deleted.
            Some(told) if known.hold != told.hold || told.reason.as_deref().is_some_and(|reason| known.our_reason() != Some(reason)) => {
                InSlurm { hold: Hold::Unknown, is_drained: Answer::Unknown("Slurm was just told about its node".to_owned()), ..known }
            }
            _ => known,
        }
    }

    /// Asks Slurm once more about the nodes of workers that are to be deleted, and leaves out of `actions` what is not so any more, or not known. What
    /// was last read may be seconds old: a node may have registered since, and got a job. Answers whether something was left out.
    pub(super) async fn confirm(&self, actions: &mut Vec<Action>, workers: &[Worker]) -> bool {
        let leaving: Vec<&Worker> = workers.iter().filter(|worker| actions.iter().any(|action| deletes(action, worker))).collect();
        if leaving.is_empty() {
            return false;
        }
        let mut safe = BTreeSet::new();
        if let Some(client) = self.context.clusters.client(self.namespace, self.controller) {
            let mut found = BTreeMap::new();
            let listed = client.nodes(None, |node| drop(found.insert(node.name.clone(), node))).await;
            let mut asked = 0;
            for worker in leaving.iter().filter(|_| listed.is_ok()) {
                let is_safe = match (found.get(&worker.node), NodeName::parse(&worker.node)) {
                    (Some(node), _) => is_empty(node) && (worker.stage == Stage::Ended || node.state.has(&NodeState::Drain)),
                    (None, Err(_)) => true, // Slurm cannot have it
                    // A list may lack a node by mistake, so it is asked for by its name.
                    (None, Ok(name)) if asked < MOST_BY_NAME => {
                        asked += 1;
                        matches!(client.node(&name).await, Err(RestError::NotFound { .. }))
                    }
                    (None, Ok(_)) => false,
                };
                if is_safe {
                    safe.insert(worker.uid.as_str());
                }
            }
        }
        let before = actions.len();
        actions.retain(|action| !matches!(action, Action::DeleteWorker { uid, .. } if !safe.contains(uid.as_str())));
        actions.len() < before
    }

    /// Whether Slurm was told something whose effect is not seen yet.
    pub(super) fn is_settling(&self, workers: &[Worker]) -> bool {
        workers.iter().any(|worker| self.told(&worker.node).is_some())
    }

    /// Leaves what the plan says about nodes for the cluster's task.
    pub(super) fn tell(&self, action: &Action) {
        let (nodes, hold, reason, wish) = match action {
            Action::Drain { nodes, reason } => (nodes, Hold::DrainedByUs, Some(reason.clone()), Wish::Drain(nodes.clone(), reason.clone())),
            Action::Undrain { nodes } => (nodes, Hold::Open, None, Wish::Undrain(nodes.clone())),
            Action::Resume { nodes } => (nodes, Hold::Open, None, Wish::Resume(nodes.clone())),
            _ => return,
        };
        if self.context.clusters.wish(self.namespace, self.controller, wish) {
            let now = self.context.clock.now();
            for node in nodes {
                self.context.memory.told.insert(self.key(node), Told { hold, reason: reason.clone(), at: now });
            }
        }
    }

    fn told(&self, node: &str) -> Option<Told> {
        let told = self.context.memory.told.get(&self.key(node))?;
        is_recent(told.at, self.context.clock.now()).then_some(told)
    }

    fn key(&self, node: &str) -> String {
        format!("{}/{}/{node}", self.namespace, self.controller)
    }
}

fn deletes(action: &Action, worker: &Worker) -> bool {
    matches!(action, Action::DeleteWorker { uid, .. } if *uid == worker.uid)
}

/// Whether no job is on the node, as far as its record tells.
fn is_empty(node: &Node) -> bool {
    node.state.is_clear() && !node.state.is_busy() && node.alloc_cpus == 0
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
