//! Workers that are up and that Slurm does not know: they serve nobody until they are made anew.
//!
//! slurmd's probes say that all is well although slurmctld refused to register it, or has lost its state since; and slurmd does not try again. So
//! only slurmctld's list of nodes tells, and only a new pod helps.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use slipway_api::condition::Reason;

use super::{
    Observed, Worker,
    replacement_backoff::{after, until, written},
};
use crate::{
    Action, Plan,
    gate::{Deed, Room, Verdict, gate},
};

/// So long a worker may be up before Slurm must know it. Registering takes milliseconds and reading it back seconds; a slurmctld that restarts at that
/// moment takes up to half a minute.
const GRACE: Duration = Duration::from_mins(1);
/// How long the first repetition in one place waits; each waits twice as long as the one before.
const FIRST: Duration = Duration::from_mins(1);
/// The longest wait, so that what was mended is noticed within a coffee break.
const MOST: Duration = Duration::from_mins(15);
/// So long a replacement that does not come counts as on its way. Afterwards the next has its turn, or a few that find no place would keep all others
/// out of Slurm.
const PATIENCE: Duration = Duration::from_mins(5);

/// Replaces workers that Slurm does not know, a few at a time, so that a slurmctld that lost its state gets them back in steps.
pub(super) fn plan_registration(observed: &Observed<'_>, leaving: &BTreeSet<String>, plan: &mut Plan) {
    let Observed { workers, backoff, now, max_unavailable, .. } = observed;
    let unregistered: Vec<&Worker> = workers.iter().filter(|worker| worker.is_unregistered() && !leaving.contains(&worker.name)).collect();
    let mut on_their_way: BTreeSet<&str> = backoff.nodes().filter(|node| on_its_way(node, observed).is_some()).collect();
    let mut turns: Vec<Turn<'_>> = unregistered.iter().filter_map(|worker| Turn::of(worker, observed)).collect();
    turns.sort_by(|one, other| (one.times, one.at, &one.worker.slot).cmp(&(other.times, other.at, &other.worker.slot)));
    let (mut waiting, mut without_room) = (Vec::new(), Vec::new());
    for turn in &turns {
        let (worker, node) = (turn.worker, turn.worker.node.as_str());
        if turn.at > *now {
            waiting.push((turn.at, worker));
        } else if !on_their_way.contains(node) && on_their_way.len() >= *max_unavailable {
            without_room.push(worker);
        } else if can_be_made(observed) && is_allowed(worker) {
            on_their_way.insert(node);
            plan.actions.push(Action::DeleteWorker { name: worker.name.clone(), uid: worker.uid.clone() });
        }
    }
    waiting.extend(without_room.first().map(|worker| (room_at(&on_their_way, observed), *worker)));
    let next = waiting.into_iter().min_by(|(at, worker), (other_at, other)| (at, &worker.slot).cmp(&(other_at, &other.slot)));
    if let Some((at, _)) = next {
        plan.wake_within(until(at, *now));
    }
    let late = turns.iter().filter(|turn| turn.is_late).map(|turn| turn.worker.node.as_str());
    let troubled = late.chain(still_wanted(&on_their_way, observed)).collect::<BTreeSet<_>>().len();
    if troubled > 0 {
        let how = match next {
            _ if !can_be_made(observed) => "none now, as no new one could be made".to_owned(),
            Some((at, worker)) if on_their_way.is_empty() => format!("`{}` is next at {}", worker.name, written(at)),
            _ => format!("on their way: {}", on_their_way.len()),
        };
        plan.report.wait(Reason::SlurmNodeNotRegistered, words(troubled, &how, observed));
    } else if !unregistered.is_empty() {
        let why = format!("{} of {} workers are up and not registered in Slurm yet", unregistered.len(), observed.replicas);
        plan.report.wait(Reason::WaitingForSlurm, why);
    }
}

fn words(troubled: usize, how: &str, observed: &Observed<'_>) -> String {
    let Observed { replicas, max_unavailable, .. } = observed;
    format!(
        "{troubled} of {replicas} workers are not registered in Slurm, which refused them or lost its state: their pods are replaced, at most \
         {max_unavailable} at a time ({how}); where that does not help, slurmctld's log says why"
    )
}

/// Those on their way that nobody has taken out of the NodeSet meanwhile. Between two pods of one name there is none.
fn still_wanted<'a>(on_their_way: &BTreeSet<&'a str>, observed: &Observed<'_>) -> Vec<&'a str> {
    let Observed { workers, replicas, .. } = observed;
    let is_one_missing = observed.own().count() < *replicas;
    let there: BTreeSet<&str> =
        if on_their_way.is_empty() { BTreeSet::new() } else { workers.iter().map(|worker| worker.node.as_str()).collect() };
    on_their_way.iter().copied().filter(|node| is_one_missing || there.contains(node)).collect()
}

/// When a worker may be replaced.
struct Turn<'a> {
    worker: &'a Worker,
    at: Timestamp,
    /// How often that was done in its place. Whoever was tried least often comes first: what does not help one may help another.
    times: u32,
    /// Whether Slurm should know it by now.
    is_late: bool,
}

impl<'a> Turn<'a> {
    /// It was up and unknown for long enough, counts as available, and the last try in its place was long enough ago.
    fn of(worker: &'a Worker, observed: &Observed<'_>) -> Option<Self> {
        let record = observed.backoff.of(&worker.node)?;
        let patient_until = after(record.missing_since(&worker.uid)?, GRACE).max(worker.available_from?);
        let streak = record.unregistered;
        let at = streak.map_or(patient_until, |streak| patient_until.max(streak.next(FIRST, MOST)));
        Some(Self { worker, at, times: streak.map_or(0, |streak| streak.times), is_late: patient_until <= observed.now })
    }
}

/// The gate's leave. A worker that Slurm does not know serves nobody, so none fewer is available without it.
fn is_allowed(worker: &Worker) -> bool {
    let (what, ends_jobs) = (format!("delete pod `{}`", worker.name), worker.in_slurm.would_end_jobs(false));
    let deed = Deed { what, is_ours: true, ends_jobs, may_end_jobs: false, costs_a_worker: false };
    gate(&deed, Room { available: 0, floor: 0 }) == Verdict::Allowed
}

/// Whether a new pod would come. Where not, one that is up may still register when slurmctld is mended, and one that is gone may not.
fn can_be_made(observed: &Observed<'_>) -> bool {
    observed.problem.is_none() && observed.new_workers_wait.is_none()
}

/// Until when the replacement of a node counts as on its way, if it does: it is being deleted, starts, or is not in Slurm again.
fn on_its_way(node: &str, observed: &Observed<'_>) -> Option<Timestamp> {
    let streak = observed.backoff.of(node)?.unregistered?;
    Some(after(streak.last, PATIENCE)).filter(|until| *until > observed.now)
}

/// When the first of those on their way stops counting, if none comes before.
fn room_at(on_their_way: &BTreeSet<&str>, observed: &Observed<'_>) -> Timestamp {
    let first = on_their_way.iter().filter_map(|node| on_its_way(node, observed)).min();
    first.unwrap_or_else(|| after(observed.now, PATIENCE))
}

#[cfg(test)]
mod tests;
