//! Before a worker is deleted, Slurm is asked once more.

use std::collections::{BTreeMap, BTreeSet};

use slipway_plan::{
    Action,
    nodeset::{Stage, Worker},
};
use slipway_slurm::{
    name::NodeName,
    rest::{
        Client, RestError,
        model::{Node, NodeState},
    },
};

use super::Cluster;

/// So few nodes are asked for by name alone. Of more, a list is read, and so many of it are asked for by name to see whether it is true.
const FEW: usize = 3;

/// Nodes that are asked for by name in one pass: more than that takes longer than a pass may, and the rest has its turn in the next.
const MOST_BY_NAME: usize = 20;

impl Cluster<'_> {
    /// Asks Slurm once more about the nodes of workers that are to be deleted, and leaves out of `actions` what is not so any more, or not known. What
    /// was last read may be seconds old: a node may have registered since, and got a job. Answers whether something was left out.
    pub(in crate::nodeset) async fn confirm(&self, actions: &mut Vec<Action>, workers: &[Worker]) -> bool {
        let wanted: BTreeSet<&str> = actions.iter().filter_map(deleted).collect();
        let leaving: Vec<&Worker> = workers.iter().filter(|worker| wanted.contains(worker.uid.as_str())).collect();
        // Who a user wants gone with its jobs is asked for nothing; that it is still the same pod, the deletion itself makes sure of.
        let now = self.context.clock.now();
        let (permitted, leaving): (Vec<&Worker>, Vec<&Worker>) = leaving.into_iter().partition(|worker| worker.job_policy.may_kill_jobs(now));
        if leaving.is_empty() {
            return false;
        }
        let confirmed = self.confirmed(&leaving).await;
        let safe: BTreeSet<&str> = permitted.iter().map(|worker| worker.uid.as_str()).chain(confirmed).collect();
        let before = actions.len();
        actions.retain(|action| deleted(action).is_none_or(|uid| safe.contains(uid)));
        actions.len() < before
    }

    /// Those of whom Slurm says now that nothing is lost with them. One pass of a cluster asks at a time, and none after a reading that failed: a Slurm
    /// that hangs would otherwise hold up all passes, also those of other clusters.
    async fn confirmed<'w>(&self, leaving: &[&'w Worker]) -> Vec<&'w str> {
        let Some(snapshot) = self.snapshot.as_deref().filter(|snapshot| snapshot.trouble().is_empty()) else { return Vec::new() };
        let Some((client, _turn)) = self.context.clusters.client_in_turn(self.namespace, self.controller) else { return Vec::new() };
        let mut listed = BTreeMap::new();
        if leaving.len() > FEW {
            if client.nodes(None, |node| drop(listed.insert(node.name.clone(), node))).await.is_err() {
                return Vec::new();
            }
            // A list that lacks what was there a moment ago may lack more.
            let is_whole = snapshot.nodes().iter().all(|node| listed.contains_key(&node.name));
            if !is_whole || !is_true(&client, &listed, leaving).await {
                return Vec::new();
            }
        }
        let (mut safe, mut asked) = (Vec::new(), 0);
        for worker in leaving {
            let is_safe = match (listed.get(&worker.node), NodeName::parse(&worker.node)) {
                (Some(node), _) => is_free(node, worker),
                (None, Err(_)) => true, // Slurm cannot have it
                // A list may lack a node by mistake.
                (None, Ok(name)) if asked < MOST_BY_NAME => {
                    asked += 1;
                    match client.node(&name).await {
                        Ok(node) => is_free(&node, worker),
                        Err(RestError::NotFound { .. }) => true,
                        // It would be the same with the others.
                        Err(_) => return safe,
                    }
                }
                (None, Ok(_)) => false,
            };
            if is_safe {
                safe.push(worker.uid.as_str());
            }
        }
        safe
    }
}

/// Whether a list says the same as Slurm says of some of its nodes by name. It may come from a server that is behind, and show a node empty that has
/// got a job since.
async fn is_true(client: &Client, listed: &BTreeMap<String, Node>, leaving: &[&Worker]) -> bool {
    let listed: Vec<&Node> = leaving.iter().filter_map(|worker| listed.get(&worker.node)).collect();
    for node in listed.iter().step_by(listed.len().div_ceil(FEW).max(1)) {
        let Ok(name) = NodeName::parse(&node.name) else { continue };
        match client.node(&name).await {
            Ok(now) if (&now.state, now.alloc_cpus) == (&node.state, node.alloc_cpus) => {}
            _ => return false,
        }
    }
    true
}

/// Whether no job is on the worker's node, as far as its record tells, and none can come.
fn is_free(node: &Node, worker: &Worker) -> bool {
    let is_empty = node.state.is_clear() && !node.state.is_busy() && node.alloc_cpus == 0;
    is_empty && (worker.stage == Stage::Ended || gets_none(node))
}

/// Whether Slurm gives the node no new job.
fn gets_none(node: &Node) -> bool {
    node.state.has(&NodeState::Drain) || (node.state.has(&NodeState::Down) && node.state.has(&NodeState::NotResponding))
}

fn deleted(action: &Action) -> Option<&str> {
    match action {
        Action::DeleteWorker { uid, .. } => Some(uid),
        _ => None,
    }
}
