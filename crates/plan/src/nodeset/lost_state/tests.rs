use rstest::rstest;
use slipway_api::label;

use super::*;
use crate::{
    Action, Plan,
    nodeset::{
        JobPolicy, ReplacementBackoff, Shown, nodeset,
        tests::{busy, idle, observed, unregistered, words, worker},
    },
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Conditions and label of a pod whose node has these states.
fn shown(states: &[&str], is_protected: bool) -> Shown {
    let conditions = states.iter().map(|state| (format!("{CONDITION_PREFIX}{state}"), String::new())).collect();
    Shown { conditions, is_protected, deadline: None }
}

/// The plan long after Slurm lost its records of these workers.
fn plan(mut workers: Vec<Worker>, replicas: usize) -> (Plan, Vec<Worker>) {
    let mut backoff = ReplacementBackoff::new();
    note_lost_state(&mut workers, at(0));
    backoff.saw(&workers, at(0));
    let plan = nodeset(observed(&workers, replicas).with(|it| {
        it.backoff = &backoff;
        it.now = at(600);
    }));
    (plan, workers)
}

#[rstest]
#[case::allocated(shown(&["Allocated"], false))]
#[case::mixed(shown(&["Mixed", "NotResponding"], false))]
#[case::completing(shown(&["Idle", "Completing"], false))]
#[case::protected(shown(&[], true))]
#[case::with_a_deadline(Shown { deadline: Some("2027-01-01T00:00:00Z".into()), ..Shown::default() })]
fn a_worker_that_shows_a_job_is_kept_as_it_is(#[case] shown: Shown) {
    let lost = Worker { shown, ..worker(0, Stage::Ready, unregistered()) };
    let (plan, workers) = plan(vec![lost], 1);
    assert_eq!(plan.actions, [], "nothing is deleted, and the pod keeps its label and its conditions");
    assert!(workers[0].is_lost);
    assert_eq!(plan.report.reason(), Reason::SlurmStateLost);
    let update = plan.report.condition_updates.iter().find(|update| update.type_ == SLURM_STATE_LOST).unwrap();
    assert_eq!(update.status, ConditionStatus::True);
    assert!(update.message.starts_with("Slurm has no record of 1 of 1 workers; on 1 of them, such as `w-0`"), "{}", update.message);
}

#[test]
fn a_worker_that_shows_no_job_is_replaced() {
    let empty = Worker { shown: shown(&["Idle"], false), ..worker(0, Stage::Ready, unregistered()) };
    let (plan, workers) = plan(vec![empty], 1);
    assert_eq!(words(&plan), ["delete pod `w-0`"]);
    assert!(!workers[0].is_lost);
}

#[test]
fn a_user_may_release_a_worker() {
    let released = Worker { shown: shown(&["Allocated"], true), job_policy: JobPolicy::KillNow, ..worker(0, Stage::Ready, unregistered()) };
    assert_eq!(words(&plan(vec![released], 1).0), ["delete pod `w-0`"]);
}

#[test]
fn a_scale_in_does_not_take_it() {
    let lost = Worker { shown: shown(&["Allocated"], true), ..worker(0, Stage::Ready, unregistered()) };
    let (plan, _) = plan(vec![lost], 0);
    assert!(!plan.actions.iter().any(|action| action.deleted_worker().is_some()), "{:?}", plan.actions);
}

/// Containers that ended have taken their jobs with them.
#[test]
fn a_pod_that_ended_runs_nothing() {
    let ended = Worker { shown: shown(&["Allocated"], true), ..worker(0, Stage::Ended, unregistered()) };
    assert_eq!(words(&plan(vec![ended], 1).0), ["delete pod `w-0`"]);
}

#[test]
fn with_its_record_back_all_goes_on() {
    let mut workers = vec![Worker { shown: shown(&["Allocated"], true), ..worker(0, Stage::Ready, busy()) }];
    note_lost_state(&mut workers, at(0));
    assert!(!workers[0].is_lost && workers[0].in_slurm == busy());
    let ended = vec![Worker { shown: shown(&["Allocated"], true), ..worker(0, Stage::Ready, idle()) }];
    let unprotects =
        |action: &Action| matches!(action, Action::MarkPod { marks, .. } if marks.labels.get(label::POD_PROTECT) == Some(&None));
    assert!(plan(ended, 1).0.actions.iter().any(unprotects), "the label goes when Slurm reports the end of the job");
}
