use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use proptest::prelude::*;
use rstest::rstest;
use slipway_api::{
    annotation, label,
    slurm_node::{NO_DEADLINE, PodInfo},
};

use super::*;
use crate::{
    Action, Marks,
    gate::Answer,
    nodeset::{
        Finish, Host, InSlurm, Shown, nodeset,
        tests::{busy, drained, idle, observed, unknown, unregistered, worker},
    },
};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A worker whose pod shows nothing yet.
fn bare(ordinal: u32, in_slurm: InSlurm) -> Worker {
    Worker { shown: Shown::default(), host: None, ..worker(ordinal, Stage::Ready, in_slurm) }
}

fn plan(workers: &[Worker]) -> Plan {
    nodeset(observed(workers, workers.len()))
}

fn words(plan: &Plan) -> Vec<String> {
    plan.actions.iter().map(ToString::to_string).collect()
}

fn shows(types: &[&str], message: &str) -> BTreeMap<String, String> {
    types.iter().map(|type_| ((*type_).to_owned(), message.to_owned())).collect()
}

fn shown_conditions(plan: &Plan) -> Vec<BTreeMap<String, String>> {
    let shown = plan.actions.iter().filter_map(|action| match action {
        Action::ShowConditions { conditions, .. } => Some(conditions.clone()),
        _ => None,
    });
    shown.collect()
}

fn marks(plan: &Plan) -> Vec<Marks> {
    let marks = plan.actions.iter().filter_map(|action| match action {
        Action::MarkPod { marks, .. } => Some(marks.clone()),
        _ => None,
    });
    marks.collect()
}

/// Applies the plan's actions to the pods and nodes.
fn carry_out(workers: &mut [Worker], plan: &Plan) {
    let of = |workers: &mut [Worker], pod: &PodId| workers.iter().position(|worker| worker.uid == pod.uid).unwrap();
    for action in &plan.actions {
        match action {
            Action::ShowConditions { pod, conditions } => {
                let at = of(workers, pod);
                workers[at].shown.conditions = conditions.clone();
            }
            Action::MarkPod { pod, marks } => {
                let at = of(workers, pod);
                let shown = &mut workers[at].shown;
                if let Some(mark) = marks.labels.get(label::POD_PROTECT) {
                    shown.is_protected = mark.is_some();
                }
                if let Some(mark) = marks.annotations.get(annotation::POD_DEADLINE) {
                    shown.deadline = mark.clone();
                }
            }
            Action::Describe { comments } => {
                for worker in workers.iter_mut() {
                    worker.in_slurm.comment = comments.get(&worker.node).cloned().unwrap_or_else(|| worker.in_slurm.comment.clone());
                }
            }
            _ => {}
        }
    }
}

#[rstest]
#[case::idle(InSlurm { states: vec!["Idle"], ..idle() }, Some(shows(&["SlurmNodeStateIdle"], "")))]
#[case::with_its_reason(
    InSlurm { states: vec!["Mixed", "Drain"], reason: "bad fan".into(), ..idle() },
    Some(shows(&["SlurmNodeStateMixed", "SlurmNodeStateDrain"], "bad fan"))
)]
#[case::drained_and_empty(
    InSlurm { states: vec!["Idle", "Drain"], reason: String::new(), ..drained() },
    Some(shows(&["SlurmNodeStateIdle", "SlurmNodeStateDrain", "SlurmDrained"], ""))
)]
#[case::future(InSlurm { states: vec!["Future"], ..unregistered() }, Some(shows(&["SlurmNodeStateFuture"], "")))]
#[case::no_record(unregistered(), None)]
#[case::unknown(unknown(), None)]
fn a_pod_shows_what_slurm_says(#[case] in_slurm: InSlurm, #[case] conditions: Option<BTreeMap<String, String>>) {
    let workers = [Worker { stage: Stage::Starting, ..bare(0, in_slurm) }];
    assert_eq!(shown_conditions(&plan(&workers)), Vec::from_iter(conditions));
}

