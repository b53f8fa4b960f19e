//! Workers whose containers ended and do not come back by themselves: they are replaced, ever more slowly where that does not help.

use std::time::Duration;

use jiff::Timestamp;
use slipway_api::condition::Reason;

use super::{
    Observed, Stage, Worker,
    replacement_backoff::{until, written},
};
use crate::Plan;

/// How long the first repetition waits; each waits twice as long as the one before. Kubernetes does the same with pods of its own.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait, so that what was mended is noticed within a coffee break.
const MOST: Duration = Duration::from_mins(15);

/// The ended workers whose turn it is to be replaced. The plan says of the others until when they wait.
pub(super) fn plan_ended<'a>(observed: &Observed<'a>, plan: &mut Plan) -> Vec<&'a Worker> {
    let ended = observed.workers.iter().filter(|worker| worker.stage == Stage::Ended);
    let (now, waiting): (Vec<&Worker>, Vec<&Worker>) = ended.partition(|worker| turn(worker, observed).is_none());
    let turns = waiting.iter().filter_map(|worker| Some((turn(worker, observed)?, *worker)));
    let next = turns.min_by(|(at, worker), (other_at, other)| (at, &worker.slot).cmp(&(other_at, &other.slot)));
    if let Some((at, worker)) = next {
        let more = if waiting.len() > 1 { format!("; and {} more like it wait", waiting.len() - 1) } else { String::new() };
        let why = format!("pod `{}` ended like others before it and is replaced at {}{more}: its log says why", worker.name, written(at));
        plan.report.wait(Reason::PodsNotReady, why);
        plan.wake_within(until(at, observed.now));
    }
    now
}

/// When it may be replaced, if not now. One that was made from an earlier template is no witness against the present one.
fn turn(worker: &Worker, observed: &Observed<'_>) -> Option<Timestamp> {
    let streak = observed.backoff.of(&worker.node)?.ended.filter(|_| worker.is_current)?;
    Some(streak.next(FIRST, MOST)).filter(|at| *at > observed.now)
}

#[cfg(test)]
mod tests;
