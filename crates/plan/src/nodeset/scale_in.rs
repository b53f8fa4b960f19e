//! Choice of workers to delete when a NodeSet is scaled in.

use std::cmp::Reverse;

use slipway_api::slurm_node::SCALE_IN;

use super::{Stage, Worker};

/// Chooses workers to delete. Workers without a Kubernetes node, not running or not working yet come first. The order then is: the user's deletion
/// cost, the earliest end of all jobs (idle workers first), workers that take no jobs anyway, workers chosen before, the highest ordinal.
///
/// The order is total: two planners with the same input choose the same pods. It is also stable: a chosen worker takes no new job, so its jobs only
/// get closer to their end, and it is released only for a worker that finishes even sooner.
pub fn plan_scale_in(workers: &[Worker], excess: usize) -> impl Iterator<Item = &Worker> {
    scale_in(workers.iter().collect(), excess)
}

/// [`plan_scale_in`] among some of the workers.
pub(super) fn scale_in(mut workers: Vec<&Worker>, excess: usize) -> impl Iterator<Item = &Worker> {
    workers.retain(|worker| worker.stage != Stage::Going);
    ranked(workers).into_iter().take(excess)
}

/// Workers sorted by [`rank`].
pub(super) fn ranked(mut workers: Vec<&Worker>) -> Vec<&Worker> {
    workers.sort_by_cached_key(|worker| rank(worker));
    workers
}

/// Sort key: the smallest is deleted first.
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
