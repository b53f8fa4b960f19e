//! What is remembered of earlier workers in each place, so that what does not help is done ever more rarely.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

use super::{Stage, Worker};
use crate::{Action, gate::Answer};

/// A worker that was ready for so long works; how its forerunners ended does not count any more.
const PROVEN: Duration = Duration::from_mins(10);
/// What was done longer ago says nothing about now. It is more than any wait between two tries.
const REMEMBERED: Duration = Duration::from_hours(1);

/// What is remembered of a NodeSet's workers, by the names of their nodes in Slurm. Forgetting costs a minute of patience and lets waits begin small again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplacementBackoff {
    by_node: BTreeMap<String, Record>,
}

/// What is remembered of the workers of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// UID of the pod that is up and not in Slurm, and since when it was seen so.
    missing: Option<(String, Timestamp)>,
    /// Workers that were replaced as they were not in Slurm, since one last was.
    pub(super) unregistered: Option<Streak>,
    /// Workers that were replaced as they had ended, since one last was ready for long.
    pub(super) ended: Option<Streak>,
    /// Workers that were replaced as their records said something else than they, since one last did not.
    reregistered: Option<Streak>,
}

/// The same deed several times in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Streak {
    pub(super) times: u32,
    pub(super) last: Timestamp,
}

impl ReplacementBackoff {
    /// Nothing is remembered.
    pub const fn new() -> Self {
        Self { by_node: BTreeMap::new() }
    }

    /// Takes in what is the case now.
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
                // What was not in Slurm a moment ago does not get another minute by a moment in which nobody knows.
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

    /// Takes in what is about to be done, and answers with the workers that are deleted as Slurm does not know them. One that cannot be deleted
    /// after all was a try too.
    pub fn count<'a>(&mut self, actions: &[Action], workers: &'a [Worker], now: Timestamp) -> Vec<&'a Worker> {
        let deleted: BTreeSet<&str> = actions.iter().filter_map(deleted).collect();
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

    /// How often workers of this name were replaced as their records said something else than they.
    pub(super) fn reregistered(&self, node: &str) -> u32 {
        self.of(node).and_then(|record| record.reregistered).map_or(0, |streak| streak.times)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.by_node.keys().map(String::as_str)
    }
}

impl Record {
    /// Since when the pod with this UID has been seen up and not in Slurm, if so.
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

    /// When the next one may follow, where the wait is `first` after the first and doubles each time up to `most`.
    pub(super) fn next(self, first: Duration, most: Duration) -> Timestamp {
        let doublings = self.times.saturating_sub(1).min(30);
        after(self.last, first.saturating_mul(1 << doublings).min(most))
    }
}

fn deleted(action: &Action) -> Option<&str> {
    match action {
        Action::DeleteWorker { uid, .. } => Some(uid),
        _ => None,
    }
}

/// A moment later. One that no calendar has is the last of all.
pub(super) fn after(moment: Timestamp, delay: Duration) -> Timestamp {
    moment.checked_add(delay).unwrap_or(Timestamp::MAX)
}

/// How long it is until then.
pub(super) fn until(moment: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(moment.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// A moment for people.
pub(super) fn written(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
