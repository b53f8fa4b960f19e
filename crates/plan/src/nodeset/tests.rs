use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::unmet;

fn worker(ordinal: u32, stage: Stage, has_jobs: Answer) -> Worker {
    let name = name::worker_pod("w", ordinal);
    Worker { uid: format!("uid-{ordinal}"), name, ordinal, stage, is_current: true, has_jobs, trouble: None }
}

fn unknown() -> Answer {
    Answer::Unknown("nobody asked Slurm".into())
}

fn plan(workers: &[Worker], replicas: usize) -> Plan {
    nodeset(Observed {
        nodeset: "w",
        replicas,
        shared: vec![],
        problem: None,
        new_workers_wait: None,
        workers,
        seen: &SeenChildren::new(),
        now: Timestamp::UNIX_EPOCH,
    })
}

fn words(plan: &Plan) -> Vec<String> {
    plan.actions.iter().map(ToString::to_string).collect()
}

#[rstest]
#[case::from_nothing(&[], 2, &["create pod `w-0`", "create pod `w-1`"])]
#[case::gap_first(&[worker(1, Stage::Ready, unknown())], 3, &["create pod `w-0`", "create pod `w-2`"])]
#[case::a_going_pod_holds_its_place(&[worker(0, Stage::Going, unknown())], 1, &[])]
#[case::enough(&[worker(5, Stage::Ready, unknown())], 1, &[])]
fn missing_workers_are_created(#[case] workers: &[Worker], #[case] replicas: usize, #[case] actions: &[&str]) {
    assert_eq!(words(&plan(workers, replicas)), actions);
}

#[test]
fn one_pass_creates_a_bounded_number() {
    assert_eq!(plan(&[], 10_000).actions.len(), MAX_CREATIONS);
}

#[rstest]
#[case::unknown(unknown(), &[])]
#[case::busy(Answer::Yes, &[])]
#[case::idle(Answer::No, &["delete pod `w-1`"])]
fn a_surplus_worker_leaves_only_when_surely_idle(#[case] jobs: Answer, #[case] actions: &[&str]) {
    let workers = [worker(0, Stage::Ready, jobs.clone()), worker(1, Stage::Ready, jobs)];
    let plan = plan(&workers, 1);
    assert_eq!(words(&plan), actions);
    assert_eq!(plan.report.is_ready(), !actions.is_empty());
}

#[test]
fn waiting_to_scale_in_says_why_and_what_to_do() {
    let workers = [worker(0, Stage::Ready, unknown()), worker(1, Stage::Ready, unknown())];
    let report = plan(&workers, 1).report;
    assert_eq!(report.reason(), Reason::WaitingForSlurm);
    assert_eq!(
        report.message(),
        "waits to delete pod `w-1`: whether that would end jobs is unknown, as nobody asked Slurm; to remove it yourself, delete the pod"
    );
}

#[rstest]
#[case::unknown(unknown(), &[])]
#[case::surely_no_jobs(Answer::No, &["delete pod `w-0`"])]
fn an_ended_worker_is_replaced_through_the_gate(#[case] jobs: Answer, #[case] actions: &[&str]) {
    assert_eq!(words(&plan(&[worker(0, Stage::Ended, jobs)], 1)), actions);
}

#[test]
fn a_missing_controller_stops_new_workers_and_spares_old_ones() {
    let workers = [worker(0, Stage::Ready, Answer::No)];
    let plan = nodeset(Observed {
        nodeset: "w",
        replicas: 3,
        shared: vec![],
        problem: Some(unmet::no_controller("n", "x")),
        new_workers_wait: None,
        workers: &workers,
        seen: &SeenChildren::new(),
        now: Timestamp::UNIX_EPOCH,
    });
    assert_eq!(plan.actions, []);
    assert_eq!(plan.report.reason(), Reason::ControllerMissing);
}

#[rstest]
#[case::some_are_missing(3, Reason::ControllerNotReady)]
#[case::all_are_there(1, Reason::AllReady)]
fn only_new_workers_wait_for_slurmctld(#[case] replicas: usize, #[case] reason: Reason) {
    let workers = [worker(0, Stage::Ready, unknown())];
    let plan = nodeset(Observed {
        nodeset: "w",
        replicas,
        shared: vec![],
        problem: None,
        new_workers_wait: Some(unmet::controller_not_ready("n", "x")),
        workers: &workers,
        seen: &SeenChildren::new(),
        now: Timestamp::UNIX_EPOCH,
    });
    assert_eq!(plan.actions, []);
    assert_eq!(plan.report.reason(), reason);
}

