mod daemon;
mod hold;
mod model;
mod removal;
mod scale_in;
mod stale_node;

use std::sync::LazyLock;

use jiff::Timestamp;
use rstest::rstest;
use slipway_api::{
    ClaimRetention,
    slurm_node::{CONDITION_PREFIX, DRAINED_CONDITION, NO_DEADLINE, REASON_PREFIX, SCALE_IN},
};

use super::*;
use crate::{drift::SeenChildren, gate::Answer, missing};

pub(super) fn worker(ordinal: u32, stage: Stage, in_slurm: InSlurm) -> Worker {
    let name = name::worker_pod("w", ordinal);
    let (uid, node) = (format!("uid-{ordinal}"), name.clone());
    let since = (stage == Stage::Ready).then_some(Timestamp::UNIX_EPOCH);
    Worker {
        uid,
        node,
        name,
        slot: Slot::Ordinal(ordinal),
        created: None,
        stage,
        phase: if stage == Stage::Starting { Phase::Pending } else { Phase::Running },
        ready_since: since,
        available_from: since,
        gone_by: None,
        host: None,
        hash: "now".to_owned(),
        is_current: true,
        deletion_cost: 0,
        is_cordoned: false,
        job_policy: JobPolicy::Wait,
        shown: shown(&in_slurm),
        in_slurm,
        record: Record::default(),
        is_lost: false,
        address: None,
        containers: if stage == Stage::Starting { Containers::NotReady } else { Containers::Ready },
        trouble: None,
    }
}

/// State that the pod shows once it has been written.
fn shown(in_slurm: &InSlurm) -> Shown {
    let states = in_slurm.states.iter().map(|state| format!("{CONDITION_PREFIX}{state}"));
    let types = states.chain((in_slurm.is_drained == Answer::Yes).then(|| DRAINED_CONDITION.to_owned()));
    let deadline = match in_slurm.finish {
        Finish::Free | Finish::Unknown => None,
        Finish::At(end) => Some(end.to_string()),
        Finish::Never => Some(NO_DEADLINE.to_owned()),
    };
    let conditions = types.map(|type_| (type_, in_slurm.reason.clone())).collect();
    Shown { conditions, is_protected: in_slurm.is_busy == Answer::Yes, deadline }
}

pub(super) fn unknown() -> InSlurm {
    InSlurm::unknown("nobody asked Slurm")
}

/// Idle and able to get jobs.
pub(super) fn idle() -> InSlurm {
    InSlurm { is_registered: Answer::Yes, is_drained: Answer::No, is_busy: Answer::No, hold: Hold::Open, finish: Finish::Free, ..unknown() }
}

pub(super) fn busy() -> InSlurm {
    InSlurm { is_busy: Answer::Yes, finish: Finish::Never, ..idle() }
}

/// Drained by us and empty.
pub(super) fn drained() -> InSlurm {
    InSlurm { is_drained: Answer::Yes, hold: Hold::DrainedByUs, ..idle() }
}

/// Drained by us for a scale-in and empty.
fn emptied() -> InSlurm {
    InSlurm { is_drained: Answer::Yes, ..held(idle()) }
}

fn draining() -> InSlurm {
    held(busy())
}

fn held(in_slurm: InSlurm) -> InSlurm {
    InSlurm { hold: Hold::DrainedByUs, reason: format!("{REASON_PREFIX}{SCALE_IN}"), ..in_slurm }
}

/// Set DOWN by the preStop hook of a former pod, and responding again.
fn down() -> InSlurm {
    InSlurm { hold: Hold::DownByUs, reason: format!("{REASON_PREFIX}Pod is terminating"), states: vec!["Down"], ..idle() }
}

/// Drained by an administrator.
fn by_others(in_slurm: InSlurm) -> InSlurm {
    InSlurm { hold: Hold::ByOthers, reason: "bad disk".to_owned(), ..in_slurm }
}

pub(super) fn stale_node(ordinal: u32, in_slurm: InSlurm) -> StaleNode {
    let name = name::worker_pod("w", ordinal);
    StaleNode { node: name.clone(), pod: name, in_slurm, record: Record { needed: Needed::ByNone, ..Record::default() }, info: None }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

pub(super) fn unregistered() -> InSlurm {
    InSlurm { is_registered: Answer::No, ..idle() }
}

static NOTHING_SEEN: SeenChildren = SeenChildren::new();
static NO_BACKOFF: ReplacementBackoff = ReplacementBackoff::new();
static NO_MAINTENANCE: Maintenance = Maintenance::none(String::new());
/// The template that workers are created from in these tests.
static ONE_REVISION: LazyLock<Revisions> = LazyLock::new(|| {
    let stored = Revision { name: "w-now".to_owned(), uid: "uid-now".to_owned(), hash: "now".to_owned(), number: 1, meaning: "now".into() };
    Revisions { meaning: "now".into(), data: serde_json::Value::Null, stored: vec![stored], keep: 0 }
});

pub(super) fn observed(workers: &[Worker], replicas: usize) -> Observed<'_> {
    Observed {
        policy: Policy {
            namespace: "n",
            nodeset: "w",
            uid: "uid-of-w",
            controller: "x",
            replicas,
            layout: Layout::Numbered,
            padding: 0,
            hostname: None,
            claim_templates: &[],
            retention: ClaimRetention::default(),
            update: Update::Rolling,
            max_unavailable: 1,
            protects: true,
            prunes: false,
        },
        problem: None,
        new_workers_wait: None,
        workers,
        kubernetes: Kubernetes { shared: vec![], seen: &NOTHING_SEEN, orphans: &[], claims: &[], revisions: &ONE_REVISION },
        slurm: Slurm { reach: Reach::Answers, stale_nodes: &[], maintenance: &NO_MAINTENANCE, moves: Moves::Now },
        backoff: &NO_BACKOFF,
        now: Timestamp::UNIX_EPOCH,
    }
}

