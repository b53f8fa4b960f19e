//! DaemonSet mode: one worker on each matching Kubernetes node.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use slipway_api::{condition::Reason, name};

use super::{MAX_CREATIONS, Observed, Site, Sites, Slot, Stage, Worker, fit::Fit};
use crate::{Action, Plan, gate::Answer};

/// Number of nodes a message names before it counts the rest.
const NAMED: usize = 2;
/// Requeue delay while a hostname is taken.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// New workers for nodes that have none. A terminating pod still occupies its node, because it has the same name in Slurm.
pub(super) fn plan_new(observed: &Observed<'_>, sites: &Sites, plan: &mut Plan) -> Vec<Action> {
    let of_workers = observed.workers.iter().filter_map(|worker| worker.slot.node());
    let taken: BTreeSet<&str> = of_workers.chain(observed.kubernetes.orphans.iter().filter_map(|orphan| orphan.slot.node())).collect();
    // Workers of the other mode stay on their hosts until their jobs have ended.
    let displaced = observed.workers.iter().filter(|worker| observed.is_displaced(worker));
    let occupied: BTreeMap<&str, &Worker> = displaced.filter_map(|worker| Some((worker.host.as_ref()?.name.as_str(), worker))).collect();
    let missing = sites.iter().filter(|(node, site)| site.is_wanted() && !taken.contains(node));
    let (occupied, free): (Vec<_>, Vec<_>) = missing.partition(|(node, _)| occupied.contains_key(node));
    if let Some((node, _)) = occupied.first() {
        let more = if occupied.len() > 1 { format!("; and {} more like it", occupied.len() - 1) } else { String::new() };
        plan.report.wait(Reason::Progressing, format!("node `{node}` gets its worker when the one of the former mode has left it{more}"));
    }
    let create = |(node, Site { hostname, .. }): (&str, &Site)| Action::CreateWorker {
        slot: Slot::Node(node.to_owned()),
        name: name::daemon_pod(observed.policy.nodeset, node),
        hostname: hostname.clone(),
    };
    free.into_iter().take(MAX_CREATIONS).map(create).collect()
}

/// Surplus workers: those on nodes that no longer match, and second ones on the same node.
///
/// Pods on a deleted node are left to Kubernetes, which removes them once it is certain that nothing runs there. Only a pod that was never scheduled
/// would stay for ever.
pub(super) fn excess<'a>(observed: &Observed<'a>, sites: &Sites) -> Vec<&'a Worker> {
    let keepers = keepers(observed);
    let is_excess = |worker: &&Worker| {
        let Some(node) = worker.slot.node() else { return false };
        let stays = match sites.get(node) {
            Some(site) => site.keeps() && keepers.get(node).is_some_and(|keeper| keeper.uid == worker.uid && keeper.name == worker.name),
            None => worker.host.is_some(),
        };
        worker.stage != Stage::Going && !stays
    };
    observed.workers.iter().filter(is_excess).collect()
}

/// The worker that counts on each node: the busy one, else the running one, else the oldest.
pub(super) fn keepers<'a>(observed: &Observed<'a>) -> BTreeMap<&'a str, &'a Worker> {
    let mut workers: Vec<(&str, &Worker)> = observed.workers.iter().filter_map(|worker| Some((worker.slot.node()?, worker))).collect();
    // The map keeps the last worker of each node.
    workers.sort_by_cached_key(|(_, worker)| {
        let Worker { stage, host, in_slurm, created, name, .. } = worker;
        let lives = (*stage != Stage::Going, *stage != Stage::Ended);
        let works = (in_slurm.is_busy == Answer::Yes, host.is_some(), *stage == Stage::Ready);
        // A pod that the cache does not show yet is the youngest.
        let age = (created.is_some(), Reverse(*created), Reverse(name.clone()));
        (lives, works, age)
    });
    workers.into_iter().collect()
}

/// Reports the nodes that cannot get a worker, and why.
pub(super) fn report_refusals(sites: &Sites, plan: &mut Plan) {
    let refusals: Vec<&str> = sites.iter().filter_map(|(_, site)| site.refusal.as_deref().filter(|_| site.fit == Fit::Yes)).collect();
    if refusals.is_empty() {
        return;
    }
    let more = if refusals.len() > NAMED { format!("; and {} more like it", refusals.len() - NAMED) } else { String::new() };
    // The deletion of another NodeSet's pod requeues only that NodeSet.
    plan.wake_within(LOOK_AGAIN);
    plan.report.wait(Reason::HostnameTaken, format!("{}{more}", refusals[..refusals.len().min(NAMED)].join("; ")));
}
