//! Reads of the queue. It may be many times larger than the list of nodes, so it is read beside them: a job that starts shows in its nodes, and that must
//! not wait for a list of 50,000 jobs.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::pace::{Failing, Pace};
use crate::rest::kept::Kept;
use crate::rest::list::{Gate, Gated};
use crate::rest::model::QueuedJob;
use crate::rest::{Client, RestError};

/// Duration of a read up to which a queue counts as short, and is read whenever nodes have changed.
const SHORT: Duration = Duration::from_millis(300);

/// Interval of routine reads up to which a queue counts as small: some 100 jobs.
const SMALL: Duration = Duration::from_millis(2_500);

/// State of the queue's reads.
pub(super) struct Queue {
    reading: Option<AbortOnDropHandle<Ended>>,
    /// Nodes changed since the last read began.
    pub(super) is_outdated: bool,
    /// Start of the last read.
    started: Instant,
    /// Wait from there to a read that something waits for, and to any other.
    pause: Duration,
    interval: Duration,
    /// Not before this time, after a failure.
    not_before: Instant,
    /// Duration of the last read.
    took: Duration,
    pub(super) failing: Failing,
}

/// A read that ended.
pub(super) struct Ended {
    pub(super) started: Instant,
    pub(super) took: Duration,
    pub(super) outcome: Result<(Gated, Vec<QueuedJob>), RestError>,
}

impl Queue {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            reading: None,
            is_outdated: false,
            started: now,
            pause: Duration::ZERO,
            interval: Duration::ZERO,
            not_before: now,
            took: Duration::ZERO,
            failing: Failing::default(),
        }
    }

    pub(super) fn is_being_read(&self) -> bool {
        self.reading.is_some()
    }

    pub(super) fn begin(&mut self, client: Arc<Client>, since: Option<Gate>) {
        self.is_outdated = false;
        self.reading = Some(AbortOnDropHandle::new(tokio::spawn(read(client, since))));
    }

    /// True if it may be read every few seconds.
    pub(super) fn is_small(&self) -> bool {
        self.is_short() && self.interval <= SMALL
    }

    pub(super) fn is_short(&self) -> bool {
        self.took <= SHORT
    }

    /// Notes the cost of a read, and so the time of the next; `None` for the size if nothing was sent.
    pub(super) fn note_cost(&mut self, started: Instant, took: Duration, bytes: Option<u64>, pace: &Pace) {
        (self.started, self.took) = (started, took);
        self.pause = if self.is_short() { Duration::ZERO } else { pace.share_of(took) };
        self.interval = bytes.map_or(self.interval, Pace::for_queue);
    }

    /// Waits until then after a failure.
    pub(super) fn put_off(&mut self, until: Instant) {
        self.not_before = until;
    }

    /// Earliest time for a read without a request.
    pub(super) fn earliest(&self, is_needed: bool) -> Instant {
        let wait = if is_needed { self.pause } else { self.pause.max(self.interval) };
        (self.started + wait).max(self.not_before)
    }

    /// Interval of reads that nothing waits for.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// Makes the queue due; a read in progress is given up.
    pub(super) fn read_again(&mut self) {
        (self.reading, self.is_outdated) = (None, true);
    }

    /// Waits for the end of the read in progress; forever if there is none.
    pub(super) async fn read(&mut self) -> Ended {
        loop {
            let Some(reading) = &mut self.reading else { return pending().await };
            let ended = reading.await;
            self.reading = None;
            // Only a panic ends it otherwise; then the next one is due as usual.
            if let Ok(ended) = ended {
                return ended;
            }
        }
    }
}

/// Reads the queue, without ended jobs.
async fn read(client: Arc<Client>, since: Option<Gate>) -> Ended {
    let started = Instant::now();
    let mut kept = Kept::default();
    let keep = |job: QueuedJob| {
        if !job.job_state.is_terminal() {
            kept.push(job);
        }
    };
    let gated = client.queue(since, keep).await;
    Ended { started, took: started.elapsed(), outcome: gated.and_then(|gated| Ok((gated, kept.finish()?))) }
}
