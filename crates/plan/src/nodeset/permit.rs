//! What users permit in annotations, for when a worker is to leave and jobs are running.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use slipway_api::annotation::{DRAIN_DEADLINE, FORCE_DELETE};

use super::Leave;

type Annotations = BTreeMap<String, String>;

/// What stands on a worker pod, or on its NodeSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// The jobs end by themselves.
    WhenEmpty,
    /// From this moment on it leaves with its jobs.
    From(Timestamp),
    /// This long after its drain began it leaves with its jobs.
    Within(SignedDuration),
    /// It leaves with its jobs.
    Now,
}

impl Permit {
    /// `None` where nothing is said. What cannot be read permits nothing.
    pub fn read(annotations: &Annotations) -> Option<Self> {
        let (force, deadline) = (annotations.get(FORCE_DELETE), annotations.get(DRAIN_DEADLINE));
        if force.is_none() && deadline.is_none() {
            return None;
        }
        if force.is_some_and(|text| is_forced(text) == Some(true)) {
            return Some(Self::Now);
        }
        Some(deadline.and_then(|text| parse_deadline(text)).unwrap_or(Self::WhenEmpty))
    }

    /// What it means for a worker whose drain, if it is ours, began then. A length of time does not run before that.
    pub fn leave(self, drained_since: Option<Timestamp>) -> Leave {
        match self {
            Self::WhenEmpty => Leave::WhenEmpty,
            Self::From(moment) => Leave::After(moment),
            Self::Within(length) => {
                let end = drained_since.and_then(|since| since.checked_add(length).ok());
                end.map_or(Leave::WhenEmpty, Leave::After)
            }
            Self::Now => Leave::Now,
        }
    }
}

/// What cannot be read, a sentence for each.
pub fn doubts(annotations: &Annotations) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(text) = annotations.get(FORCE_DELETE).filter(|text| is_forced(text).is_none()) {
        doubts.push(format!("annotation {FORCE_DELETE}: `{}` permits nothing: write `true`, or take the annotation away", shortened(text)));
    }
    if let Some(text) = annotations.get(DRAIN_DEADLINE).filter(|text| parse_deadline(text).is_none()) {
        doubts.push(format!(
            "annotation {DRAIN_DEADLINE}: `{}` is neither a moment nor a length of time, so it permits nothing: \
             write it like `2026-01-31T18:00:00Z` or `30m`",
            shortened(text)
        ));
    }
    doubts
}

/// Nothing but the exact word ends jobs.
fn is_forced(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" | "" => Some(false),
        _ => None,
    }
}

fn parse_deadline(text: &str) -> Option<Permit> {
    if let Ok(moment) = text.parse() {
        return Some(Permit::From(moment));
    }
    let length: SignedDuration = text.parse().ok()?;
    (!length.is_negative()).then_some(Permit::Within(length))
}

fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const MOMENT: &str = "2026-01-02T03:04:05Z";

    fn annotations(force: Option<&str>, deadline: Option<&str>) -> Annotations {
        let force = force.map(|text| (FORCE_DELETE.to_owned(), text.to_owned()));
        let deadline = deadline.map(|text| (DRAIN_DEADLINE.to_owned(), text.to_owned()));
        force.into_iter().chain(deadline).collect()
    }

    fn moment(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[rstest]
    #[case::nothing(None, None, None)]
    #[case::force(Some("true"), None, Some(Permit::Now))]
    #[case::force_before_deadline(Some("true"), Some("30m"), Some(Permit::Now))]
    #[case::no_force(Some("false"), None, Some(Permit::WhenEmpty))]
    #[case::no_force_but_a_deadline(Some("false"), Some("30m"), Some(Permit::Within(SignedDuration::from_mins(30))))]
    #[case::moment(None, Some(MOMENT), Some(Permit::From(moment(MOMENT))))]
    #[case::moment_elsewhere(None, Some("2026-01-02T04:04:05+01:00"), Some(Permit::From(moment(MOMENT))))]
    #[case::two_units(None, Some("1h30m"), Some(Permit::Within(SignedDuration::from_mins(90))))]
    #[case::at_once(None, Some("0s"), Some(Permit::Within(SignedDuration::ZERO)))]
    fn annotations_say_what_is_permitted(#[case] force: Option<&str>, #[case] deadline: Option<&str>, #[case] expected: Option<Permit>) {
        let annotations = annotations(force, deadline);
        assert_eq!(Permit::read(&annotations), expected);
        assert_eq!(doubts(&annotations), Vec::<String>::new());
    }

    #[rstest]
    #[case::capital(Some("True"), None)]
    #[case::yes(Some("yes"), None)]
    #[case::no_unit(None, Some("30"))]
    #[case::negative(None, Some("-30m"))]
    #[case::ago(None, Some("30m ago"))]
    #[case::no_zone(None, Some("2026-01-02T03:04:05"))]
    #[case::day(None, Some("2026-01-02"))]
    #[case::empty(None, Some(""))]
    #[case::long(None, Some("soon, but not before everybody who has a job there has gone home"))]
    fn what_cannot_be_read_permits_nothing_and_is_told(#[case] force: Option<&str>, #[case] deadline: Option<&str>) {
        let annotations = annotations(force, deadline);
        assert_eq!(Permit::read(&annotations), Some(Permit::WhenEmpty));
        let doubts = doubts(&annotations);
        assert!(doubts.len() == 1 && doubts[0].contains("permits nothing: write "), "{doubts:?}");
    }

    #[rstest]
    #[case::drained(Some(MOMENT), Leave::After(moment("2026-01-02T03:34:05Z")))]
    #[case::not_drained_by_us(None, Leave::WhenEmpty)]
    fn a_length_of_time_runs_from_the_drain(#[case] since: Option<&str>, #[case] expected: Leave) {
        assert_eq!(Permit::Within(SignedDuration::from_mins(30)).leave(since.map(moment)), expected);
    }

    #[test]
    fn a_length_beyond_all_time_never_ends() {
        assert_eq!(Permit::Within(SignedDuration::MAX).leave(Some(moment(MOMENT))), Leave::WhenEmpty);
    }

    #[test]
    fn a_moment_and_force_do_not_wait_for_the_drain() {
        assert_eq!(Permit::From(moment(MOMENT)).leave(None), Leave::After(moment(MOMENT)));
        assert_eq!(Permit::Now.leave(None), Leave::Now);
    }

    proptest! {
        #[test]
        fn only_the_exact_word_forces(force in any::<String>(), deadline in any::<String>()) {
            let permit = Permit::read(&annotations(Some(&force), Some(&deadline)));
            prop_assert_eq!(permit == Some(Permit::Now), force == "true");
        }
    }
}
