//! The task per cluster that reads Slurm. Only the queue is read beside it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::pace::{Allowance, Failing, Pace};
use super::queue::Queue;
use super::table::Snapshot;
use crate::rest::list::Gate;
use crate::rest::{Client, RestError};

/// Time between the starts of two full reads, in durations of one.
const REST: u32 = 4;
/// Nodes wait this long for a short queue, so that a job that starts is seen at once with its end.
const TOGETHER: Duration = Duration::from_secs(1);

/// Reads one cluster. Created with its [`Handle`]; [`Keeper::run`] does the work.
pub struct Keeper {
    pub(super) client: Arc<Client>,
    pub(super) pace: Pace,
    pub(super) snapshot: Snapshot,
    pub(super) gates: Gates,
    pub(super) due: Due,
    /// Names that Slurm has or had. One list without a name is not enough to remove it.
    pub(super) known: BTreeSet<String>,
    /// Time since which many nodes are missing.
    pub(super) loss_since: Option<Instant>,
    /// Duration of the last full read of the nodes.
    pub(super) nodes_took: Duration,
    pub(super) allowance: Allowance,
    pub(super) queue: Queue,
    /// Failures of nodes and reservations; the queue has its own.
    failing: Failing,
    published: watch::Sender<Arc<Snapshot>>,
    requests: Arc<Requests>,
}

/// Timestamps from which to request changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gates {
    /// A gate missed a change: gates are not used before this time.
    pub distrusted_until: Option<Instant>,
    /// Number of times that gates missed a change.
    pub untruths: u32,
    pub nodes: Option<Gate>,
    pub jobs: Option<Gate>,
    pub reservations: Option<Gate>,
}

impl Gates {
    pub(super) fn are_trusted(&self) -> bool {
        self.distrusted_until.is_none_or(|until| until <= Instant::now())
    }
}

/// Time of the next read of each table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub nodes: Instant,
    /// Of a look for new jobs without reading all nodes.
    pub look: Instant,
    pub jobs: Instant,
    pub reservations: Instant,
    pub audit: Instant,
}

#[derive(Default)]
struct Requests {
    soon: Notify,
    /// The next read requests all nodes, not only changes.
    whole: AtomicBool,
    /// The next read includes the queue and the reservations.
    with_queue: AtomicBool,
    /// The next read includes the reservations, all of them.
    with_reservations: AtomicBool,
}

/// Access to the snapshots of one cluster.
#[derive(Clone)]
pub struct Handle {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    requests: Arc<Requests>,
}

impl Handle {
    /// The newest snapshot; never waits.
    pub fn latest(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshots.borrow())
    }

    /// Waits until something changed since the last call. Fails if the keeper has ended.
    pub async fn changed(&mut self) -> Result<Arc<Snapshot>, watch::error::RecvError> {
        self.snapshots.changed().await?;
        Ok(Arc::clone(&self.snapshots.borrow_and_update()))
    }

    /// Requests a read now, after a write.
    pub fn read_soon(&self) {
        self.requests.soon.notify_one();
    }

    /// Requests a read of nodes, queue and reservations now, before a decision that must not miss a job submitted a moment ago.
    pub fn read_queue_soon(&self) {
        self.requests.with_queue.store(true, Ordering::SeqCst);
        self.requests.soon.notify_one();
    }

    /// Requests a read of nodes and reservations now, after a reservation was written.
    pub fn read_reservations_soon(&self) {
        self.requests.with_reservations.store(true, Ordering::SeqCst);
        self.requests.soon.notify_one();
    }

    /// Requests a read of all nodes now, to see what Slurm may not count as a change: slurmd's new start time appears a moment after everything else
    /// of a reconfigure, within the same second; and the deletion of the last node is never reported.
    pub fn read_all_soon(&self) {
        self.requests.whole.store(true, Ordering::SeqCst);
        self.requests.soon.notify_one();
    }
}

impl Keeper {
    /// Creates a keeper that has read nothing yet.
    pub fn new(client: Arc<Client>, pace: Pace) -> (Self, Handle) {
        let now = Instant::now();
        let snapshot = Snapshot::empty(pace.good_for);
        let (published, snapshots) = watch::channel(Arc::new(snapshot.clone()));
        let requests = Arc::new(Requests::default());
        let keeper = Self {
            client,
            pace,
            snapshot,
            gates: Gates { distrusted_until: None, untruths: 0, nodes: None, jobs: None, reservations: None },
            due: Due { nodes: now, look: now, jobs: now, reservations: now, audit: now + pace.audit / 10 },
            known: BTreeSet::new(),
            loss_since: None,
            nodes_took: Duration::ZERO,
            allowance: Allowance::full(now),
            queue: Queue::new(now),
            failing: Failing::default(),
            published,
            requests: Arc::clone(&requests),
        };
        (keeper, Handle { snapshots, requests })
    }

