use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::{gate::Answer, unmet};

fn worker(ordinal: u32, stage: Stage, in_slurm: InSlurm) -> Worker {
    let name = name::worker_pod("w", ordinal);
    let (uid, node) = (format!("uid-{ordinal}"), name.clone());
    let since = (stage == Stage::Ready).then_some(Timestamp::UNIX_EPOCH);
    Worker {
        uid,
        node,
        name,
        ordinal,
        stage,
        ready_since: since,
        available_from: since,
        gone_by: None,
        host: None,
        is_current: true,
        deletion_cost: 0,
        is_cordoned: false,
        leave: Leave::WhenEmpty,
        in_slurm,
        shown: Shown::default(),
        trouble: None,
    }
}

fn unknown() -> InSlurm {
    InSlurm::unknown("nobody asked Slurm")
}

/// Idle, and free to take jobs.
fn idle() -> InSlurm {
    InSlurm { is_registered: Answer::Yes, is_drained: Answer::No, is_busy: Answer::No, hold: Hold::Open, finish: Finish::Free, ..unknown() }
}

fn busy() -> InSlurm {
    InSlurm { is_busy: Answer::Yes, finish: Finish::Never, ..idle() }
}

/// Drained by us, and empty.
fn drained() -> InSlurm {
    InSlurm { is_drained: Answer::Yes, hold: Hold::DrainedByUs, ..idle() }
}

fn draining() -> InSlurm {
    InSlurm { hold: Hold::DrainedByUs, ..busy() }
}

fn unregistered() -> InSlurm {
    InSlurm { is_registered: Answer::No, ..idle() }
}

static NOTHING_SEEN: SeenChildren = SeenChildren::new();

fn observed(workers: &[Worker], replicas: usize) -> Observed<'_> {
    Observed {
        namespace: "n",
        nodeset: "w",
        uid: "uid-of-w",
        replicas,
        protects: true,
        shared: vec![],
        problem: None,
        new_workers_wait: None,
        workers,
        ghosts: &[],
        seen: &NOTHING_SEEN,
        now: Timestamp::UNIX_EPOCH,
    }
}

