//! Which workers leave when a NodeSet shrinks.

use std::cmp::Reverse;

use super::{Stage, Worker};

/// Those that do not work yet before those that do, then by the user's deletion cost, then who finishes first (idle ones at once), then those
/// that take no jobs anyway, then from the highest ordinal down. The order is total: two planners with the same input choose the same pods.
pub fn plan_scale_in(workers: &[Worker], excess: usize) -> impl Iterator<Item = &Worker> {
    let mut ranked: Vec<_> = workers.iter().filter(|worker| worker.stage != Stage::Going).collect();
    ranked.sort_by_key(|worker| {
        let works = worker.stage == Stage::Ready;
        (works, worker.deletion_cost, worker.in_slurm.finish, worker.in_slurm.may_get_jobs(), Reverse(worker.ordinal))
    });
    ranked.into_iter().take(excess)
}
