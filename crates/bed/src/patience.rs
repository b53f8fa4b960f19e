//! The one timeout of every wait in a test. It does not end a wait that makes progress on a slow machine: time in which work waited for a core counts
//! little.

use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::machine::Reading;
use crate::progress::seconds;

/// Timeout on a machine with spare cores: more than twice the longest of Slurm's and Kubernetes' own timers.
pub const PATIENCE: Duration = Duration::from_mins(3);
/// Weight of time without a free core. A machine that is always short of cores gets five times as long.
const STALLED_COUNTS: f64 = 0.2;
/// Interval between two readings of the machine's counters.
const READ_EVERY: Duration = Duration::from_millis(500);

/// A wait in progress.
#[derive(Debug)]
pub struct Patience {
    began: Instant,
    read: Instant,
    reading: Reading,
    spent: Duration,
}

impl Patience {
    pub fn start() -> Self {
        let now = Instant::now();
        Self { began: now, read: now, reading: Reading::now(), spent: Duration::ZERO }
    }

    /// True if the machine had enough time for the awaited event.
    pub fn is_exhausted(&mut self) -> bool {
        let elapsed = self.read.elapsed();
        if elapsed >= READ_EVERY {
            let now = Reading::now();
            self.spent += counted(elapsed, now.stalled_since(self.reading, elapsed));
            self.read = Instant::now();
            self.reading = now;
        }
        self.spent > PATIENCE
    }

    /// Time since the wait began, for messages.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Polls until the answer is `Ok`. The pauses grow from the first of `pauses` to the second. An `Err` states what is still missing; the last one is
/// reported when patience ends.
pub async fn eventually<T>(what: &str, pauses: [Duration; 2], ask: impl AsyncFn() -> Result<T, String>) -> Result<T, Failure> {
    let ([mut pause, longest], mut patience) = (pauses, Patience::start());
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(missing) if patience.is_exhausted() => {
                return Err(Failure::new(format!("waited {} for {what}, in vain: {missing}", seconds(patience.elapsed()))));
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = longest.min(pause.mul_f32(1.3));
    }
}

/// The part of `elapsed` that counts towards the timeout.
fn counted(elapsed: Duration, stalled: f64) -> Duration {
    elapsed.mul_f64(1.0 - (1.0 - STALLED_COUNTS) * stalled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_free_core_counts_a_fifth() {
        let second = Duration::from_secs(1);
        assert_eq!(counted(second, 0.0), second);
        assert_eq!(counted(second, 0.5), Duration::from_millis(600));
        assert_eq!(counted(second, 1.0), Duration::from_millis(200));
    }

    #[test]
    fn a_wait_begins_with_all_its_patience() {
        assert!(!Patience::start().is_exhausted());
    }
}
