//! Deletion of workers.

use std::time::Duration;

use rstest::rstest;

use super::*;

const DRAIN: &str = "drain w-1: Pod is pending termination for scale-in";

/// DOWN and not responding, not set by us.
fn away(in_slurm: InSlurm) -> InSlurm {
    InSlurm { hold: Hold::ByOthers, states: vec!["Down", "NotResponding"], ..in_slurm }
}

#[rstest]
#[case::unknown(unknown(), &[])]
#[case::busy(busy(), &[DRAIN])]
#[case::idle(idle(), &[DRAIN])]
#[case::draining(draining(), &[])]
#[case::drained(emptied(), &["delete pod `w-1`"])]
#[case::drained_by_others(by_others(emptied()), &["delete pod `w-1`"])]
#[case::draining_by_others(by_others(draining()), &[])]
#[case::down_by_others(InSlurm { states: vec!["Down"], ..by_others(idle()) }, &[])]
#[case::down_and_silent(away(idle()), &["delete pod `w-1`"])]
#[case::down_and_silent_and_of_its_jobs_nothing_is_known(InSlurm { is_busy: unknown().is_busy, ..away(idle()) }, &[])]
#[case::not_in_slurm(unregistered(), &["delete pod `w-1`"])]
fn a_surplus_worker_is_drained_and_leaves_when_it_is_empty(#[case] in_slurm: InSlurm, #[case] actions: &[&str]) {
    let workers = [worker(0, Stage::Ready, idle()), surplus(in_slurm, JobPolicy::Wait)];
    assert_eq!(deeds(&plan(&workers, 1)), actions);
}

fn surplus(in_slurm: InSlurm, job_policy: JobPolicy) -> Worker {
    Worker { deletion_cost: -1, job_policy, ..worker(1, Stage::Ready, in_slurm) }
}

#[rstest]
#[case::forced(JobPolicy::KillNow, true)]
#[case::deadline_passed(JobPolicy::KillAfter(at(0)), true)]
#[case::deadline_ahead(JobPolicy::KillAfter(at(1)), false)]
#[case::nothing_said(JobPolicy::Wait, false)]
fn a_user_can_let_a_worker_leave_with_its_jobs(#[case] job_policy: JobPolicy, #[case] leaves: bool) {
    for in_slurm in [busy(), draining(), by_others(draining()), unknown()] {
        let plan = plan(&[worker(0, Stage::Ready, idle()), surplus(in_slurm.clone(), job_policy)], 1);
        let is_deleted = plan.actions.iter().any(|action| matches!(action, Action::DeleteWorker { name, .. } if name == "w-1"));
        assert_eq!(is_deleted, leaves, "{in_slurm:?}");
    }
}

#[test]
fn what_a_user_permits_makes_nobody_leave_who_is_not_to() {
    let workers = [Worker { job_policy: JobPolicy::KillNow, ..worker(0, Stage::Ready, busy()) }];
    assert_eq!(deeds(&plan(&workers, 1)), [""; 0]);
}

#[test]
fn not_even_force_takes_a_worker_that_is_needed() {
    // The other worker does not serve yet, so this one is needed.
    let workers =
        [Worker { deletion_cost: 5, available_from: Some(at(9)), ..worker(0, Stage::Ready, idle()) }, surplus(busy(), JobPolicy::KillNow)];
    let plan = plan(&workers, 1);
    assert_eq!(deeds(&plan), [DRAIN]);
    assert_eq!(plan.report.message(), "waits to delete pod `w-1`: 1 workers are available and 1 must stay so");
}

#[test]
fn many_are_drained_in_one_call() {
    let workers: Vec<_> = (0..200).map(|ordinal| worker(ordinal, Stage::Ready, if ordinal < 10 { busy() } else { idle() })).collect();
    let plan = plan(&workers, 5);
    let drains: Vec<_> = plan.actions.iter().filter(|action| matches!(action, Action::Drain { nodes, .. } if nodes.len() == 195)).collect();
    assert_eq!((drains.len(), plan.actions.len()), (1, 1));
}

#[rstest]
#[case::nothing_said(
    JobPolicy::Wait,
    "waits to delete pod `w-1`: jobs are running there; the pod is deleted when its jobs have ended; to delete it sooner and kill its jobs, \
     annotate it with `slipway.dev/force-delete: \"true\"` or with `slipway.dev/drain-deadline` and a time",
    None
)]
#[case::a_deadline(
    JobPolicy::KillAfter(at(90)),
    "waits to delete pod `w-1`: jobs are running there; at 1970-01-01T00:01:30Z the pod is deleted and its running jobs are killed (annotation \
     `slipway.dev/drain-deadline`)",
    Some(Duration::from_secs(90))
)]
fn waiting_to_scale_in_says_why_and_what_to_do(#[case] job_policy: JobPolicy, #[case] message: &str, #[case] wake: Option<Duration>) {
    let plan = plan(&[worker(0, Stage::Ready, idle()), surplus(draining(), job_policy)], 1);
    assert_eq!((plan.report.reason(), plan.report.message().as_str()), (Reason::WaitingForSlurm, message));
    assert_eq!(plan.wake_after, wake);
}

#[test]
fn not_knowing_is_said_as_well() {
    let workers = [worker(0, Stage::Ready, unknown()), worker(1, Stage::Ready, unknown()), worker(2, Stage::Ready, unknown())];
    let message = plan(&workers, 1).report.message();
    let expected = "waits to delete pod `w-2`: cannot tell whether that would kill jobs: nobody asked Slurm; and 1 more like it; the pod is deleted when";
    assert!(message.starts_with(expected), "{message}");
}

#[rstest]
#[case::unknown(unknown(), &[])]
#[case::surely_no_jobs(idle(), &["delete pod `w-0`"])]
#[case::not_in_slurm(unregistered(), &["delete pod `w-0`"])]
#[case::slurm_still_sees_a_job(busy(), &["set down w-0: Pod is gone"])]
#[case::slurm_still_sees_a_job_on_a_node_that_we_drained(draining(), &["set down w-0: Pod is gone"])]
#[case::slurm_still_sees_a_job_on_a_node_that_others_drained(by_others(busy()), &[])]
#[case::slurm_was_just_told(InSlurm { hold: Hold::Unknown, is_drained: unknown().is_drained, ..busy() }, &[])]
fn an_ended_worker_is_replaced_through_the_gate(#[case] in_slurm: InSlurm, #[case] actions: &[&str]) {
    assert_eq!(deeds(&plan(&[worker(0, Stage::Ended, in_slurm)], 1)), actions);
}
