//! Annotations that allow a worker to be deleted while jobs are running on it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use slipway_api::annotation::{DRAIN_DEADLINE, FORCE_DELETE};

type Annotations = BTreeMap<String, String>;

/// Treatment of running jobs when their worker is to be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobPolicy {
    /// Jobs run to their end.
    #[default]
    Wait,
    /// From this time on running jobs are killed.
    KillAfter(Timestamp),
    /// Running jobs are killed at once.
    KillNow,
}

impl JobPolicy {
    /// True if a user has allowed running jobs to be killed now.
    pub fn may_kill_jobs(self, now: Timestamp) -> bool {
        match self {
            Self::Wait => false,
            Self::KillAfter(deadline) => deadline <= now,
            Self::KillNow => true,
        }
    }
}

/// The policy in the annotations of a worker pod or its NodeSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobPolicyAnnotation {
    /// Jobs run to their end.
    Wait,
    /// From this time on running jobs are killed.
    KillAt(Timestamp),
    /// Running jobs are killed this long after the drain began.
    KillAfterDrain(SignedDuration),
    /// Running jobs are killed at once.
    KillNow,
}

impl JobPolicyAnnotation {
    /// Reads the annotations, or `None` if there are none. A value that cannot be parsed permits nothing.
    pub fn read(annotations: &Annotations) -> Option<Self> {
        let (force, deadline) = (annotations.get(FORCE_DELETE), annotations.get(DRAIN_DEADLINE));
        if force.is_none() && deadline.is_none() {
            return None;
        }
        if force.is_some_and(|text| is_forced(text) == Some(true)) {
            return Some(Self::KillNow);
        }
        Some(deadline.and_then(|text| parse_deadline(text)).unwrap_or(Self::Wait))
    }

    /// The policy for a worker whose drain, if it is ours, began at `drained_since`. A duration does not start before that.
    pub fn policy(self, drained_since: Option<Timestamp>) -> JobPolicy {
        match self {
            Self::Wait => JobPolicy::Wait,
            Self::KillAt(moment) => JobPolicy::KillAfter(moment),
            Self::KillAfterDrain(length) => {
                let end = drained_since.and_then(|since| since.checked_add(length).ok());
                end.map_or(JobPolicy::Wait, JobPolicy::KillAfter)
            }
            Self::KillNow => JobPolicy::KillNow,
        }
    }
}

/// One message for each value that cannot be parsed.
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

/// True only for the exact word `true`, as it kills jobs; `None` for an invalid value.
fn is_forced(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" | "" => Some(false),
        _ => None,
    }
}

fn parse_deadline(text: &str) -> Option<JobPolicyAnnotation> {
    if let Ok(moment) = text.parse() {
        return Some(JobPolicyAnnotation::KillAt(moment));
    }
    let length: SignedDuration = text.parse().ok()?;
    (!length.is_negative()).then_some(JobPolicyAnnotation::KillAfterDrain(length))
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
    #[case::force(Some("true"), None, Some(JobPolicyAnnotation::KillNow))]
    #[case::force_before_deadline(Some("true"), Some("30m"), Some(JobPolicyAnnotation::KillNow))]
    #[case::no_force(Some("false"), None, Some(JobPolicyAnnotation::Wait))]
    #[case::no_force_but_a_deadline(Some("false"), Some("30m"), Some(JobPolicyAnnotation::KillAfterDrain(SignedDuration::from_mins(30))))]
    #[case::moment(None, Some(MOMENT), Some(JobPolicyAnnotation::KillAt(moment(MOMENT))))]
    #[case::moment_elsewhere(None, Some("2026-01-02T04:04:05+01:00"), Some(JobPolicyAnnotation::KillAt(moment(MOMENT))))]
    #[case::two_units(None, Some("1h30m"), Some(JobPolicyAnnotation::KillAfterDrain(SignedDuration::from_mins(90))))]
    #[case::at_once(None, Some("0s"), Some(JobPolicyAnnotation::KillAfterDrain(SignedDuration::ZERO)))]
    fn annotations_say_what_is_permitted(
        #[case] force: Option<&str>,
        #[case] deadline: Option<&str>,
        #[case] expected: Option<JobPolicyAnnotation>,
    ) {
        let annotations = annotations(force, deadline);
        assert_eq!(JobPolicyAnnotation::read(&annotations), expected);
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
        assert_eq!(JobPolicyAnnotation::read(&annotations), Some(JobPolicyAnnotation::Wait));
        let doubts = doubts(&annotations);
        assert!(doubts.len() == 1 && doubts[0].contains("permits nothing: write "), "{doubts:?}");
    }

    #[rstest]
    #[case::drained(Some(MOMENT), JobPolicy::KillAfter(moment("2026-01-02T03:34:05Z")))]
    #[case::not_drained_by_us(None, JobPolicy::Wait)]
    fn a_length_of_time_runs_from_the_drain(#[case] since: Option<&str>, #[case] expected: JobPolicy) {
        assert_eq!(JobPolicyAnnotation::KillAfterDrain(SignedDuration::from_mins(30)).policy(since.map(moment)), expected);
    }

    #[test]
    fn a_length_beyond_all_time_never_ends() {
        assert_eq!(JobPolicyAnnotation::KillAfterDrain(SignedDuration::MAX).policy(Some(moment(MOMENT))), JobPolicy::Wait);
    }

    #[test]
    fn a_moment_and_force_do_not_wait_for_the_drain() {
        assert_eq!(JobPolicyAnnotation::KillAt(moment(MOMENT)).policy(None), JobPolicy::KillAfter(moment(MOMENT)));
        assert_eq!(JobPolicyAnnotation::KillNow.policy(None), JobPolicy::KillNow);
    }

    proptest! {
        #[test]
        fn only_the_exact_word_forces(force in any::<String>(), deadline in any::<String>()) {
            let annotation = JobPolicyAnnotation::read(&annotations(Some(&force), Some(&deadline)));
            prop_assert_eq!(annotation == Some(JobPolicyAnnotation::KillNow), force == "true");
        }
    }
}