#[test]
fn the_first_troubled_pod_is_named() {
    let mut workers = [worker(0, Stage::Ready, unknown()), worker(1, Stage::Starting, unknown())];
    workers[1].trouble = Some("ImagePullBackOff".into());
    assert_eq!(plan(&workers, 2).report.message(), "1 of 2 workers are ready: pod `w-1`: ImagePullBackOff");
}

#[test]
fn an_old_template_is_reported_and_nothing_is_deleted_for_it() {
    let mut old = worker(0, Stage::Ready, Answer::No);
    old.is_current = false;
    let plan = plan(&[old], 1);
    assert_eq!(plan.actions, []);
    assert_eq!(plan.report.reason(), Reason::WaitingForSlurm);
}

fn stage() -> impl Strategy<Value = Stage> {
    prop_oneof![Just(Stage::Starting), Just(Stage::Ready), Just(Stage::Ended)]
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![Just(Answer::Yes), Just(Answer::No), Just(unknown())]
}

fn fleet() -> impl Strategy<Value = Vec<Worker>> {
    prop::collection::btree_map(0..20_u32, (stage(), answer()), 0..12)
        .prop_map(|fleet| fleet.into_iter().map(|(ordinal, (stage, jobs))| worker(ordinal, stage, jobs)).collect())
}

/// A cluster that does what it is told: new pods get ready and idle, deleted pods are gone.
fn carry_out(fleet: &mut Vec<Worker>, plan: &Plan) {
    for action in &plan.actions {
        match action {
            Action::CreateWorker { ordinal, .. } => fleet.push(worker(*ordinal, Stage::Ready, Answer::No)),
            Action::DeleteWorker { uid, .. } => fleet.retain(|worker| worker.uid != *uid),
            Action::Apply(_) | Action::Remove { .. } | Action::MarkPod { .. } | Action::DeletePod { .. } | Action::Reconfigure { .. } => {}
        }
    }
    for worker in fleet.iter_mut().filter(|worker| worker.stage == Stage::Starting) {
        worker.stage = Stage::Ready;
    }
}

proptest! {
    #[test]
    fn plans_carried_out_lead_to_an_empty_plan(mut fleet in fleet(), replicas in 0..12_usize) {
        for _ in 0..4 {
            let next = plan(&fleet, replicas);
            carry_out(&mut fleet, &next);
        }
        prop_assert_eq!(plan(&fleet, replicas).actions, vec![]);
        prop_assert!(fleet.len() >= replicas);
        if fleet.iter().all(|worker| worker.has_jobs == Answer::No) {
            prop_assert_eq!(fleet.len(), replicas);
        }
    }

    #[test]
    fn a_worker_that_may_have_jobs_is_never_deleted(fleet in fleet(), replicas in 0..12_usize) {
        for action in plan(&fleet, replicas).actions {
            if let Action::DeleteWorker { uid, .. } = action {
                let worker = fleet.iter().find(|worker| worker.uid == uid).unwrap();
                prop_assert_eq!(&worker.has_jobs, &Answer::No);
            }
        }
    }

    #[test]
    fn ready_workers_never_fall_below_what_was_asked_for(fleet in fleet(), replicas in 0..12_usize) {
        let ready = |fleet: &[Worker]| fleet.iter().filter(|worker| worker.stage == Stage::Ready).count();
        let before = ready(&fleet);
        let deleted = plan(&fleet, replicas).actions;
        let left: Vec<_> = fleet
            .into_iter()
            .filter(|worker| !deleted.iter().any(|action| matches!(action, Action::DeleteWorker { uid, .. } if *uid == worker.uid)))
            .collect();
        prop_assert!(ready(&left) >= before.min(replicas));
    }

    #[test]
    fn no_two_new_workers_share_a_name_with_anyone(fleet in fleet(), replicas in 0..20_usize) {
        let mut names: BTreeSet<_> = fleet.iter().map(|worker| worker.name.clone()).collect();
        for action in plan(&fleet, replicas).actions {
            if let Action::CreateWorker { name, .. } = action {
                prop_assert!(names.insert(name));
            }
        }
    }
}
