//! Drain, undrain and resume of nodes.

use std::time::Duration;

use rstest::rstest;

use super::*;

const CORDONED: &str = "Pod (n/w-0) was cordoned";
const FAN: &str = "Node (k) was cordoned, Pod (n/w-0) must be cordoned";

fn ready(in_slurm: InSlurm) -> Worker {
    worker(0, Stage::Ready, in_slurm)
}

fn cordoned(worker: Worker) -> Worker {
    Worker { is_cordoned: true, ..worker }
}

fn on_cordoned_host(worker: Worker) -> Worker {
    Worker { host: Some(Host { name: "k".into(), cordon: Some(FAN.into()), ..Host::default() }), ..worker }
}

fn because(in_slurm: InSlurm, words: &str) -> InSlurm {
    InSlurm { hold: Hold::DrainedByUs, reason: format!("{REASON_PREFIX}{words}"), ..in_slurm }
}

#[rstest]
#[case::scale_in_taken_back(emptied(), &["undrain w-0"])]
#[case::still_draining(draining(), &["undrain w-0"])]
#[case::scale_in_of_another_operator(because(emptied(), "Pod (n/w-0) is pending termination for scale-in"), &["undrain w-0"])]
#[case::cordon_of_another_operator(because(emptied(), FAN), &["undrain w-0"])]
#[case::termination_of_the_previous_pod(down(), &["resume w-0"])]
#[case::drained_and_down_by_us(InSlurm { states: vec!["Down", "Drain"], ..emptied() }, &["resume w-0"])]
#[case::drained_and_down_by_us_and_not_back(InSlurm { states: vec!["Down", "Drain", "NotResponding"], ..emptied() }, &[])]
#[case::an_admin_s_drain(by_others(emptied()), &[])]
#[case::unknown(unknown(), &[])]
fn a_worker_that_stays_takes_jobs_again_where_only_we_kept_it_from_that(#[case] in_slurm: InSlurm, #[case] actions: &[&str]) {
    assert_eq!(deeds(&plan(&[ready(in_slurm.clone())], 1)), actions);
    assert_eq!(deeds(&plan(&[worker(0, Stage::Starting, in_slurm)], 1)), [""; 0], "one that is not up yet is left alone");
}

#[rstest]
#[case::cordoned(cordoned(ready(idle())), &[CORDONED])]
#[case::cordoned_and_busy(cordoned(ready(busy())), &[CORDONED])]
#[case::cordoned_and_still_starting(cordoned(worker(0, Stage::Starting, idle())), &[CORDONED])]
#[case::cordoned_and_down_by_a_termination(cordoned(ready(down())), &[CORDONED])]
#[case::host_before_pod(on_cordoned_host(cordoned(ready(busy()))), &[FAN])]
#[case::known_already(cordoned(ready(because(emptied(), CORDONED))), &[])]
#[case::known_by_another_cause(cordoned(ready(because(emptied(), FAN))), &[CORDONED])]
#[case::known_by_another_cause_and_busy(on_cordoned_host(ready(draining())), &[FAN])]
#[case::drained_by_others(cordoned(ready(by_others(emptied()))), &[])]
#[case::just_told(cordoned(ready(InSlurm { hold: Hold::Unknown, ..idle() })), &[])]
#[case::not_in_slurm(cordoned(ready(unregistered())), &[])]
#[case::no_cause(ready(idle()), &[])]
fn a_cause_becomes_a_drain_with_its_words(#[case] worker: Worker, #[case] reasons: &[&str]) {
    let expected: Vec<String> = reasons.iter().map(|reason| format!("drain w-0: {reason}")).collect();
    assert_eq!(deeds(&plan(&[worker], 1)), expected);
}

#[test]
fn one_that_leaves_is_drained_for_that_although_it_is_cordoned() {
    let workers = [worker(1, Stage::Ready, idle()), Worker { deletion_cost: -1, ..cordoned(ready(because(busy(), CORDONED))) }];
    assert_eq!(deeds(&plan(&workers, 1)), ["drain w-0: Pod is pending termination for scale-in"]);
}

#[test]
fn a_users_cordon_stays_as_long_as_the_annotation() {
    let held = ready(because(emptied(), CORDONED));
    assert_eq!(deeds(&plan(&[cordoned(held.clone())], 1)), [""; 0]);
    assert_eq!(deeds(&plan(&[held], 1)), ["undrain w-0"]);
}

#[test]
fn drains_with_the_same_words_are_one_call() {
    let on = |ordinal, words: &str| Worker {
        host: Some(Host { name: "k".into(), cordon: Some(words.into()), ..Host::default() }),
        ..worker(ordinal, Stage::Ready, busy())
    };
    let workers = [on(0, "fan"), on(1, "power"), on(2, "fan")];
    assert_eq!(deeds(&plan(&workers, 3)), ["drain w-0, w-2: fan", "drain w-1: power"]);
}

#[rstest]
#[case::in_its_time(Some(30), idle(), &[], Some(30))]
#[case::too_late(Some(0), busy(), &["drain w-0: Pod is terminating"], None)]
#[case::too_late_and_drained(Some(0), draining(), &[], None)]
#[case::too_late_and_down(Some(0), down(), &[], None)]
#[case::too_late_and_unknown(Some(0), unknown(), &[], None)]
#[case::time_unknown(None, busy(), &[], None)]
fn a_pod_that_does_not_end_in_its_time_gets_no_job(
    #[case] gone_by: Option<i64>,
    #[case] in_slurm: InSlurm,
    #[case] actions: &[&str],
    #[case] wake: Option<u64>,
) {
    let plan = plan(&[Worker { gone_by: gone_by.map(at), ..worker(0, Stage::Going, in_slurm) }], 1);
    assert_eq!(deeds(&plan), actions);
    assert_eq!(plan.wake_after, wake.map(Duration::from_secs));
}