#[rstest]
#[case::known_to_be_another(InSlurm { states: vec!["Down"], ..idle() }, Some(shows(&["SlurmNodeStateDown"], "")))]
#[case::known_to_be_none(unregistered(), Some(BTreeMap::new()))]
#[case::unknown(unknown(), None)]
#[case::maybe_drained(
    InSlurm { states: vec!["Idle", "Drain"], is_drained: Answer::Unknown("no queue".into()), ..idle() },
    None
)]
#[case::another_reason(
    InSlurm { states: vec!["Idle", "Drain"], reason: "fan".into(), ..drained() },
    Some(shows(&["SlurmNodeStateIdle", "SlurmNodeStateDrain", "SlurmDrained"], "fan"))
)]
fn what_a_pod_shows_stays_until_something_else_is_known(#[case] in_slurm: InSlurm, #[case] conditions: Option<BTreeMap<String, String>>) {
    let shown = Shown { conditions: shows(&["SlurmNodeStateIdle", "SlurmNodeStateDrain", "SlurmDrained"], ""), ..Shown::default() };
    let workers = [Worker { shown, ..worker(0, Stage::Ready, in_slurm) }];
    assert_eq!(shown_conditions(&plan(&workers)), Vec::from_iter(conditions));
}

#[test]
fn pods_that_go_or_are_not_seen_yet_are_left_alone() {
    let states = || InSlurm { states: vec!["Mixed"], ..busy() };
    let going = Worker { stage: Stage::Going, ..bare(0, states()) };
    let unseen = Worker { uid: String::new(), ..bare(1, states()) };
    assert_eq!(words(&plan(&[going, unseen])), [""; 0]);
    let leaves = Worker { deletion_cost: -1, ..bare(1, InSlurm { states: vec!["Idle", "Drain"], ..drained() }) };
    assert_eq!(words(&nodeset(observed(&[worker(0, Stage::Ready, idle()), leaves], 1))), ["delete pod `w-1`"]);
}

#[rstest]
#[case::busy(true, busy(), Shown::default(), Some(true))]
#[case::busy_and_marked(true, busy(), Shown { is_protected: true, ..Shown::default() }, None)]
#[case::free_again(true, idle(), Shown { is_protected: true, ..Shown::default() }, Some(false))]
#[case::unknown_keeps_the_mark(true, unknown(), Shown { is_protected: true, ..Shown::default() }, None)]
#[case::unknown_gives_none(true, unknown(), Shown::default(), None)]
#[case::not_wanted(false, busy(), Shown::default(), None)]
#[case::not_wanted_any_more(false, busy(), Shown { is_protected: true, ..Shown::default() }, Some(false))]
#[case::not_wanted_any_more_and_unknown(false, unknown(), Shown { is_protected: true, ..Shown::default() }, Some(false))]
fn the_busy_are_protected(#[case] protects: bool, #[case] in_slurm: InSlurm, #[case] shown: Shown, #[case] mark: Option<bool>) {
    let workers = [Worker { shown, ..worker(0, Stage::Ready, in_slurm) }];
    let plan = nodeset(observed(&workers, 1).with(|it| it.policy.protects = protects));
    let found = marks(&plan).first().and_then(|marks| marks.labels.get(label::POD_PROTECT).cloned());
    assert_eq!(found, mark.map(|mark| mark.then(|| "true".to_owned())));
    assert_eq!(plan_protection(&workers, protects).count(), usize::from(mark == Some(true)), "the budget counts it before it is marked");
}

#[rstest]
#[case::ends(Finish::At("2026-03-04T05:06:07Z".parse().unwrap()), None, Some("2026-03-04T05:06:07Z"))]
#[case::as_shown(Finish::At("2026-03-04T05:06:07Z".parse().unwrap()), Some("2026-03-04T05:06:07Z"), None)]
#[case::no_limit(Finish::Never, None, Some(NO_DEADLINE))]
#[case::free_again(Finish::Free, Some("2026-03-04T05:06:07Z"), Some(TAKEN_AWAY))]
#[case::unknown(Finish::Unknown, Some("2026-03-04T05:06:07Z"), None)]
fn a_pod_tells_when_its_last_job_ends(#[case] finish: Finish, #[case] shown: Option<&str>, #[case] mark: Option<&str>) {
    let shown = Shown { deadline: shown.map(str::to_owned), ..Shown::default() };
    let workers = [Worker { shown, ..worker(0, Stage::Ready, InSlurm { finish, ..idle() }) }];
    let found = marks(&plan(&workers)).first().and_then(|marks| marks.annotations.get(annotation::POD_DEADLINE).cloned());
    assert_eq!(found.map(|mark| mark.unwrap_or_else(|| TAKEN_AWAY.to_owned())).as_deref(), mark);
}