    /// Reads until all handles are dropped.
    pub async fn run(mut self) {
        loop {
            self.note_outdated_queue();
            let mut next = self.due.nodes.min(self.due.look).min(self.due.reservations);
            if !self.queue.is_being_read() {
                next = next.min(self.due.jobs);
            }
            let requests = Arc::clone(&self.requests);
            let mut ended = None;
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                read = self.queue.read() => ended = Some(read),
                () = requests.soon.notified() => {
                    self.due.nodes = self.soonest();
                    if requests.whole.swap(false, Ordering::SeqCst) {
                        self.gates.nodes = None;
                    }
                    if requests.with_queue.swap(false, Ordering::SeqCst) {
                        self.due.jobs = self.due.nodes;
                        self.due.reservations = self.due.nodes;
                    }
                    if requests.with_reservations.swap(false, Ordering::SeqCst) {
                        (self.gates.reservations, self.due.reservations) = (None, self.due.nodes);
                    }
                }
                () = self.published.closed() => return,
            }
            let before = self.snapshot.clone();
            if let Some(read) = ended {
                self.take_queue(read);
            }
            let started = Instant::now();
            if self.due.nodes.min(self.due.reservations) <= started {
                let read = self.read_due(started).await;
                self.note(read, started);
            } else if self.due.look <= started {
                let read = self.look_for_jobs().await;
                self.note(read, started);
            }
            // After the nodes: what changed there makes the queue due.
            self.note_outdated_queue();
            if self.due.jobs <= Instant::now() && !self.queue.is_being_read() {
                self.begin_queue();
                if self.queue.is_short()
                    && let Ok(read) = tokio::time::timeout(TOGETHER, self.queue.read()).await
                {
                    self.take_queue(read);
                }
            }
            self.publish(&before);
        }
    }

    /// Now, or a moment later if the table is so large that requests could keep slurmctld busy.
    fn soonest(&self) -> Instant {
        let rested = self.snapshot.nodes.at.map_or_else(Instant::now, |at| at + self.nodes_took * REST);
        rested.max(Instant::now())
    }

    async fn read_due(&mut self, now: Instant) -> Result<(), RestError> {
        if self.due.nodes <= now {
            self.read_nodes().await?;
        }
        if self.due.reservations <= now {
            self.read_reservations().await?;
        }
        Ok(())
    }

    /// Records the result of a read. After a failure everything backs off.
    fn note(&mut self, read: Result<(), RestError>, started: Instant) {
        if let Some(later) = self.failing.note(read, started, &self.pace) {
            let Due { nodes, look, jobs, reservations, .. } = &mut self.due;
            for due in [nodes, look, jobs, reservations] {
                *due = (*due).max(later);
            }
        }
        self.note_trouble();
    }

    pub(super) fn note_trouble(&mut self) {
        let parts = [&self.failing, &self.queue.failing];
        self.snapshot.trouble = parts.iter().map(|part| part.trouble()).find(|trouble| !trouble.is_empty()).unwrap_or_default().to_owned();
    }

    /// Publishes the new snapshot; only a change wakes the receivers.
    fn publish(&self, before: &Snapshot) {
        let (old, new) = (before, &self.snapshot);
        // The first snapshot has all tables: without the queue, no node is known to be idle.
        if new.trouble.is_empty() && new.jobs.at.is_none() {
            return;
        }
        let is_news = !Arc::ptr_eq(&old.nodes.table, &new.nodes.table)
            || !Arc::ptr_eq(&old.jobs.table, &new.jobs.table)
            || !Arc::ptr_eq(&old.reservations.table, &new.reservations.table)
            || old.trouble.is_empty() != new.trouble.is_empty()
            || old.nodes.at.is_none() != new.nodes.at.is_none()
            || old.jobs.at.is_none() != new.jobs.at.is_none();
        self.published.send_if_modified(|published| {
            *published = Arc::new(new.clone());
            is_news
        });
    }
}
