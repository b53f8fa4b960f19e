//! Workers whose containers ended and are not restarted: they are replaced, with exponential backoff if that does not help.

use std::time::Duration;

use jiff::Timestamp;
use slipway_api::condition::Reason;

use super::{
    Observed, Stage, Worker,
    replacement_backoff::{until, written},
};
use crate::Plan;

/// Backoff of the first repetition; it doubles each time, as Kubernetes does for its own pods.
const FIRST: Duration = Duration::from_secs(1);
/// Maximum backoff, so that a fix takes effect soon.
const MOST: Duration = Duration::from_mins(15);

/// Ended workers that are due for replacement. The plan reports when the next of the others is due.
pub(super) fn plan_ended<'a>(observed: &Observed<'a>, plan: &mut Plan) -> Vec<&'a Worker> {
    let ended = observed.workers.iter().filter(|worker| worker.stage == Stage::Ended);
    let (now, waiting): (Vec<&Worker>, Vec<&Worker>) = ended.partition(|worker| turn(worker, observed).is_none());
    let turns = waiting.iter().filter_map(|worker| Some((turn(worker, observed)?, *worker)));
    let next = turns.min_by(|(at, worker), (other_at, other)| (at, &worker.slot).cmp(&(other_at, &other.slot)));
    if let Some((at, worker)) = next {
        let more = if waiting.len() > 1 { format!("; and {} more like it wait", waiting.len() - 1) } else { String::new() };
        let why =
            format!("pod `{}` ended like others before it and is replaced at {}{more}; the reason is in its log", worker.name, written(at));
        plan.report.wait(Reason::PodsNotReady, why);
        plan.wake_within(until(at, observed.now));
    }
    now
}

/// Time of the replacement, or `None` if it is due now. A worker from an earlier template is no evidence against the current one.
fn turn(worker: &Worker, observed: &Observed<'_>) -> Option<Timestamp> {
    let streak = observed.backoff.of(&worker.node)?.ended.filter(|_| worker.is_current)?;
    Some(streak.next(FIRST, MOST)).filter(|at| *at > observed.now)
}

#[cfg(test)]
mod tests;
