//! Pod conditions that show the state of the pod's Slurm node.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use slipway_api::slurm_node::{CONDITION_PREFIX, DRAINED_CONDITION};

use super::pod_of;
use crate::{
    Action, Plan,
    gate::Answer,
    nodeset::{InSlurm, Observed, Worker},
};

/// Flag of a node that does not respond to slurmctld. Such a node often recovers by itself.
const NOT_RESPONDING: &str = "NotResponding";
const DOWN: &str = "Down";
/// Flag of a node on which a job has ended that is not cleaned up yet. That takes a moment, and jobs end all the time.
const COMPLETING: &str = "Completing";
/// Base states of a node with jobs.
const ALLOCATED: &str = "Allocated";
const MIXED: &str = "Mixed";

/// Number of nodes that may start or stop responding within [`LASTS`]. More than that is treated as a problem of the network or of slurmctld, which
/// would otherwise cost two writes per node.
const MOST_AT_ONCE: usize = 20;
/// During such a problem, a changed response state is shown after it has lasted this long, and COMPLETING always. Slurm itself sets a node DOWN after
/// 300 s.
const LASTS: Duration = Duration::from_secs(30);

/// Updates our pod conditions to the state of the node, if that is known.
pub(super) fn plan_conditions(observed: &Observed<'_>, workers: &[&Worker], plan: &mut Plan) {
    let changing = workers.iter().filter(|worker| left(&worker.in_slurm, observed.now).is_some()).count();
    for worker in workers {
        let Some(mut wanted) = conditions(worker) else { continue };
        if changing > MOST_AT_ONCE
            && let Some(left) = left(&worker.in_slurm, observed.now)
            && keep_response(worker, &mut wanted)
        {
            plan.wake_within(left);
        }
        let (completing, since) = (type_of(COMPLETING), worker.in_slurm.completing_since);
        if let Some(left) = since.and_then(|since| left_since(since, observed.now))
            && !worker.shown.conditions.contains_key(&completing)
            && wanted.remove(&completing).is_some()
        {
            plan.wake_within(left);
        }
        if wanted != worker.shown.conditions {
            plan.actions.push(Action::ShowConditions { pod: pod_of(worker, observed.policy.namespace), conditions: wanted });
        }
    }
}

/// Conditions by type with their messages, or `None` if Slurm's state is unknown; then the pod's conditions stay as they are.
fn conditions(worker: &Worker) -> Option<BTreeMap<String, String>> {
    let InSlurm { is_registered, is_drained, states, reason, .. } = &worker.in_slurm;
    if matches!(is_registered, Answer::Unknown(_)) {
        return None;
    }
    let is_drained = match is_drained {
        Answer::Yes => true,
        Answer::No => false,
        Answer::Unknown(_) => worker.in_slurm.has("Drain") && worker.shown.conditions.contains_key(DRAINED_CONDITION),
    };
    let is_mixed_as_before = worker.in_slurm.is_counting && worker.shown.conditions.contains_key(&type_of(MIXED));
    let raw = states.iter().map(|state| type_of(if is_mixed_as_before && *state == ALLOCATED { MIXED } else { state }));
    let drained = is_drained.then(|| DRAINED_CONDITION.to_owned());
    Some(raw.chain(drained).map(|type_| (type_, reason.clone())).collect())
}

/// Time until the present response state has lasted for [`LASTS`], or `None` if it already has.
fn left(node: &InSlurm, now: Timestamp) -> Option<Duration> {
    left_since(node.response_since?, now)
}

/// Time until something that began at `since` has lasted for [`LASTS`], or `None` if it already has.
fn left_since(since: Timestamp, now: Timestamp) -> Option<Duration> {
    let lasted = now.duration_since(since).unsigned_abs();
    LASTS.checked_sub(lasted).filter(|left| !left.is_zero())
}

/// Keeps the response state as the pod shows it, unless the node is DOWN. True if that makes a difference.
fn keep_response(worker: &Worker, wanted: &mut BTreeMap<String, String>) -> bool {
    if worker.in_slurm.has(DOWN) {
        return false;
    }
    let silent = type_of(NOT_RESPONDING);
    let is_shown = worker.shown.conditions.contains_key(&silent);
    let differs = is_shown != wanted.contains_key(&silent);
    if is_shown {
        wanted.insert(silent, worker.in_slurm.reason.clone());
    } else {
        wanted.remove(&silent);
    }
    differs
}

fn type_of(state: &str) -> String {
    format!("{CONDITION_PREFIX}{state}")
}
