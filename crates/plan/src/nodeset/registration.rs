//! Workers that are ready but not registered in Slurm: they get no jobs until their pod is replaced.
//!
//! slurmd's probes succeed even if slurmctld refused the registration or has lost its state since, and slurmd does not retry. So only slurmctld's
//! node list shows the problem, and only a new pod helps.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use slipway_api::condition::Reason;

use super::{
    Observed, Policy, Worker,
    replacement_backoff::{after, until, written},
};
use crate::{
    Action, Plan,
    gate::{Clearance, Deed, gate},
};

/// Time that a worker may be ready before Slurm must know it. Registering takes milliseconds and reading it back seconds; a slurmctld that restarts
/// meanwhile takes up to half a minute.
const GRACE: Duration = Duration::from_mins(1);
/// Backoff after the first replacement of a worker; it doubles with each further one.
const FIRST: Duration = Duration::from_mins(1);
/// Longest backoff, so that a repair takes effect within this time.
const MOST: Duration = Duration::from_mins(15);
/// Time that a replacement counts as in progress although it does not register. After that the next worker has its turn; otherwise a few
/// unschedulable pods would keep all others out of Slurm.
const PATIENCE: Duration = Duration::from_mins(5);

/// Replaces workers that Slurm does not know, a few at a time, so that a slurmctld that lost its state gets them back in steps.
/// Returns the UIDs of the deleted pods.
pub(super) fn plan_registration(observed: &Observed<'_>, leaving: &BTreeSet<String>, plan: &mut Plan) -> BTreeSet<String> {
    let mut deleted = BTreeSet::new();
    let Observed { workers, backoff, now, policy: Policy { max_unavailable, .. }, .. } = observed;
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
        } else if can_be_made(observed)
            && let Some(clearance) = clearance(worker)
        {
            on_their_way.insert(node);
            deleted.insert(worker.uid.clone());
            plan.actions.push(Action::DeleteWorker { name: worker.name.clone(), uid: worker.uid.clone(), clearance });
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
            _ if !can_be_made(observed) => "none now, because no new pod could be created".to_owned(),
            Some((at, worker)) if on_their_way.is_empty() => format!("`{}` is next at {}", worker.name, written(at)),
            _ => format!("on their way: {}", on_their_way.len()),
        };
        plan.report.wait(Reason::SlurmNodeNotRegistered, words(troubled, &how, observed));
    } else if !unregistered.is_empty() {
        let why = format!("{} of {} workers are up and not registered in Slurm yet", unregistered.len(), observed.policy.replicas);
        plan.report.wait(Reason::WaitingForSlurm, why);
    }
    deleted
}

fn words(troubled: usize, how: &str, observed: &Observed<'_>) -> String {
    let Observed { policy: Policy { replicas, max_unavailable, .. }, .. } = observed;
    format!(
        "{troubled} of {replicas} workers are not registered in Slurm, which refused them or lost its state: their pods are replaced, at most \
         {max_unavailable} at a time ({how}); if that does not help, see slurmctld's log"
    )
}

/// Replacements in progress whose worker has not been removed from the NodeSet meanwhile. Between the old and the new pod of a name, no pod exists.
fn still_wanted<'a>(on_their_way: &BTreeSet<&'a str>, observed: &Observed<'_>) -> Vec<&'a str> {
    let Observed { workers, policy: Policy { replicas, .. }, .. } = observed;
    let is_one_missing = observed.own().count() < *replicas;
    let there: BTreeSet<&str> =
        if on_their_way.is_empty() { BTreeSet::new() } else { workers.iter().map(|worker| worker.node.as_str()).collect() };
    on_their_way.iter().copied().filter(|node| is_one_missing || there.contains(node)).collect()
}

/// Next replacement of a worker.
struct Turn<'a> {
    worker: &'a Worker,
    at: Timestamp,
    /// Number of replacements so far. The worker with the fewest comes first: a replacement that does not help one may help another.
    times: u32,
    /// True if Slurm should know it by now.
    is_late: bool,
}

impl<'a> Turn<'a> {
    /// Due once the worker has been ready and unregistered for [`GRACE`], counts as available, and its backoff is over. `None` if it is not tracked
    /// as unregistered.
    fn of(worker: &'a Worker, observed: &Observed<'_>) -> Option<Self> {
        let record = observed.backoff.of(&worker.node)?;
        let patient_until = after(record.missing_since(&worker.uid)?, GRACE).max(worker.available_from?);
        let streak = record.unregistered;
        let at = streak.map_or(patient_until, |streak| patient_until.max(streak.next(FIRST, MOST)));
        Some(Self { worker, at, times: streak.map_or(0, |streak| streak.times), is_late: patient_until <= observed.now })
    }
}

/// The clearance to delete the pod, if the gate gives it. A worker that Slurm does not know gets no jobs, so deleting it makes none unavailable.
fn clearance(worker: &Worker) -> Option<Clearance> {
    gate(&Deed::new(format!("delete pod `{}`", worker.name), worker.in_slurm.would_end_jobs(false))).clearance()
}

/// True if a new pod would be created. If not, the present pod is kept: it may still register once slurmctld is repaired.
pub(super) fn can_be_made(observed: &Observed<'_>) -> bool {
    observed.problem.is_none() && observed.new_workers_wait.is_none()
}

/// End of the time in which the replacement of a node counts as in progress: it is terminating, starting or not registered again. `None` if over.
fn on_its_way(node: &str, observed: &Observed<'_>) -> Option<Timestamp> {
    let streak = observed.backoff.of(node)?.unregistered?;
    Some(after(streak.last, PATIENCE)).filter(|until| *until > observed.now)
}

/// Time at which the first replacement in progress stops counting, if none registers before.
fn room_at(on_their_way: &BTreeSet<&str>, observed: &Observed<'_>) -> Timestamp {
    let first = on_their_way.iter().filter_map(|node| on_its_way(node, observed)).min();
    first.unwrap_or_else(|| after(observed.now, PATIENCE))
}

#[cfg(test)]
mod tests;
