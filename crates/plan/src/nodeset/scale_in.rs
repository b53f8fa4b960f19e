//! Which workers leave when a NodeSet shrinks.

use std::cmp::Reverse;

use slipway_api::slurm_node::SCALE_IN;

use super::{Stage, Worker};

/// Those that have no Kubernetes node yet, do not run yet or do not work yet before those that do, then by the user's deletion cost, then who
/// finishes first (idle ones at once), then those that take no jobs anyway, then those that were chosen before, then from the highest ordinal down.
///
/// The order is total: two planners with the same input choose the same pods. And it does not go to and fro: one that was chosen takes no new job,
/// so the end of its work only comes nearer, and it is let go only for one that is done even sooner.
pub fn plan_scale_in(workers: &[Worker], excess: usize) -> impl Iterator<Item = &Worker> {
    scale_in(workers.iter().collect(), excess)
}

/// [`plan_scale_in`] among some of them.
pub(super) fn scale_in(mut workers: Vec<&Worker>, excess: usize) -> impl Iterator<Item = &Worker> {
    workers.retain(|worker| worker.stage != Stage::Going);
    ranked(workers).into_iter().take(excess)
}

/// Whoever costs least first.
pub(super) fn ranked(mut workers: Vec<&Worker>) -> Vec<&Worker> {
    workers.sort_by_cached_key(|worker| rank(worker));
    workers
}

/// The smaller, the sooner it leaves.
fn rank(worker: &Worker) -> impl Ord + use<> {
    let Worker { name, slot, stage, phase, host, deletion_cost, is_cordoned, in_slurm, .. } = worker;
    let has_node = host.is_some();
    let works = *stage == Stage::Ready && !worker.is_unregistered();
    let is_on_cordoned = host.as_ref().is_some_and(|host| host.cordon.is_some());
    let takes_jobs = !is_cordoned && !is_on_cordoned && in_slurm.may_get_jobs();
    let was_chosen = in_slurm.our_reason() == Some(SCALE_IN);
    let until_it_works = (has_node, *phase, works);
    (until_it_works, *deletion_cost, in_slurm.finish, takes_jobs, !was_chosen, Reverse(slot.clone()), Reverse(name.clone()))
}
