//! Limit on repeated and frequent events: pure, with the time passed in by the caller.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Events about one object that may be sent at once.
pub(super) const BURST: u32 = 10;
/// Time until one more event may be sent.
pub(super) const PER_TOKEN: Duration = Duration::from_mins(1);
/// An object without an attempted event for this long is dropped; the API server drops events after the same time.
pub(super) const FORGET_AFTER: Duration = Duration::from_hours(1);
/// With fewer objects than this a sweep is not worth it.
const WORTH_SWEEPING: usize = 1024;

/// Decision about one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Send,
    /// It was the last event about the object.
    Repeated,
    TooMany,
}

/// Tracks, for each object, the last event and how many more may be sent.
pub(super) struct Limiter {
    objects: HashMap<String, Object>,
    hasher: RandomState,
    sweep_at: usize,
}

struct Object {
    /// Digest of the last event; the text itself would cost memory for thousands of workers.
    said: Option<u64>,
    /// Time at which the bucket is full if no more events are sent: the only number that a token bucket needs.
    full_at: Duration,
    tried_at: Duration,
}

impl Limiter {
    pub(super) fn new() -> Self {
        Self { objects: HashMap::new(), hasher: RandomState::new(), sweep_at: WORTH_SWEEPING }
    }

    /// Decides if an event may be sent about an object at `now`. Only sent events count, so that one that was held back is sent as soon as there is
    /// room, if it still applies.
    pub(super) fn judge(&mut self, object: &str, words: &[&str], now: Duration) -> Verdict {
        self.sweep(now);
        let digest = self.hasher.hash_one(words);
        let object = self.objects.entry(object.to_owned()).or_insert(Object { said: None, full_at: now, tried_at: now });
        object.tried_at = object.tried_at.max(now);
        if object.said == Some(digest) {
            return Verdict::Repeated;
        }
        let full_at = object.full_at.max(now) + PER_TOKEN;
        if full_at > now + PER_TOKEN * BURST {
            return Verdict::TooMany;
        }
        object.full_at = full_at;
        object.said = Some(digest);
        Verdict::Send
    }

    /// Records that the last event about the object was not delivered: it may be sent again.
    pub(super) fn unsay(&mut self, object: &str) {
        if let Some(object) = self.objects.get_mut(object) {
            object.said = None;
        }
    }

    fn sweep(&mut self, now: Duration) {
        if self.objects.len() < self.sweep_at {
            return;
        }
        self.objects.retain(|_, object| now.saturating_sub(object.tried_at) < FORGET_AFTER);
        self.sweep_at = (self.objects.len() * 2).max(WORTH_SWEEPING);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Judges the words one after the other, each at its second.
    fn verdicts(said: &[(u64, &str)]) -> Vec<Verdict> {
        let mut limiter = Limiter::new();
        said.iter().map(|(second, words)| limiter.judge("u", &[words], SECOND * u32::try_from(*second).unwrap())).collect()
    }

    #[rstest]
    #[case::once(&[(0, "a"), (1, "a"), (9999, "a")], &[Verdict::Send, Verdict::Repeated, Verdict::Repeated])]
    #[case::again_after_something_else(&[(0, "a"), (1, "b"), (2, "a")], &[Verdict::Send, Verdict::Send, Verdict::Send])]
    fn the_same_is_said_once_until_something_else_was_said(#[case] said: &[(u64, &str)], #[case] expected: &[Verdict]) {
        assert_eq!(verdicts(said), expected);
    }

    #[test]
    fn ten_at_once_and_then_one_each_minute() {
        let mut limiter = Limiter::new();
        let mut say = |words: &str, second: u32| limiter.judge("u", &[words], SECOND * second);
        for count in 0..BURST {
            assert_eq!(say(&count.to_string(), 0), Verdict::Send);
        }
        assert_eq!(say("eleventh", 0), Verdict::TooMany);
        assert_eq!(say("eleventh", 59), Verdict::TooMany);
        assert_eq!(say("eleventh", 60), Verdict::Send, "what was held back is said when there is room");
        assert_eq!(say("twelfth", 61), Verdict::TooMany);
        assert_eq!(say("twelfth", 120), Verdict::Send);
    }

    #[test]
    fn objects_and_the_borders_between_words_count_apart() {
        let mut limiter = Limiter::new();
        assert_eq!(limiter.judge("u", &["ab", "c"], SECOND), Verdict::Send);
        assert_eq!(limiter.judge("v", &["ab", "c"], SECOND), Verdict::Send);
        assert_eq!(limiter.judge("u", &["a", "bc"], SECOND), Verdict::Send);
    }

    #[test]
    fn what_did_not_arrive_is_said_again() {
        let mut limiter = Limiter::new();
        assert_eq!(limiter.judge("u", &["a"], SECOND), Verdict::Send);
        limiter.unsay("u");
        assert_eq!(limiter.judge("u", &["a"], SECOND), Verdict::Send);
    }

    #[test]
    fn forgotten_objects_cost_no_memory_and_living_ones_are_not_forgotten() {
        let mut limiter = Limiter::new();
        assert_eq!(limiter.judge("living", &["a"], Duration::ZERO), Verdict::Send);
        for half_hour in 0..8_u32 {
            let now = FORGET_AFTER / 2 * half_hour;
            assert_eq!(limiter.judge("living", &["a"], now), Verdict::Repeated);
            for object in 0..WORTH_SWEEPING {
                limiter.judge(&format!("{half_hour}-{object}"), &["a"], now);
            }
        }
        assert!(limiter.objects.len() < 5 * WORTH_SWEEPING, "{} objects are remembered", limiter.objects.len());
    }

    proptest! {
        /// In no period are more events sent about an object than the bucket holds plus those that the period adds, and no event is sent twice in a
        /// row.
        #[test]
        fn no_object_is_ever_talked_about_too_much(said in prop::collection::vec((0_u64..2, 0_u8..4, 0_u64..90), 1..300)) {
            let mut limiter = Limiter::new();
            let mut now = Duration::ZERO;
            let mut sent: HashMap<u64, Vec<(Duration, u8)>> = HashMap::new();
            for (object, words, pause) in said {
                now += SECOND * u32::try_from(pause).unwrap();
                if limiter.judge(&object.to_string(), &[&words.to_string()], now) == Verdict::Send {
                    sent.entry(object).or_default().push((now, words));
                }
            }
            for times in sent.values() {
                for (first, (from, _)) in times.iter().enumerate() {
                    for (last, (to, _)) in times.iter().enumerate().skip(first) {
                        let brought = to.saturating_sub(*from).as_secs() / PER_TOKEN.as_secs();
                        prop_assert!((last - first + 1) as u64 <= u64::from(BURST) + brought);
                    }
                }
                prop_assert!(times.windows(2).all(|pair| pair[0].1 != pair[1].1));
            }
        }
    }
}