impl Observed<'_> {
    /// The same with some fields changed.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// The same node when slurmctld does not hear from it.
pub(super) fn silent(in_slurm: InSlurm) -> InSlurm {
    let states = in_slurm.states.iter().copied().chain(["NotResponding"]).collect();
    InSlurm { states, ..in_slurm }
}

fn plan(workers: &[Worker], replicas: usize) -> Plan {
    nodeset(observed(workers, replicas))
}

/// The planned actions as text, without updates of pod conditions, pod labels and node comments.
pub(super) fn words(plan: &Plan) -> Vec<String> {
    let says = |action: &&Action| matches!(action, Action::ShowConditions { .. } | Action::MarkPod { .. } | Action::Describe { .. });
    plan.actions.iter().filter(|action| !says(action)).map(ToString::to_string).collect()
}

/// The planned actions as text, without updates of pod conditions, pod labels and node comments.
fn deeds(plan: &Plan) -> Vec<String> {
    let shows = |action: &&Action| matches!(action, Action::ShowConditions { .. } | Action::MarkPod { .. } | Action::Describe { .. });
    plan.actions.iter().filter(|action| !shows(action)).map(ToString::to_string).collect()
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

#[test]
fn a_missing_controller_stops_new_workers_and_spares_old_ones() {
    let workers = [worker(0, Stage::Ready, idle())];
    let plan = nodeset(observed(&workers, 3).with(|it| it.problem = Some(missing::no_controller("n", "x"))));
    assert_eq!(words(&plan), [""; 0]);
    assert_eq!(plan.report.reason(), Reason::ControllerMissing);
}

#[rstest]
#[case::some_are_missing(3, Reason::ControllerNotReady)]
#[case::all_are_there(1, Reason::AllReady)]
fn only_new_workers_wait_for_slurmctld(#[case] replicas: usize, #[case] reason: Reason) {
    let workers = [worker(0, Stage::Ready, unknown())];
    let plan = nodeset(observed(&workers, replicas).with(|it| it.new_workers_wait = Some(missing::controller_not_ready("n", "x"))));
    assert_eq!(words(&plan), [""; 0]);
    assert_eq!(plan.report.reason(), reason);
}

#[test]
fn the_first_troubled_pod_is_named() {
    let mut workers = [worker(0, Stage::Ready, unknown()), worker(1, Stage::Starting, unknown())];
    workers[1].trouble = Some("ImagePullBackOff".into());
    assert_eq!(plan(&workers, 2).report.message(), "1 of 2 workers are ready: pod `w-1`: ImagePullBackOff");
}

#[rstest]
#[case::rolling(Update::Rolling, &["drain w-0: Pod is pending termination for update"])]
#[case::by_hand(Update::OnDelete, &[])]
fn an_outdated_worker_is_reported_and_first_drained(#[case] update: Update, #[case] actions: &[&str]) {
    let old = [Worker { is_current: false, ..worker(0, Stage::Ready, idle()) }];
    let plan = nodeset(observed(&old, 1).with(|it| it.policy.update = update));
    assert_eq!(words(&plan), actions);
    assert!(plan.report.waits.iter().any(|wait| wait.reason == Reason::Updating), "{:?}", plan.report.waits);
}

#[test]
fn a_slurmd_that_hangs_is_reported_and_its_pod_kept() {
    let up = worker(0, Stage::Ready, busy());
    let conditions = [(format!("{CONDITION_PREFIX}Allocated"), String::new())].into();
    let shown = Shown { conditions, is_protected: true, deadline: Some(NO_DEADLINE.to_owned()) };
    let containers = Containers::Hung;
    let hung = Worker { stage: Stage::Starting, containers, ready_since: None, available_from: None, shown, ..up };
    let report = plan(std::slice::from_ref(&hung), 1);
    assert!(!report.actions.iter().any(|action| action.deleted_worker().is_some()), "{:?}", report.actions);
    let message = report.report.message();
    assert!(message.starts_with("0 of 1 workers are ready: pod `w-0`: slurmd does not respond"), "{message}");
    let new = Worker { shown: Shown::default(), ..hung };
    assert_eq!(plan(&[new], 1).report.message(), "0 of 1 workers are ready", "it is starting");
}