fn plan(workers: &[Worker], replicas: usize) -> Plan {
    nodeset(observed(workers, replicas))
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
#[case::busy(busy(), &["drain w-1: Pod is pending termination for scale-in"])]
#[case::idle(idle(), &["drain w-1: Pod is pending termination for scale-in"])]
#[case::draining(draining(), &[])]
#[case::drained(drained(), &["delete pod `w-1`"])]
#[case::drained_by_others(InSlurm { hold: Hold::ByOthers, ..drained() }, &["delete pod `w-1`"])]
#[case::draining_by_others(InSlurm { hold: Hold::ByOthers, ..draining() }, &[])]
#[case::not_in_slurm(unregistered(), &["delete pod `w-1`"])]
fn a_surplus_worker_is_drained_and_leaves_when_it_is_empty(#[case] in_slurm: InSlurm, #[case] actions: &[&str]) {
    let workers = [worker(0, Stage::Ready, idle()), InSlurm::clone(&in_slurm).into_worker(1)];
    assert_eq!(words(&plan(&workers, 1)), actions);
}

impl InSlurm {
    fn into_worker(self, ordinal: u32) -> Worker {
        Worker { deletion_cost: -1, ..worker(ordinal, Stage::Ready, self) }
    }
}

#[rstest]
#[case::scale_in_taken_back(drained(), &["undrain w-0"])]
#[case::still_draining(draining(), &["undrain w-0"])]
#[case::farewell_of_the_pod_before(InSlurm { hold: Hold::DownByUs, ..idle() }, &["resume w-0"])]
#[case::an_admin_s_drain(InSlurm { hold: Hold::ByOthers, ..drained() }, &[])]
#[case::unknown(unknown(), &[])]
fn a_worker_that_stays_takes_jobs_again_where_only_we_kept_it_from_that(#[case] in_slurm: InSlurm, #[case] actions: &[&str]) {
    assert_eq!(words(&plan(&[worker(0, Stage::Ready, in_slurm.clone())], 1)), actions);
    assert_eq!(words(&plan(&[worker(0, Stage::Starting, in_slurm)], 1)), [""; 0], "one that is not up yet is left alone");
}

#[test]
fn idle_ones_leave_before_busy_ones_and_the_soonest_first() {
    let until = |seconds| InSlurm { finish: Finish::At(Timestamp::from_second(seconds).unwrap()), ..busy() };
    let cheap = Worker { deletion_cost: -5, ..worker(1, Stage::Ready, busy()) };
    let workers = [
        worker(0, Stage::Ready, idle()),
        cheap,
        worker(2, Stage::Ready, until(200)),
        worker(3, Stage::Ready, until(100)),
        worker(4, Stage::Ready, idle()),
        worker(5, Stage::Starting, unknown()),
    ];
    let order: Vec<u32> = plan_scale_in(&workers, 6).map(|worker| worker.ordinal).collect();
    assert_eq!(order, [5, 1, 4, 0, 3, 2]);
}

#[test]
fn many_are_drained_in_one_call() {
    let workers: Vec<_> = (0..200).map(|ordinal| worker(ordinal, Stage::Ready, if ordinal < 10 { busy() } else { idle() })).collect();
    let plan = plan(&workers, 5);
    let drains: Vec<_> = plan.actions.iter().filter(|action| matches!(action, Action::Drain { nodes, .. } if nodes.len() == 195)).collect();
    assert_eq!((drains.len(), plan.actions.len()), (1, 1));
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
#[case::surely_no_jobs(idle(), &["delete pod `w-0`"])]
#[case::not_in_slurm(unregistered(), &["delete pod `w-0`"])]
#[case::slurm_still_sees_a_job(busy(), &[])]
fn an_ended_worker_is_replaced_through_the_gate(#[case] in_slurm: InSlurm, #[case] actions: &[&str]) {
    assert_eq!(words(&plan(&[worker(0, Stage::Ended, in_slurm)], 1)), actions);
}

#[test]
fn a_missing_controller_stops_new_workers_and_spares_old_ones() {
    let workers = [worker(0, Stage::Ready, idle())];
    let plan = nodeset(Observed { problem: Some(unmet::no_controller("n", "x")), ..observed(&workers, 3) });
    assert_eq!(plan.actions, []);
    assert_eq!(plan.report.reason(), Reason::ControllerMissing);
}

#[rstest]
#[case::some_are_missing(3, Reason::ControllerNotReady)]
#[case::all_are_there(1, Reason::AllReady)]
fn only_new_workers_wait_for_slurmctld(#[case] replicas: usize, #[case] reason: Reason) {
    let workers = [worker(0, Stage::Ready, unknown())];
    let plan = nodeset(Observed { new_workers_wait: Some(unmet::controller_not_ready("n", "x")), ..observed(&workers, replicas) });
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
    let mut old = worker(0, Stage::Ready, idle());
    old.is_current = false;
    let plan = plan(&[old], 1);
    assert_eq!(plan.actions, []);
    assert_eq!(plan.report.reason(), Reason::WaitingForSlurm);
}

fn stage() -> impl Strategy<Value = Stage> {
    prop_oneof![Just(Stage::Starting), Just(Stage::Ready), Just(Stage::Ended)]
}

fn in_slurm() -> impl Strategy<Value = InSlurm> {
    let by_others = InSlurm { hold: Hold::ByOthers, ..drained() };
    let down = InSlurm { hold: Hold::DownByUs, ..idle() };
    prop::sample::select(vec![unknown(), idle(), busy(), drained(), draining(), unregistered(), by_others, down])
}

fn fleet() -> impl Strategy<Value = Vec<Worker>> {
    prop::collection::btree_map(0..20_u32, (stage(), in_slurm(), -1..2_i32), 0..12).prop_map(|fleet| {
        let worker = |(ordinal, (stage, in_slurm, deletion_cost))| Worker { deletion_cost, ..worker(ordinal, stage, in_slurm) };
        fleet.into_iter().map(worker).collect()
    })
}

/// A cluster that does what it is told: new pods get ready and idle, deleted pods are gone, drained nodes empty when their jobs have ended.
fn carry_out(fleet: &mut Vec<Worker>, plan: &Plan) {
    let hold = |fleet: &mut Vec<Worker>, nodes: &[String], hold: Hold| {
        for worker in fleet.iter_mut().filter(|worker| nodes.contains(&worker.node)) {
            worker.in_slurm.hold = hold;
            let is_empty = hold == Hold::DrainedByUs && worker.in_slurm.is_busy == Answer::No;
            worker.in_slurm.is_drained = if is_empty { Answer::Yes } else { Answer::No };
        }
    };
    for action in &plan.actions {
        match action {
            Action::CreateWorker { ordinal, .. } => fleet.push(worker(*ordinal, Stage::Ready, idle())),
            Action::DeleteWorker { uid, .. } => fleet.retain(|worker| worker.uid != *uid),
            Action::Drain { nodes, .. } => hold(fleet, nodes, Hold::DrainedByUs),
            Action::Undrain { nodes } | Action::Resume { nodes } => hold(fleet, nodes, Hold::Open),
            _ => {}
        }
    }
    for worker in fleet.iter_mut().filter(|worker| worker.stage == Stage::Starting) {
        worker.stage = Stage::Ready;
    }
}

proptest! {
    #[test]
    fn plans_carried_out_lead_to_an_empty_plan(mut fleet in fleet(), replicas in 0..12_usize) {
        for _ in 0..6 {
            let next = plan(&fleet, replicas);
            carry_out(&mut fleet, &next);
        }
        prop_assert_eq!(plan(&fleet, replicas).actions, vec![]);
        prop_assert!(fleet.len() >= replicas);
        if fleet.iter().all(|worker| worker.in_slurm.is_busy == Answer::No) {
            prop_assert_eq!(fleet.len(), replicas);
        }
    }

    #[test]
    fn a_worker_that_may_have_or_get_a_job_is_never_deleted(fleet in fleet(), replicas in 0..12_usize) {
        for action in plan(&fleet, replicas).actions {
            if let Action::DeleteWorker { uid, .. } = action {
                let Worker { stage, in_slurm, .. } = fleet.iter().find(|worker| worker.uid == uid).unwrap();
                let is_safe = in_slurm.is_registered == Answer::No || in_slurm.is_drained == Answer::Yes;
                prop_assert!(is_safe || (*stage == Stage::Ended && in_slurm.is_busy == Answer::No));
            }
        }
    }

    #[test]
    fn what_others_decided_about_a_node_stays(fleet in fleet(), replicas in 0..12_usize) {
        for action in plan(&fleet, replicas).actions {
            if let Action::Drain { nodes, .. } | Action::Undrain { nodes } | Action::Resume { nodes } = action {
                let touched = fleet.iter().filter(|worker| nodes.contains(&worker.node));
                prop_assert!(touched.into_iter().all(|worker| !matches!(worker.in_slurm.hold, Hold::ByOthers | Hold::Unknown)));
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