/// From three hours to go on, the end moves with each of many jobs.
#[rstest]
#[case::a_minute_later("03:00:00", "03:01:00", Some("03:12:00"))]
#[case::later_within_what_is_shown("03:12:00", "03:05:00", None)]
#[case::a_little_earlier("03:12:00", "02:50:00", None)]
#[case::much_earlier("03:12:00", "01:30:00", Some("01:36:00"))]
#[case::no_limit_before("9999", "03:01:00", Some("03:12:00"))]
#[case::garbage("soon", "03:01:00", Some("03:12:00"))]
fn the_end_that_a_pod_shows_does_not_move_with_every_job(#[case] shown: &str, #[case] end: &str, #[case] written: Option<&str>) {
    let at = |time: &str| format!("2026-03-04T{time}Z");
    let shown = if shown.contains(':') { at(shown) } else { shown.replace("9999", NO_DEADLINE) };
    let shown = Shown { deadline: Some(shown), ..Shown::default() };
    let finish = Finish::At(at(end).parse().unwrap());
    let workers = [Worker { shown, ..worker(0, Stage::Ready, InSlurm { finish, ..idle() }) }];
    let midnight = at("00:00:00").parse().unwrap();
    let plan = nodeset(observed(&workers, 1).with(|it| it.now = midnight));
    let found = marks(&plan).first().and_then(|marks| marks.annotations.get(annotation::POD_DEADLINE).cloned().flatten());
    assert_eq!(found, written.map(at));
}

/// Stands for a removed label or annotation.
const TAKEN_AWAY: &str = "taken away";

#[test]
fn both_marks_are_one_write() {
    assert_eq!(words(&plan(&[bare(0, busy())])), ["mark pod `w-0`"]);
}

fn on_host(ordinal: u32, comment: &str) -> Worker {
    let host = Some(Host { name: "k1".into(), ..Host::default() });
    Worker { host, ..worker(ordinal, Stage::Ready, InSlurm { comment: comment.into(), ..idle() }) }
}

const COMMENT: &str = r#"{"namespace":"n","podName":"w-0","node":"k1","nodeSetName":"w","nodeSetUID":"uid-of-w"}"#;

#[rstest]
#[case::none(on_host(0, ""), true)]
#[case::right(on_host(0, COMMENT), false)]
#[case::of_an_older_operator(on_host(0, r#"{"namespace":"n","podName":"w-0","node":"k1"}"#), true)]
#[case::of_the_pod_before(on_host(0, r#"{"namespace":"n","podName":"w-0","node":"k2","nodeSetName":"w","nodeSetUID":"uid-of-w"}"#), true)]
#[case::a_person_s(on_host(0, "rack 3, ask Lena"), false)]
#[case::not_up_yet(Worker { stage: Stage::Starting, ..on_host(0, "") }, false)]
#[case::nowhere(Worker { host: None, ..on_host(0, "") }, false)]
#[case::no_record(Worker { in_slurm: unregistered(), ..on_host(0, "") }, false)]
#[case::unknown(Worker { in_slurm: unknown(), ..on_host(0, "") }, false)]
fn a_node_names_its_pod(#[case] worker: Worker, #[case] is_told: bool) {
    let comments = BTreeMap::from([("w-0".to_owned(), COMMENT.to_owned())]);
    let expected = is_told.then_some(Action::Describe { comments });
    assert_eq!(plan(&[worker]).actions, Vec::from_iter(expected));
    assert!(PodInfo::parse(COMMENT).is_some());
}

#[test]
fn all_comments_are_one_action() {
    let workers: Vec<_> = (0..300).map(|ordinal| on_host(ordinal, "")).collect();
    assert!(matches!(plan(&workers).actions.as_slice(), [Action::Describe { comments }] if comments.len() == 300));
}

