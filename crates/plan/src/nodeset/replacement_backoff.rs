//! History of earlier workers by node name, so that replacements that do not help are repeated with exponential backoff.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

use super::{Stage, Worker};
use crate::{Action, gate::Answer};

/// A worker that was ready for this long works; earlier pods that ended no longer count.
const PROVEN: Duration = Duration::from_mins(10);
/// Replacements older than this no longer count. Longer than any backoff.
const REMEMBERED: Duration = Duration::from_hours(1);

/// History of a NodeSet's workers, by Slurm node name. Losing it costs a minute of grace time and resets the backoff.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplacementBackoff {
    by_node: BTreeMap<String, Record>,
}

/// History of the workers of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// UID of the pod that is ready and not registered in Slurm, and the time at which that was first seen.
    missing: Option<(String, Timestamp)>,
    /// Replacements of unregistered workers since one was last registered.
    pub(super) unregistered: Option<Streak>,
    /// Replacements of ended workers since one was last ready for long.
    pub(super) ended: Option<Streak>,
    /// Replacements of workers whose record differed from them, since one last matched.
    reregistered: Option<Streak>,
}

/// The same replacement several times in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Streak {
    pub(super) times: u32,
    pub(super) last: Timestamp,
}

impl ReplacementBackoff {
    /// An empty history.
    pub const fn new() -> Self {
        Self { by_node: BTreeMap::new() }
    }

    /// Records the current state of the workers.
    pub fn saw(&mut self, workers: &[Worker], now: Timestamp) {
        let mut missing = BTreeSet::new();
        for worker in workers.iter().filter(|worker| worker.stage != Stage::Going) {
            if worker.is_unregistered() {
                missing.insert(worker.node.as_str());
                self.by_node.entry(worker.node.clone()).or_default().note_missing(&worker.uid, now);
            }
            let Some(record) = self.by_node.get_mut(&worker.node) else { continue };
            match worker.in_slurm.is_registered {
                Answer::Yes => (record.missing, record.unregistered) = (None, None),
                // An unregistered worker does not get another minute of grace because Slurm is unreachable for a moment.
                Answer::Unknown(_) if record.missing_since(&worker.uid).is_some() && worker.stage == Stage::Ready => {
                    missing.insert(worker.node.as_str());
                }
                _ => {}
            }
            let is_proven = worker.stage == Stage::Ready && worker.ready_since.is_some_and(|since| after(since, PROVEN) <= now);
            if is_proven {
                record.ended = None;
            }
            if worker.in_slurm.is_registered == Answer::Yes && worker.record.differences.is_empty() {
                record.reregistered = None;
            }
        }
        self.by_node.retain(|node, record| {
            if !missing.contains(node.as_str()) {
                record.missing = None;
            }
            record.is_of_use(now)
        });
    }

    /// Records the planned deletions. Returns the workers that are deleted because Slurm does not know them. A failed deletion also counts.
    pub fn count<'a>(&mut self, actions: &[Action], workers: &'a [Worker], now: Timestamp) -> Vec<&'a Worker> {
        let deleted: BTreeSet<&str> = actions.iter().filter_map(Action::deleted_worker).collect();
        let mut unknown_to_slurm = Vec::new();
        for worker in workers.iter().filter(|worker| deleted.contains(worker.uid.as_str())) {
            let record = self.by_node.entry(worker.node.clone()).or_default();
            if worker.stage == Stage::Ended {
                record.ended = Some(Streak::again(record.ended, now));
            } else if record.missing_since(&worker.uid).is_some() {
                record.unregistered = Some(Streak::again(record.unregistered, now));
                unknown_to_slurm.push(worker);
            } else if worker.record.is_curable && !worker.record.differences.is_empty() {
                record.reregistered = Some(Streak::again(record.reregistered, now));
            }
        }
        unknown_to_slurm
    }

    pub(super) fn of(&self, node: &str) -> Option<&Record> {
        self.by_node.get(node)
    }

    /// Number of times workers of this name were replaced because their record differed from them.
    pub(super) fn reregistered(&self, node: &str) -> u32 {
        self.of(node).and_then(|record| record.reregistered).map_or(0, |streak| streak.times)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.by_node.keys().map(String::as_str)
    }
}

impl Record {
    /// Time since which the pod with this UID has been ready and not registered in Slurm, or `None` if it is not.
    pub(super) fn missing_since(&self, uid: &str) -> Option<Timestamp> {
        self.missing.as_ref().filter(|(missing, _)| missing == uid).map(|(_, since)| *since)
    }

    fn note_missing(&mut self, uid: &str, now: Timestamp) {
        if self.missing_since(uid).is_none() {
            self.missing = Some((uid.to_owned(), now));
        }
    }

    fn is_of_use(&self, now: Timestamp) -> bool {
        let is_recent = |streak: Option<Streak>| streak.is_some_and(|streak| after(streak.last, REMEMBERED) > now);
        self.missing.is_some() || self.reregistered.is_some() || is_recent(self.unregistered) || is_recent(self.ended)
    }
}

impl Streak {
    fn again(before: Option<Self>, now: Timestamp) -> Self {
        Self { times: before.map_or(0, |before| before.times).saturating_add(1), last: now }
    }

    /// Time of the next attempt. The backoff is `first` after the first one and doubles each time up to `most`.
    pub(super) fn next(self, first: Duration, most: Duration) -> Timestamp {
        let doublings = self.times.saturating_sub(1).min(30);
        after(self.last, first.saturating_mul(1 << doublings).min(most))
    }
}

/// `moment` plus `delay`, at most [`Timestamp::MAX`].
pub(super) fn after(moment: Timestamp, delay: Duration) -> Timestamp {
    moment.checked_add(delay).unwrap_or(Timestamp::MAX)
}

/// Time left until `moment`; zero if it has passed.
pub(super) fn until(moment: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(moment.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// `moment` as text for messages.
pub(super) fn written(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
