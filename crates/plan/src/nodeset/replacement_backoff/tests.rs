use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::nodeset::{
    InSlurm,
    tests::{idle, unknown, unregistered, worker},
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn deletion(worker: &Worker) -> Vec<Action> {
    vec![Action::delete_worker(&worker.name, &worker.uid)]
}

/// `ReplacementBackoff` after this many replacements of the worker, one per second.
fn after_replacements(worker: &Worker, times: u32) -> ReplacementBackoff {
    let mut backoff = ReplacementBackoff::default();
    for second in 0..times {
        backoff.saw(std::slice::from_ref(worker), at(second.into()));
        backoff.count(&deletion(worker), std::slice::from_ref(worker), at(second.into()));
    }
    backoff
}

#[rstest]
#[case(1, 60)]
#[case(2, 120)]
#[case(3, 240)]
#[case(4, 480)]
#[case(5, 900)]
#[case(u32::MAX, 900)]
fn each_wait_is_twice_as_long_up_to_the_longest(#[case] times: u32, #[case] seconds: i64) {
    let streak = Streak { times, last: at(1000) };
    assert_eq!(streak.next(Duration::from_mins(1), Duration::from_mins(15)), at(1000 + seconds));
}

#[test]
fn a_deletion_counts_by_what_was_wrong() {
    let (lost, ended) = (worker(0, Stage::Ready, unregistered()), worker(1, Stage::Ended, unregistered()));
    let surplus = worker(2, Stage::Ready, idle());
    let workers = [lost.clone(), ended.clone(), surplus.clone()];
    let mut backoff = ReplacementBackoff::default();
    backoff.saw(&workers, at(0));
    let told = backoff.count(&[deletion(&lost), deletion(&ended), deletion(&surplus)].concat(), &workers, at(7));
    assert_eq!(told, [&lost]);
    let once = Some(Streak { times: 1, last: at(7) });
    assert_eq!(backoff.of("w-0").map(|record| (record.unregistered, record.ended)), Some((once, None)));
    assert_eq!(backoff.of("w-1").map(|record| (record.unregistered, record.ended)), Some((None, once)));
    backoff.saw(&[], at(8));
    assert_eq!(backoff.of("w-2"), None, "one that simply left is not remembered");
}

#[rstest]
#[case::registered(idle(), None)]
#[case::unknown(unknown(), Some(3))]
#[case::still_not(unregistered(), Some(3))]
fn the_wait_for_slurm_begins_anew_once_it_knows_a_worker(#[case] in_slurm: InSlurm, #[case] times: Option<u32>) {
    let lost = worker(0, Stage::Ready, unregistered());
    let mut backoff = after_replacements(&lost, 3);
    backoff.saw(&[Worker { in_slurm, uid: "new".into(), ..lost }], at(10));
    assert_eq!(backoff.of("w-0").and_then(|record| record.unregistered).map(|streak| streak.times), times);
}

#[rstest]
#[case::just_ready(Stage::Ready, 599, Some(2))]
#[case::ready_for_long(Stage::Ready, 600, None)]
#[case::never_ready(Stage::Starting, 3000, Some(2))]
#[case::long_ago(Stage::Starting, 3601, None)]
fn how_workers_ended_is_forgotten_once_one_works(#[case] stage: Stage, #[case] second: i64, #[case] times: Option<u32>) {
    let mut backoff = after_replacements(&worker(0, Stage::Ended, idle()), 2);
    backoff.saw(&[worker(0, stage, unknown())], at(second));
    assert_eq!(backoff.of("w-0").and_then(|record| record.ended).map(|streak| streak.times), times);
}

#[test]
fn a_worker_is_missing_since_it_was_first_seen_so_and_not_while_nobody_knows() {
    let lost = worker(0, Stage::Ready, unregistered());
    let since = |backoff: &ReplacementBackoff| backoff.of("w-0").and_then(|record| record.missing_since("uid-0"));
    let mut backoff = ReplacementBackoff::default();
    backoff.saw(&[Worker { in_slurm: unknown(), ..lost.clone() }], at(1));
    assert_eq!(since(&backoff), None);
    for (second, in_slurm) in [(2, unregistered()), (3, unregistered()), (4, unknown()), (5, unregistered())] {
        backoff.saw(&[Worker { in_slurm, ..lost.clone() }], at(second));
        assert_eq!(since(&backoff), Some(at(2)));
    }
    backoff.saw(&[Worker { stage: Stage::Starting, ..lost.clone() }], at(6));
    assert_eq!(since(&backoff), None, "it is not up");
    backoff.saw(std::slice::from_ref(&lost), at(7));
    backoff.saw(&[Worker { in_slurm: idle(), ..lost.clone() }], at(8));
    assert_eq!((since(&backoff), &backoff), (None, &ReplacementBackoff::default()), "Slurm knows it");
    backoff.saw(std::slice::from_ref(&lost), at(9));
    backoff.saw(&[Worker { uid: "another".into(), ..lost }], at(10));
    assert_eq!(since(&backoff), None, "a new pod has its own time");
}

proptest! {
    #[test]
    fn a_wait_never_gets_shorter_by_another_try(times in 1..100_u32, first in 1..120_u64, most in 1..2000_u64) {
        let wait = |times| Streak { times, last: at(0) }.next(Duration::from_secs(first), Duration::from_secs(most));
        prop_assert!(wait(times) <= wait(times + 1));
        prop_assert!(wait(times) <= at(i64::try_from(most).unwrap()));
    }

    #[test]
    fn looking_twice_is_looking_once(ordinals in prop::collection::btree_set(0..20_u32, 0..10), second in 0..9999_i64) {
        let workers: Vec<_> = ordinals.into_iter().map(|ordinal| worker(ordinal, Stage::Ready, unregistered())).collect();
        let mut once = ReplacementBackoff::default();
        once.saw(&workers, at(second));
        let mut twice = once.clone();
        twice.saw(&workers, at(second + 1));
        prop_assert_eq!(once, twice);
    }
}
