//! Call limits of one cluster: concurrent calls, and calls over time.
//!
//! slurmrestd itself does not limit its requests to slurmctld; its clients must.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// The limits of one cluster.
pub struct Budget {
    places: Semaphore,
    /// Time that one call costs.
    interval: Duration,
    /// Time by which calls may run ahead.
    ahead: Duration,
    /// Time at which all calls so far are paid.
    paid_at: Mutex<Option<Instant>>,
}

impl Budget {
    /// At most `at_once` concurrent calls and `per_second` in the long run, with a burst of `burst`.
    pub fn new(at_once: u32, per_second: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { places: Semaphore::new(at_once.max(1) as usize), interval, ahead: interval * burst.max(1), paid_at: Mutex::new(None) }
    }

    /// Waits for a turn; dropping the permit frees the slot.
    pub async fn admit(&self) -> Option<SemaphorePermit<'_>> {
        let wait = self.charge(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        // The semaphore is never closed, so there is always a permit eventually.
        self.places.acquire().await.ok()
    }

    /// Books one call and returns how long it must wait.
    fn charge(&self, now: Instant) -> Duration {
        let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        let paid = paid_at.map_or(now, |paid| paid.max(now)) + self.interval;
        *paid_at = Some(paid);
        (paid - now).saturating_sub(self.ahead)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_then_the_rate_holds() {
        let budget = Budget::new(100, 10, 5);
        let started = Instant::now();
        for _ in 0..5 {
            drop(budget.admit().await);
        }
        assert_eq!(started.elapsed(), Duration::ZERO);
        for _ in 0..20 {
            drop(budget.admit().await);
        }
        let elapsed = started.elapsed();
        assert!((1_900..=2_100).contains(&elapsed.as_millis()), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_allowed_number_runs_at_once() {
        let budget = Arc::new(Budget::new(3, 1_000, 1_000));
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let calls: Vec<_> = (0..20)
            .map(|_| {
                let (budget, running, most) = (Arc::clone(&budget), Arc::clone(&running), Arc::clone(&most));
                tokio::spawn(async move {
                    let _permit = budget.admit().await;
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }
}
