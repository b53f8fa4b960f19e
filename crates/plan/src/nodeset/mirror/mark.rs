//! The label that protects a busy worker from eviction, and the annotation with the end of its last job.

use slipway_api::{annotation, label, slurm_node::NO_DEADLINE};

use super::pod_of;
use crate::{
    Action, Marks, Plan,
    gate::Answer,
    nodeset::{Finish, Observed, Stage, Worker},
};

/// Workers that get the protection label in this reconcile. The PodDisruptionBudget has to count them before they have the label: if it counts too
/// few, a worker can be evicted; if it counts too many, no harm is done.
pub fn plan_protection(workers: &[Worker], protects: bool) -> impl Iterator<Item = &Worker> {
    workers.iter().filter(move |worker| worker.stage != Stage::Going && !worker.shown.is_protected && should_protect(worker, protects))
}

/// Sets label and annotation, in one write if both differ.
pub(super) fn plan_marks(observed: &Observed<'_>, workers: &[&Worker], plan: &mut Plan) {
    for worker in workers {
        let mut marks = Marks::default();
        let is_protected = should_protect(worker, observed.policy.protects);
        if is_protected != worker.shown.is_protected {
            marks.labels.insert(label::POD_PROTECT.to_owned(), is_protected.then(|| "true".to_owned()));
        }
        let deadline = deadline(worker);
        if deadline != worker.shown.deadline {
            marks.annotations.insert(annotation::POD_DEADLINE.to_owned(), deadline);
        }
        if marks != Marks::default() {
            plan.actions.push(Action::MarkPod { pod: pod_of(worker, observed.policy.namespace), marks });
        }
    }
}

/// True if the pod should have the protection label. While it is unknown if a job is running, the label stays as it is.
fn should_protect(worker: &Worker, protects: bool) -> bool {
    protects
        && match worker.in_slurm.is_busy {
            Answer::Yes => true,
            Answer::No => false,
            Answer::Unknown(_) => worker.shown.is_protected,
        }
}

fn deadline(worker: &Worker) -> Option<String> {
    match worker.in_slurm.finish {
        Finish::Free => None,
        Finish::At(end) => Some(end.to_string()),
        Finish::Never => Some(NO_DEADLINE.to_owned()),
        Finish::Unknown => worker.shown.deadline.clone(),
    }
}
