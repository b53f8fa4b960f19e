//! The only task per cluster that reads Slurm.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::table::Snapshot;
use crate::name::NodeName;
use crate::rest::list::Gate;
use crate::rest::{Client, RestError};

/// Minimum wait after a failure.
const BREATH: Duration = Duration::from_millis(500);

/// Polling intervals. An idle cluster costs 24 + 3 + 1 small calls a minute.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub nodes: Duration,
    /// A job that starts or ends changes its nodes, which makes the queue due at once; this interval is for other jobs.
    pub jobs: Duration,
    pub reservations: Duration,
    /// Interval of full reads that check if the gates are right.
    pub audit: Duration,
    /// Time after a change until the tables are fully read once more: the server may itself have been behind at the first read, and no gate would
    /// show it.
    pub confirm: Duration,
    /// Interval of full reads while gates cannot be trusted.
    pub without_gates: Duration,
    /// Maximum backoff after failures, and so until a recovery is noticed.
    pub retry: Duration,
    /// Maximum age of a read that still answers questions.
    pub good_for: Duration,
    /// Time for which many nodes must be missing before they count as gone.
    pub believe_loss: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            nodes: Duration::from_millis(2_500),
            jobs: Duration::from_secs(20),
            reservations: Duration::from_mins(1),
            audit: Duration::from_mins(5),
            confirm: Duration::from_secs(20),
            without_gates: Duration::from_secs(10),
            retry: Duration::from_secs(5),
            good_for: Duration::from_secs(30),
            believe_loss: Duration::from_secs(30),
        }
    }
}

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
    failures: u32,
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
    /// Single reads of followed nodes between two lists.
    pub followed: Instant,
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
    followed: Mutex<BTreeSet<NodeName>>,
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

    /// Sets the nodes to follow: they are read singly while the whole list is read rarely.
    pub fn follow(&self, names: BTreeSet<NodeName>) {
        *self.requests.followed.lock().unwrap_or_else(PoisonError::into_inner) = names;
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
            due: Due { nodes: now, followed: now, jobs: now, reservations: now, audit: now + pace.audit / 10 },
            known: BTreeSet::new(),
            loss_since: None,
            failures: 0,
            published,
            requests: Arc::clone(&requests),
        };
        (keeper, Handle { snapshots, requests })
    }

    /// Reads until all handles are dropped.
    pub async fn run(mut self) {
        loop {
            let next = self.due.nodes.min(self.due.followed).min(self.due.jobs).min(self.due.reservations);
            let requests = Arc::clone(&self.requests);
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = requests.soon.notified() => {
                    self.due.nodes = Instant::now();
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
            let started = Instant::now();
            let read = self.read_due(started).await;
            self.note(read, started);
            self.publish(&before);
        }
    }

    async fn read_due(&mut self, now: Instant) -> Result<(), RestError> {
        if self.due.nodes <= now {
            self.read_nodes().await?;
        } else if self.due.followed <= now {
            let followed = self.requests.followed.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.read_followed(&followed).await?;
        }
        // Changed nodes make the queue due slightly after `now`. No snapshot may have the nodes without the queue.
        if self.due.jobs <= Instant::now() {
            self.read_jobs().await?;
        }
        if self.due.reservations <= now {
            self.read_reservations().await?;
        }
        Ok(())
    }

    /// Records the result of a read. After a failure everything backs off. A read that hung has waited already.
    fn note(&mut self, read: Result<(), RestError>, started: Instant) {
        let Err(error) = read else {
            self.failures = 0;
            self.snapshot.trouble.clear();
            return;
        };
        let wait = match &error {
            RestError::Paused { wait, .. } => *wait,
            _ => self.pace.nodes.saturating_mul(1 << self.failures.min(4)).min(self.pace.retry),
        };
        if self.failures == 0 {
            tracing::warn!(%error, "cannot read from Slurm");
        }
        self.failures += 1;
        self.snapshot.trouble = match error {
            // The cause is the failure before the pause. The length of the pause changes all the time, and this message is shown to users.
            RestError::Paused { trouble, .. } => trouble,
            _ => error.to_string(),
        };
        let later = (started + wait).max(Instant::now() + BREATH);
        let Due { nodes, followed, jobs, reservations, .. } = &mut self.due;
        for due in [nodes, followed, jobs, reservations] {
            *due = (*due).max(later);
        }
    }

    /// Publishes the new snapshot; only a change wakes the receivers.
    fn publish(&self, before: &Snapshot) {
        let (old, new) = (before, &self.snapshot);
        let is_news = !Arc::ptr_eq(&old.nodes.table, &new.nodes.table)
            || !Arc::ptr_eq(&old.jobs.table, &new.jobs.table)
            || !Arc::ptr_eq(&old.reservations.table, &new.reservations.table)
            || old.trouble.is_empty() != new.trouble.is_empty()
            || old.nodes.at.is_none() != new.nodes.at.is_none();
        self.published.send_if_modified(|published| {
            *published = Arc::new(new.clone());
            is_news
        });
    }
}
