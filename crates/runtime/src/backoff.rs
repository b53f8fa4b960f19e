//! Retry delays: per object, exponential, with jitter.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, RandomState},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::failure::Class;

const CONFLICT: Duration = Duration::from_millis(100);
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);
/// A change triggers a reconcile at once; this is for causes that no watch shows, such as a right that was granted.
const PERMANENT: Duration = Duration::from_mins(1);

/// Counts consecutive failures per object.
pub(crate) struct Backoff<K> {
    attempts: Mutex<HashMap<K, u32>>,
    jitter: RandomState,
}

impl<K: Eq + Hash + Clone> Backoff<K> {
    pub(crate) fn new() -> Self {
        Self { attempts: Mutex::new(HashMap::new()), jitter: RandomState::new() }
    }

    /// The delay after one more failure.
    pub(crate) fn failed(&self, key: &K, class: Class) -> Duration {
        let attempt = {
            let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
            let attempt = attempts.entry(key.clone()).or_insert(0);
            *attempt = attempt.saturating_add(1);
            *attempt
        };
        let delay = match class {
            // Permanent conflicts with another writer must not cause rapid retries either.
            Class::Conflict => (CONFLICT * 2_u32.saturating_pow((attempt - 1).min(10))).min(LONGEST),
            Class::Transient => (FIRST * 2_u32.saturating_pow((attempt - 1).min(10))).min(LONGEST),
            Class::Permanent | Class::Moot => PERMANENT,
        };
        // Up to a quarter more, so that objects that failed together are not retried together.
        let share = self.jitter.hash_one((key, attempt)) % 256;
        delay + delay / 4 * u32::try_from(share).unwrap_or(0) / 256
    }

    pub(crate) fn succeeded(&self, key: &K) {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Drops objects that no longer exist.
    pub(crate) fn retain(&self, exists: impl Fn(&K) -> bool) {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| exists(key));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn delays_double_up_to_a_minute_and_start_over_after_success() {
        let backoff = Backoff::new();
        let mut last = Duration::ZERO;
        for attempt in 0..12_u32 {
            let base = (FIRST * 2_u32.pow(attempt.min(6))).min(LONGEST);
            let delay = backoff.failed(&"a", Class::Transient);
            assert!(delay >= base && delay <= base + base / 4, "attempt {attempt}: {delay:?}");
            last = delay;
        }
        assert!(last >= LONGEST);
        backoff.succeeded(&"a");
        assert!(backoff.failed(&"a", Class::Transient) < FIRST * 2);
    }

    #[rstest]
    #[case(Class::Conflict)]
    #[case(Class::Transient)]
    #[case(Class::Permanent)]
    fn no_number_of_failures_overflows(#[case] class: Class) {
        let backoff = Backoff::new();
        for _ in 0..200 {
            assert!(backoff.failed(&"a", class) <= LONGEST + LONGEST / 4);
        }
    }

    #[test]
    fn objects_count_apart() {
        let backoff = Backoff::new();
        for _ in 0..5 {
            backoff.failed(&"a", Class::Transient);
        }
        assert!(backoff.failed(&"b", Class::Transient) < FIRST * 2);
    }
}