#[test]
fn a_job_that_completes_is_shown_if_that_takes_long() {
    let completing = |shown: Shown| {
        let in_slurm = InSlurm { states: vec!["Mixed", "Completing"], completing_since: Some(after(0)), ..busy() };
        vec![Worker { shown: Shown { is_protected: true, ..shown }, ..worker(0, Stage::Ready, in_slurm) }]
    };
    let mixed = || Shown { conditions: shows(&["SlurmNodeStateMixed"], ""), ..Shown::default() };
    let both = shows(&["SlurmNodeStateMixed", "SlurmNodeStateCompleting"], "");
    assert_eq!(pass(&mut completing(mixed()), after(10)), (0, Some(Duration::from_secs(20))));
    assert_eq!(pass(&mut completing(mixed()), after(30)), (1, None), "it hangs");
    assert_eq!(pass(&mut completing(Shown { conditions: both, ..Shown::default() }), after(10)), (0, None), "it is shown already");
    let plan = nodeset(observed(&completing(Shown::default()), 1).with(|it| it.now = after(10)));
    assert_eq!(shown_conditions(&plan), [shows(&["SlurmNodeStateMixed"], "")]);
}

#[rstest]
#[case::mixed_before(&["SlurmNodeStateMixed"], None)]
#[case::idle_before(&["SlurmNodeStateIdle"], Some("SlurmNodeStateAllocated"))]
#[case::allocated_before(&["SlurmNodeStateAllocated"], None)]
fn the_moment_in_which_slurm_counts_cpus_is_not_shown(#[case] shown: &[&str], #[case] wanted: Option<&str>) {
    let shown = Shown { conditions: shows(shown, ""), is_protected: true, ..Shown::default() };
    let in_slurm = InSlurm { states: vec!["Allocated"], is_counting: true, ..busy() };
    let workers = [Worker { shown, ..worker(0, Stage::Ready, in_slurm) }];
    assert_eq!(shown_conditions(&plan(&workers)), Vec::from_iter(wanted.map(|state| shows(&[state], ""))));
}

/// Workers that already show that they are idle.
fn idle_fleet(count: u32) -> Vec<Worker> {
    let one = |ordinal| {
        let shown = Shown { conditions: shows(&["SlurmNodeStateIdle"], ""), ..Shown::default() };
        Worker { shown, ..worker(ordinal, Stage::Ready, InSlurm { states: vec!["Idle"], ..idle() }) }
    };
    (0..count).map(one).collect()
}

/// Nodes start or stop responding at `since`.
fn respond(workers: &mut [Worker], responds: bool, since: Timestamp) {
    for worker in workers {
        worker.in_slurm.states = if responds { vec!["Idle"] } else { vec!["Idle", "NotResponding"] };
        worker.in_slurm.response_since = Some(since);
    }
}

fn after(seconds: u64) -> Timestamp {
    NOW + Duration::from_secs(seconds)
}

/// Plans and applies the plan. Returns the number of written conditions and the requeue delay.
fn pass(workers: &mut [Worker], now: Timestamp) -> (usize, Option<Duration>) {
    let plan = nodeset(observed(workers, workers.len()).with(|it| it.now = now));
    carry_out(workers, &plan);
    (shown_conditions(&plan).len(), plan.wake_after)
}

#[test]
fn a_thousand_nodes_that_are_silent_for_a_moment_cost_nothing() {
    let mut workers = idle_fleet(1000);
    respond(&mut workers, false, after(0));
    assert_eq!(pass(&mut workers, after(0)), (0, Some(Duration::from_secs(30))));
    assert_eq!(pass(&mut workers, after(18)), (0, Some(Duration::from_secs(12))));
    respond(&mut workers, true, after(20));
    assert_eq!(pass(&mut workers, after(20)), (0, None));
    assert_eq!(pass(&mut workers, after(60)), (0, None));
}

#[test]
fn a_thousand_nodes_that_fall_silent_little_by_little_and_return_cost_few_writes() {
    let mut workers = idle_fleet(1000);
    let mut writes = 0;
    for (second, some) in (0..20).zip((0..1000).step_by(50)) {
        respond(&mut workers[some..some + 50], false, after(second));
        writes += pass(&mut workers, after(second)).0;
    }
    for second in 20..22 {
        respond(&mut workers, true, after(second));
        writes += pass(&mut workers, after(second)).0;
    }
    writes += pass(&mut workers, after(100)).0;
    assert!(writes <= 50, "{writes} writes");
    assert!(workers.iter().all(|worker| worker.shown.conditions == shows(&["SlurmNodeStateIdle"], "")));
}

#[test]
fn few_nodes_that_fall_silent_are_shown_at_once_and_many_when_it_lasts() {
    let mut workers = idle_fleet(1000);
    respond(&mut workers[..20], false, after(0));
    assert_eq!(pass(&mut workers, after(0)).0, 20);
    respond(&mut workers[20..], false, after(1));
    assert_eq!(pass(&mut workers, after(1)).0, 0);
    assert_eq!(pass(&mut workers, after(31)).0, 980);
    assert_eq!(pass(&mut workers, after(32)), (0, None));
}

