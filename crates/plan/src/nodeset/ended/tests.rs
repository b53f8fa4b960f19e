use rstest::rstest;

use super::*;
use crate::nodeset::{
    ReplacementBackoff, nodeset,
    tests::{idle, observed, unregistered, words, worker},
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The plan at `second` for an ended worker that was replaced `times` times at second 0.
fn plan(ended: &Worker, times: u32, second: i64) -> Plan {
    let workers = std::slice::from_ref(ended);
    let mut backoff = ReplacementBackoff::default();
    for _ in 0..times {
        backoff.count(&[crate::Action::delete_worker(&ended.name, &ended.uid)], workers, at(0));
    }
    nodeset(observed(workers, 1).with(|it| {
        it.backoff = &backoff;
        it.now = at(second);
    }))
}

#[rstest]
#[case::the_first(0, 0, true)]
#[case::the_second_at_once(1, 0, false)]
#[case::the_second(1, 1, true)]
#[case::the_fifth_too_soon(4, 7, false)]
#[case::the_fifth(4, 8, true)]
#[case::one_of_many_too_soon(30, 899, false)]
#[case::one_of_many(30, 900, true)]
fn what_keeps_ending_is_replaced_ever_more_slowly(#[case] before: u32, #[case] second: i64, #[case] is_replaced: bool) {
    let plan = plan(&worker(0, Stage::Ended, idle()), before, second);
    let expected: &[&str] = if is_replaced { &["delete pod `w-0`"] } else { &[] };
    assert_eq!(words(&plan), expected);
}

#[test]
fn whoever_waits_says_until_when_and_looks_again_then() {
    let plan = plan(&worker(0, Stage::Ended, unregistered()), 5, 3);
    assert_eq!(plan.wake_after, Some(Duration::from_secs(13)));
    assert_eq!(plan.report.reason(), Reason::PodsNotReady);
    assert_eq!(
        plan.report.message(),
        "pod `w-0` ended like others before it and is replaced at 1970-01-01T00:00:16Z; the reason is in its log"
    );
}

#[test]
fn a_new_template_is_tried_at_once() {
    let outdated = Worker { is_current: false, ..worker(0, Stage::Ended, idle()) };
    assert_eq!(words(&plan(&outdated, 9, 1)), ["delete pod `w-0`"]);
}

#[test]
fn one_that_is_too_many_leaves_without_a_wait() {
    let workers = [worker(0, Stage::Ready, idle()), worker(1, Stage::Ended, idle())];
    let mut backoff = ReplacementBackoff::default();
    backoff.count(&[crate::Action::delete_worker("w-1", "uid-1")], &workers, at(0));
    assert_eq!(
        words(&nodeset(observed(&workers, 1).with(|it| {
            it.backoff = &backoff;
            it.now = at(0);
        }))),
        ["delete pod `w-1`"]
    );
}
