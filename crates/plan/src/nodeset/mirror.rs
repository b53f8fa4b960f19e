//! Mirrors the state of a Slurm node to its pod, and the identity of the pod to its Slurm node.

mod comment;
mod condition;
mod mark;

use std::collections::BTreeSet;

pub use mark::plan_protection;

use super::{Observed, Stage, Worker};
use crate::{Action, Plan, PodId};

/// Writes conditions, labels, annotations and comments that differ. Runs last: pods that the plan deletes are not written to any more.
pub(super) fn plan_mirror(observed: &Observed<'_>, plan: &mut Plan) {
    let deleted: BTreeSet<&str> = plan.actions.iter().filter_map(deleted).collect();
    let stays = |worker: &&Worker| worker.stage != Stage::Going && !worker.uid.is_empty() && !deleted.contains(worker.uid.as_str());
    let workers: Vec<&Worker> = observed.workers.iter().filter(stays).collect();
    mark::plan_marks(observed, &workers, plan);
    condition::plan_conditions(observed, &workers, plan);
    comment::plan_comments(observed, &workers, plan);
}

fn deleted(action: &Action) -> Option<&str> {
    match action {
        Action::DeleteWorker { uid, .. } => Some(uid),
        _ => None,
    }
}

fn pod_of(worker: &Worker, namespace: &str) -> PodId {
    PodId { namespace: namespace.to_owned(), name: worker.name.clone(), uid: worker.uid.clone() }
}

#[cfg(test)]
mod tests;
