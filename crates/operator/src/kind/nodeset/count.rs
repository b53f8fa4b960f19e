//! Counts in a NodeSet's status.

use jiff::Timestamp;
use slipway_api::NodeSetStatus;
use slipway_plan::{
    gate::Answer,
    nodeset::{InSlurm, Stage, Worker},
};

pub(super) fn count(status: &mut NodeSetStatus, workers: &[Worker], replicas: i32, now: Timestamp) {
    let number =
        |wanted: &dyn Fn(&Worker) -> bool| i32::try_from(workers.iter().filter(|worker| wanted(worker)).count()).unwrap_or(i32::MAX);
    let available = number(&|worker| worker.is_available(now));
    status.desired = Some(replicas);
    status.replicas = Some(number(&|_| true));
    status.updated_replicas = Some(number(&|worker| worker.is_current && worker.stage != Stage::Going));
    status.ready_replicas = Some(number(&|worker| worker.stage == Stage::Ready));
    status.available_replicas = Some(available);
    status.unavailable_replicas = Some(replicas.saturating_sub(available).clamp(0, replicas.max(0)));

    // A pod that was just created is not in the cache yet, and Slurm was not asked about it.
    let is_known = workers.iter().all(|worker| worker.uid.is_empty() || !matches!(worker.in_slurm.is_registered, Answer::Unknown(_)));
    let in_slurm = |wanted: fn(&InSlurm) -> bool| is_known.then(|| number(&|worker| wanted(&worker.in_slurm)));
    status.slurm_idle = in_slurm(|node| node.has("Idle"));
    status.slurm_allocated = in_slurm(|node| node.has("Allocated") || node.has("Mixed"));
    status.slurm_down = in_slurm(|node| node.has("Down"));
    status.slurm_drain = in_slurm(|node| node.has("Drain"));
}

/// Keeps the previous counts from Slurm until Slurm was asked: a freshly started operator has nothing to add.
pub(super) fn keep_counts(before: &NodeSetStatus, status: &mut NodeSetStatus) {
    status.slurm_idle = before.slurm_idle;
    status.slurm_allocated = before.slurm_allocated;
    status.slurm_down = before.slurm_down;
    status.slurm_drain = before.slurm_drain;
}

#[cfg(test)]
mod tests;
