//! Mirrors the state of a Slurm node to its pod, and the identity of the pod to its Slurm node.

mod comment;
mod condition;
mod mark;

use std::collections::BTreeSet;

pub use mark::plan_protection;

use super::{Observed, Stage, Worker};
use crate::{Plan, PodId};

/// Writes conditions, labels, annotations and comments that differ, but not to pods that the plan deletes.
pub(super) fn plan_mirror(observed: &Observed<'_>, deleted: &BTreeSet<String>, plan: &mut Plan) {
    let stays = |worker: &&Worker| worker.stage != Stage::Going && !worker.uid.is_empty() && !deleted.contains(&worker.uid);
    let workers: Vec<&Worker> = observed.workers.iter().filter(stays).collect();
    mark::plan_marks(observed, &workers, plan);
    condition::plan_conditions(observed, &workers, plan);
    comment::plan_comments(observed, &workers, plan);
}

fn pod_of(worker: &Worker, namespace: &str) -> PodId {
    PodId { namespace: namespace.to_owned(), name: worker.name.clone(), uid: worker.uid.clone() }
}

#[cfg(test)]
mod tests;