#[test]
fn a_node_that_is_down_is_shown_at_once_whoever_else_is_silent() {
    let mut workers = idle_fleet(1000);
    respond(&mut workers, false, after(0));
    for worker in &mut workers[..300] {
        worker.in_slurm.states = vec!["Down", "NotResponding"];
    }
    assert_eq!(pass(&mut workers, after(1)).0, 300);
    assert_eq!(workers[0].shown.conditions, shows(&["SlurmNodeStateDown", "SlurmNodeStateNotResponding"], ""));
}

#[test]
fn what_else_is_known_of_a_silent_node_is_shown_at_once() {
    let mut workers = idle_fleet(100);
    respond(&mut workers, false, after(0));
    workers[0].in_slurm.states = vec!["Mixed", "NotResponding"];
    assert_eq!(pass(&mut workers, after(0)).0, 1);
    assert_eq!(workers[0].shown.conditions, shows(&["SlurmNodeStateMixed"], ""));
}

fn any_worker(ordinal: u32) -> impl Strategy<Value = Worker> {
    let node = prop::sample::select(vec![unknown(), idle(), busy(), drained(), unregistered()]);
    let states = prop::sample::select(vec![
        vec![],
        vec!["Idle"],
        vec!["Mixed", "Drain"],
        vec!["Down", "NotResponding"],
        vec!["Idle", "NotResponding"],
    ]);
    let types = vec!["SlurmNodeStateIdle", "SlurmNodeStateNotResponding", "SlurmDrained", "SlurmNodeStateDrain"];
    let shown = (prop::sample::subsequence(types, 0..4), any::<bool>(), prop::option::of(Just("2026-03-04T05:06:07Z".to_owned())));
    let stage = prop::sample::select(vec![Stage::Starting, Stage::Ready, Stage::Ended, Stage::Going]);
    (node, states, shown, stage, prop::option::of(0..60_u64)).prop_map(
        move |(node, states, (types, is_protected, deadline), stage, since)| {
            let in_slurm = InSlurm { states, response_since: since.map(after), ..node };
            let shown = Shown { conditions: shows(&types, ""), is_protected, deadline };
            Worker { shown, ..worker(ordinal, stage, in_slurm) }
        },
    )
}

fn any_fleet() -> impl Strategy<Value = Vec<Worker>> {
    (0..40_u32).prop_flat_map(|count| (0..count).map(any_worker).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn what_was_written_is_not_written_again(mut workers in any_fleet(), protects: bool) {
        let plan = |workers: &[Worker]| {
            let mut plan = Plan::default();
            plan_mirror(&observed(workers, workers.len()).with(|it| { it.policy.protects = protects; it.now = after(30); }), &BTreeSet::new(), &mut plan);
            plan
        };
        let first = plan(&workers);
        carry_out(&mut workers, &first);
        prop_assert_eq!(plan(&workers).actions, vec![]);
    }

    #[test]
    fn nothing_is_written_about_what_is_unknown(workers in any_fleet()) {
        let mut plan = Plan::default();
        plan_mirror(&observed(&workers, workers.len()), &BTreeSet::new(), &mut plan);
        for action in plan.actions {
            let (Action::ShowConditions { pod, .. } | Action::MarkPod { pod, .. }) = action else { continue };
            let worker = workers.iter().find(|worker| worker.uid == pod.uid).unwrap();
            prop_assert!(!matches!(worker.in_slurm.is_registered, Answer::Unknown(_)));
        }
    }

    #[test]
    fn whoever_gets_the_mark_was_counted_before(workers in any_fleet(), protects: bool) {
        let mut plan = Plan::default();
        plan_mirror(&observed(&workers, workers.len()).with(|it| it.policy.protects = protects), &BTreeSet::new(), &mut plan);
        let counted: Vec<&str> = plan_protection(&workers, protects).map(|worker| worker.uid.as_str()).collect();
        for action in &plan.actions {
            if let Action::MarkPod { pod, marks } = action && matches!(marks.labels.get(label::POD_PROTECT), Some(Some(_))) {
                prop_assert!(counted.contains(&pod.uid.as_str()));
            }
        }
    }
}
