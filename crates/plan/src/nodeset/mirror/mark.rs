//! The label that protects a busy worker from eviction, and the annotation with the end of its last job.

use jiff::Timestamp;
use slipway_api::{annotation, label, slurm_node::NO_DEADLINE};

use super::pod_of;
use crate::{
    Action, Marks, Plan,
    gate::Answer,
    nodeset::{Finish, Observed, Stage, Worker},
};

/// Maximum time between two ends that are shown, in minutes.
const COARSEST: i64 = 64;

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
        let deadline = deadline(worker, observed.now);
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

/// The end of the last job that the pod should show.
///
/// With many jobs on a node it moves with each of them. So it is exact only at first; later it may be late, never early, by up to half of the remaining
/// time or two minutes. Decisions of our own use what Slurm reports.
fn deadline(worker: &Worker, now: Timestamp) -> Option<String> {
    let shown = worker.shown.deadline.as_ref();
    match worker.in_slurm.finish {
        Finish::Free => None,
        Finish::At(end) => Some(match shown {
            None => end.to_string(),
            Some(shown) if is_near(shown, end, now) => shown.clone(),
            Some(_) => rounded_up(end, step(end, now)).to_string(),
        }),
        Finish::Never => Some(NO_DEADLINE.to_owned()),
        Finish::Unknown => shown.cloned(),
    }
}

/// True if `shown` is not before `end` and not far behind it.
fn is_near(shown: &str, end: Timestamp, now: Timestamp) -> bool {
    let latest = rounded_up(end, step(end, now)).as_second() + step(end, now);
    shown.parse::<Timestamp>().is_ok_and(|shown| end <= shown && shown.as_second() <= latest)
}

/// Seconds between two ends that are shown: a power of two minutes, at most a quarter of the time until then.
fn step(end: Timestamp, now: Timestamp) -> i64 {
    let minutes = (end.as_second() - now.as_second()) / 60 / 4;
    60 << minutes.clamp(1, COARSEST).ilog2()
}

fn rounded_up(end: Timestamp, step: i64) -> Timestamp {
    Timestamp::from_second((end.as_second() + step - 1).div_euclid(step) * step).unwrap_or(end)
}
