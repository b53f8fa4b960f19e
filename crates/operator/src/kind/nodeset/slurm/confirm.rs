//! Asks Slurm once more before a worker is deleted.

use std::collections::{BTreeMap, BTreeSet};

use slipway_plan::{
    Action,
    nodeset::{Stage, Worker},
};
use slipway_slurm::{
    name::NodeName,
    rest::{
        Client, RestError,
        kept::Kept,
        model::{Node, NodeState},
    },
};

use super::Cluster;

/// Up to this many nodes are only queried by name. For more, the list is read, and this many of its nodes are queried by name to verify it.
const FEW: usize = 3;

/// Nodes queried by name in one reconcile. More would exceed its time limit; the rest follows in the next one.
const MOST_BY_NAME: usize = 20;

impl Cluster<'_> {
    /// Queries the nodes of workers to be deleted once more, and drops deletions that are no longer safe or not known to be. The snapshot may be
    /// seconds old: a node may have registered since and got a job. True if a deletion was dropped.
    pub(in crate::kind::nodeset) async fn confirm(&self, actions: &mut Vec<Action>, workers: &[Worker]) -> bool {
        let wanted: BTreeSet<&str> = actions.iter().filter_map(Action::deleted_worker).collect();
        let leaving: Vec<&Worker> = workers.iter().filter(|worker| wanted.contains(worker.uid.as_str())).collect();
        // Workers that may be deleted with running jobs need no confirmation. The deletion itself makes sure that it is still the same pod.
        let now = self.context.clock.now();
        let (permitted, leaving): (Vec<&Worker>, Vec<&Worker>) =
            leaving.into_iter().partition(|worker| worker.job_policy.may_kill_jobs(now));
        if leaving.is_empty() {
            return false;
        }
        let confirmed = self.confirmed(&leaving).await;
        let safe: BTreeSet<&str> = permitted.iter().map(|worker| worker.uid.as_str()).chain(confirmed).collect();
        let before = actions.len();
        actions.retain(|action| action.deleted_worker().is_none_or(|uid| safe.contains(uid)));
        actions.len() < before
    }

    /// UIDs of workers that Slurm now reports as safe to delete. One reconcile per cluster queries at a time, and none after a failed reading: a
    /// hanging Slurm would otherwise block all reconciles, even those of other clusters.
    async fn confirmed<'w>(&self, leaving: &[&'w Worker]) -> Vec<&'w str> {
        let Some(snapshot) = self.snapshot.as_deref().filter(|snapshot| snapshot.trouble().is_empty()) else { return Vec::new() };
        let Some((client, _turn)) = self.context.clusters.client_in_turn(self.namespace, self.controller) else { return Vec::new() };
        let mut listed = BTreeMap::new();
        if leaving.len() > FEW {
            let mut kept = Kept::default();
            let read = client.nodes(None, |node: Node| kept.push(node)).await;
            let Ok(nodes) = read.and_then(|_| kept.finish()) else { return Vec::new() };
            listed.extend(nodes.into_iter().map(|node| (node.name.clone(), node)));
            // A list that lacks a node of the snapshot may lack more.
            let is_whole = snapshot.nodes().iter().all(|node| listed.contains_key(&node.name));
            if !is_whole || !is_true(&client, &listed, leaving).await {
                return Vec::new();
            }
        }
        let (mut safe, mut asked) = (Vec::new(), 0);
        for worker in leaving {
            let is_safe = match (listed.get(&worker.node), NodeName::parse(&worker.node)) {
                (Some(node), _) => is_free(node, worker),
                (None, Err(_)) => true, // Slurm cannot have a node of that name
                // The list may lack a node by mistake.
                (None, Ok(name)) if asked < MOST_BY_NAME => {
                    asked += 1;
                    match client.node(&name).await {
                        Ok(node) => is_free(&node, worker),
                        Err(RestError::NotFound { .. }) => true,
                        // The others would fail the same way.
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

/// True if some nodes of the list, queried by name, match the list. It may come from a server that lags behind, and show a node as idle that got a
/// job since.
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

/// True if the worker's node has no job, according to its record, and cannot get one.
fn is_free(node: &Node, worker: &Worker) -> bool {
    let is_empty = node.state.is_clear() && !node.state.is_busy() && node.alloc_cpus == 0;
    is_empty && (worker.stage == Stage::Ended || gets_none(node))
}

/// True if Slurm allocates no new job to the node.
fn gets_none(node: &Node) -> bool {
    node.state.has(&NodeState::Drain) || (node.state.has(&NodeState::Down) && node.state.has(&NodeState::NotResponding))
}
