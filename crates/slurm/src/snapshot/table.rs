//! The snapshot and its tables.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::answer::{Answer, Deadline, Why};
use super::jobs::Jobs;
use super::nodes::{Nodes, has_job};
use crate::rest::model::{Node, NodeState, Number, Reservation};

/// Error message before the first read.
const UNTRIED: &str = "no reading was tried yet";

/// Maximum age of the reservations. They are read once a minute, and right after each write of ours.
const RESERVATIONS_GOOD_FOR: Duration = Duration::from_secs(150);

/// A table and the time when it was last confirmed, by a monotonic clock.
#[derive(Clone, Debug)]
pub(super) struct Read<T> {
    pub table: Arc<T>,
    pub at: Option<Instant>,
}

impl<T: Default> Default for Read<T> {
    fn default() -> Self {
        Self { table: Arc::default(), at: None }
    }
}

/// Last known state of one cluster. Cheap to clone: the tables are shared.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) nodes: Read<Nodes>,
    pub(super) jobs: Read<Jobs>,
    pub(super) reservations: Read<Vec<Reservation>>,
    /// Error since the last successful read.
    pub(super) trouble: String,
    /// Maximum age of the nodes that still answer questions.
    pub(super) good_for: Duration,
    /// The same of the queue. It is longer if the queue is: reading it often would cost too much.
    pub(super) queue_good_for: Duration,
}

impl Snapshot {
    pub(super) fn empty(good_for: Duration) -> Self {
        Self {
            nodes: Read::default(),
            jobs: Read::default(),
            reservations: Read::default(),
            trouble: UNTRIED.to_owned(),
            good_for,
            queue_good_for: good_for,
        }
    }

