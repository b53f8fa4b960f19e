//! Intervals between reads, after successes and after failures.

use std::time::Duration;

use tokio::time::Instant;

use crate::rest::RestError;

/// Minimum wait after a failure.
const BREATH: Duration = Duration::from_millis(500);
/// Full reads of a large table may take at most one part in this many of the time.
const SHARE: u32 = 20;
/// Bytes of nodes and of the queue that are read in a second on average, if they change all the time.
const NODES_PER_SECOND: u64 = 400_000;
const QUEUE_PER_SECOND: u64 = 200_000;
/// Bytes of nodes that may be read sooner than that, when a quiet cluster begins to change.
const BURST: u64 = 60 * NODES_PER_SECOND;
/// Maximum wait between two reads of nodes that change.
const LONGEST_FOR_NODES: Duration = Duration::from_secs(6);
/// Maximum wait between two reads of a long queue.
const LONGEST_FOR_QUEUE: Duration = Duration::from_mins(4);

/// Polling intervals. An idle cluster costs 24 + 3 + 1 small calls a minute.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time from a change of a node until it is seen, if reading the table takes less.
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

impl Pace {
    /// Wait between full reads that take this long, so that large tables are not read all the time.
    pub(super) fn share_of(&self, took: Duration) -> Duration {
        (took * SHARE).min(self.good_for / 2)
    }

    /// Interval between routine reads of a queue of this size.
    pub(super) fn for_queue(bytes: u64) -> Duration {
        Duration::from_millis(bytes.saturating_mul(1_000) / QUEUE_PER_SECOND).min(LONGEST_FOR_QUEUE)
    }
}

/// Bytes of nodes that may be read now. It grows with time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    left: u64,
    at: Instant,
}

impl Allowance {
    pub(super) fn full(now: Instant) -> Self {
        Self { left: BURST, at: now }
    }

    /// Notes a full read, and returns the time until the next one of that size fits.
    pub(super) fn spend(&mut self, bytes: u64, now: Instant) -> Duration {
        let grown =
            u64::try_from(now.saturating_duration_since(self.at).as_millis()).unwrap_or(u64::MAX).saturating_mul(NODES_PER_SECOND) / 1_000;
        *self = Self { left: self.left.saturating_add(grown).min(BURST).saturating_sub(bytes), at: now };
        let missing = bytes.saturating_sub(self.left);
        Duration::from_millis(missing.saturating_mul(1_000) / NODES_PER_SECOND).min(LONGEST_FOR_NODES)
    }
}

/// Consecutive failures of a read, and the last error.
#[derive(Debug, Default)]
pub(super) struct Failing {
    times: u32,
    trouble: String,
}

impl Failing {
    /// The last error; empty after a success.
    pub(super) fn trouble(&self) -> &str {
        &self.trouble
    }

    /// Records the result of a read; after a failure, returns the time of the next. A read that hung has waited already.
    pub(super) fn note(&mut self, read: Result<(), RestError>, started: Instant, pace: &Pace) -> Option<Instant> {
        let Err(error) = read else {
            *self = Self::default();
            return None;
        };
        let wait = match &error {
            RestError::Paused { wait, .. } => *wait,
            _ => pace.nodes.saturating_mul(1 << self.times.min(4)).min(pace.retry),
        };
        if self.times == 0 {
            tracing::warn!(%error, "cannot read from Slurm");
        }
        self.times += 1;
        self.trouble = match error {
            // The cause is the failure before the pause. The length of the pause changes all the time, and this message is shown to users.
            RestError::Paused { trouble, .. } => trouble,
            _ => error.to_string(),
        };
        Some((started + wait).max(Instant::now() + BREATH))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_then_the_size_of_the_table_decides() {
        let mut now = Instant::now();
        let mut allowance = Allowance::full(now);
        let table = 4 * NODES_PER_SECOND;
        let mut waits = Vec::new();
        for _ in 0..20 {
            let wait = allowance.spend(table, now);
            now += wait;
            waits.push(wait);
        }
        assert!(waits[..14].iter().all(Duration::is_zero), "{waits:?}");
        assert!(waits[15..].iter().all(|wait| *wait == Duration::from_secs(4)), "{waits:?}");
        assert_eq!(allowance.spend(BURST, now), LONGEST_FOR_NODES);
        assert_eq!(allowance.spend(table, now + Duration::from_mins(2)), Duration::ZERO, "it has recovered");
    }
}