    /// The nodes of the last read, whatever its age.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes.table
    }

    /// The queue of the last read, whatever its age.
    pub fn jobs(&self) -> &Jobs {
        &self.jobs.table
    }

    /// The reservations of the last read, whatever its age.
    pub fn reservations(&self) -> &[Reservation] {
        &self.reservations.table
    }

    /// Time since the nodes were last confirmed, or `None` if never.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        self.nodes.at.map(|at| now.saturating_duration_since(at))
    }

    /// Time since the queue was last confirmed, or `None` if never.
    pub fn queue_age(&self, now: Instant) -> Option<Duration> {
        self.jobs.at.map(|at| now.saturating_duration_since(at))
    }

    /// Time since the reservations were last confirmed, or `None` if never.
    pub fn reservations_age(&self, now: Instant) -> Option<Duration> {
        self.reservations.at.map(|at| now.saturating_duration_since(at))
    }

    /// Error since the last successful read; empty if there is none.
    pub fn trouble(&self) -> &str {
        &self.trouble
    }

    /// True if no read was tried yet: nothing is known, and nothing is wrong.
    pub fn is_untried(&self) -> bool {
        self.nodes.at.is_none() && self.trouble == UNTRIED
    }

    /// Time for which nodes and queue stay fresh without another read, or `None` if one of them is not fresh.
    pub fn fresh_for(&self, now: Instant) -> Option<Duration> {
        let nodes = self.good_for.checked_sub(self.age(now)?)?;
        Some(nodes.min(self.queue_good_for.checked_sub(self.queue_age(now)?)?))
    }

    /// True if the nodes are fresh and complete.
    pub fn is_complete(&self, now: Instant) -> bool {
        self.fresh_nodes(now).is_ok() && self.nodes.table.missing == 0
    }

    /// Slurm has a record of the node, other than a FUTURE one.
    pub fn is_registered(&self, name: &str, now: Instant) -> Answer {
        match self.node(name, now) {
            Ok(Some(node)) => (!node.state.has(&NodeState::Future)).into(),
            Ok(None) => Answer::No,
            Err(why) => Answer::Unknown(why),
        }
    }

    /// The node takes no new job and has none. A node without a record is not drained: it has no state.
    pub fn is_drained(&self, name: &str, now: Instant) -> Answer {
        match self.node(name, now) {
            Ok(Some(node)) if node.state.is_drained() => match self.is_busy(name, now) {
                Answer::No => Answer::Yes,
                Answer::Yes => Answer::No,
                unknown @ Answer::Unknown(_) => unknown,
            },
            Ok(_) => Answer::No,
            Err(why) => Answer::Unknown(why),
        }
    }

    /// A job is on the node. *No* needs both the node's state and the queue, fresh and readable: a suspended job does not show on its nodes.
    pub fn is_busy(&self, name: &str, now: Instant) -> Answer {
        let node = match self.node(name, now) {
            Ok(node) => node,
            Err(why) => return Answer::Unknown(why),
        };
        if node.is_some_and(has_job) {
            return Answer::Yes;
        }
        if let Some(node) = node.filter(|node| !node.state.is_clear()) {
            let why = format!("Slurm gives node `{name}` the state `{}`, which says nothing about jobs", node.state);
            return Answer::Unknown(Why::Unclear(why));
        }
        match self.fresh_jobs(now).map(|jobs| jobs.on(name)) {
            Err(why) => Answer::Unknown(why),
            Ok((jobs, _)) if !jobs.is_empty() => Answer::Yes,
            Ok((_, true)) => Answer::Unknown(Why::Unclear("a running job has a list of nodes that cannot be read".to_owned())),
            Ok(_) if self.is_queue_behind(name) => Answer::Unknown(Why::QueueBehind(name.to_owned())),
            Ok(_) => Answer::No,
        }
    }

    /// True if the node became free after the queue was read: one of its jobs may be suspended since.
    fn is_queue_behind(&self, name: &str) -> bool {
        self.nodes.table.free_since(name).is_some_and(|since| self.jobs.at.is_none_or(|at| at < since))
    }

    /// True if a drained node is free according to its record, and only the queue can confirm it.
    pub(super) fn is_queue_needed(&self) -> bool {
        self.nodes.table.iter().any(|node| node.state.is_drained() && self.is_queue_behind(&node.name))
    }

    /// The node's slurmd started or reread its files at `moment` or later, by the server's clock. One that does not respond counts as *no*: it may
    /// come back with the old files.
    pub fn has_started_since(&self, name: &str, moment: Timestamp, now: Instant) -> Answer {
        match self.node(name, now) {
            Ok(Some(node)) if node.state.has(&NodeState::NotResponding) => Answer::No,
            Ok(Some(node)) => node.slurmd_start_time.moment().is_some_and(|started| started >= moment).into(),
            Ok(None) => Answer::No,
            Err(why) => Answer::Unknown(why),
        }
    }

    /// Latest end of the node's last job.
    pub fn job_deadline(&self, name: &str, now: Instant) -> Deadline {
        match self.is_busy(name, now) {
            Answer::No => return Deadline::Free,
            Answer::Unknown(why) => return Deadline::Unknown(why),
            Answer::Yes => {}
        }
        let (jobs, unreadable) = match self.fresh_jobs(now) {
            Ok(queue) => queue.on(name),
            Err(why) => return Deadline::Unknown(why),
        };
        if unreadable || jobs.is_empty() {
            let why = format!("node `{name}` is busy, but no job in the queue is known to be on it");
            return Deadline::Unknown(Why::Unclear(why));
        }
        if jobs.iter().any(|job| job.time_limit == Number::Infinite) {
            return Deadline::Never;
        }
        let ends: Option<Vec<Timestamp>> = jobs.iter().map(|job| job.end_time.moment()).collect();
        match ends.and_then(|ends| ends.into_iter().max()) {
            Some(end) => Deadline::At(end),
            None => Deadline::Unknown(Why::Unclear(format!("a job on node `{name}` has no end"))),
        }
    }

    /// The node's record in a fresh list; a missing record counts only if the list is complete.
    fn node(&self, name: &str, now: Instant) -> Result<Option<&Node>, Why> {
        let nodes = self.fresh_nodes(now)?;
        match nodes.get(name) {
            Some(node) => Ok(Some(node)),
            None if nodes.missing > 0 => Err(Why::Partial { missing: nodes.missing }),
            None => Ok(None),
        }
    }

    /// The nodes, if they are fresh; some may be missing.
    pub fn fresh_nodes(&self, now: Instant) -> Result<&Nodes, Why> {
        self.fresh(&self.nodes, self.good_for, now)
    }

    /// The queue, if it is fresh.
    pub fn fresh_jobs(&self, now: Instant) -> Result<&Jobs, Why> {
        self.fresh(&self.jobs, self.queue_good_for, now)
    }

    /// The reservation of this name, or `None` if there is none. Fails if the reservations are not fresh.
    pub fn reservation(&self, name: &str, now: Instant) -> Result<Option<&Reservation>, Why> {
        let reservations = self.fresh(&self.reservations, RESERVATIONS_GOOD_FOR, now)?;
        Ok(reservations.iter().find(|reservation| reservation.name == name))
    }

    fn fresh<'a, T>(&self, read: &'a Read<T>, good_for: Duration, now: Instant) -> Result<&'a T, Why> {
        let Some(at) = read.at else { return Err(Why::NeverRead(self.trouble.clone())) };
        let age = now.saturating_duration_since(at);
        if age > good_for { Err(Why::Stale { age, trouble: self.trouble.clone() }) } else { Ok(&read.table) }
    }
}

#[cfg(test)]
mod tests;
