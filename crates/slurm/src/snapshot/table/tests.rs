use super::*;
use crate::rest::model::{JobState, NodeStates, QueuedJob};

const LATER: Duration = Duration::from_secs(31);

fn node(name: &str, states: impl Into<NodeStates>) -> Node {
    Node { name: name.to_owned(), state: states.into(), ..Node::default() }
}

fn job(nodes: &str, limit: Number, end: u64) -> QueuedJob {
    QueuedJob {
        nodes: nodes.to_owned(),
        job_state: [JobState::Running].into(),
        time_limit: limit,
        end_time: Number::Set(end),
        ..QueuedJob::default()
    }
}

fn snapshot(nodes: Vec<Node>, jobs: Vec<QueuedJob>) -> (Snapshot, Instant) {
    let now = Instant::now();
    let mut snapshot = Snapshot::empty(Duration::from_secs(30));
    snapshot.nodes = Read { table: Arc::new(Nodes::default().updated(nodes, now)), at: Some(now) };
    snapshot.jobs = Read { table: Arc::new(Jobs::of(jobs)), at: Some(now) };
    snapshot.trouble.clear();
    (snapshot, now)
}

#[test]
fn nothing_read_answers_nothing() {
    let (empty, now) = (Snapshot::empty(Duration::from_secs(30)), Instant::now());
    assert!(matches!(empty.is_busy("a", now), Answer::Unknown(Why::NeverRead(_))));
    assert!(matches!(empty.is_drained("a", now), Answer::Unknown(Why::NeverRead(_))));
    assert!(matches!(empty.is_registered("a", now), Answer::Unknown(Why::NeverRead(_))));
    assert!(matches!(empty.job_deadline("a", now), Deadline::Unknown(Why::NeverRead(_))));
    assert_eq!(empty.age(now), None);
    assert!(empty.is_untried());
    assert_eq!(empty.fresh_for(now), None);
}

#[test]
fn the_older_of_nodes_and_queue_says_for_how_long_both_are_fresh() {
    let (mut snapshot, now) = snapshot(vec![], vec![]);
    snapshot.jobs.at = now.checked_sub(Duration::from_secs(20));
    assert!(!snapshot.is_untried());
    assert_eq!(snapshot.fresh_for(now), Some(Duration::from_secs(10)));
    assert_eq!(snapshot.fresh_for(now + Duration::from_secs(11)), None);
    assert!(snapshot.fresh_nodes(now + Duration::from_secs(11)).is_ok() && snapshot.fresh_jobs(now + Duration::from_secs(11)).is_err());
}

#[test]
fn a_fresh_reading_answers_and_an_old_one_does_not() {
    let (snapshot, now) = snapshot(vec![node("a", [NodeState::Idle, NodeState::Drain])], vec![]);
    assert!(snapshot.is_drained("a", now).is_yes() && snapshot.is_busy("a", now).is_no() && snapshot.is_registered("a", now).is_yes());
    assert_eq!(snapshot.job_deadline("a", now), Deadline::Free);
    assert!(snapshot.is_registered("ghost", now).is_no() && snapshot.is_drained("ghost", now).is_no());
    assert!(matches!(snapshot.is_drained("a", now + LATER), Answer::Unknown(Why::Stale { .. })));
    assert!(!snapshot.is_complete(now + LATER));
}

#[rstest::rstest]
#[case::allocated(NodeState::Allocated)]
#[case::mixed(NodeState::Mixed)]
#[case::completing(NodeState::Completing)]
fn a_node_that_works_is_busy_and_not_drained(#[case] state: NodeState) {
    let (snapshot, now) = snapshot(vec![node("a", [state, NodeState::Drain])], vec![]);
    assert!(snapshot.is_busy("a", now).is_yes() && snapshot.is_drained("a", now).is_no());
}

#[test]
fn a_job_in_the_queue_outweighs_a_node_that_looks_idle() {
    let nodes = vec![node("w-01", [NodeState::Idle, NodeState::Drain])];
    let (snapshot, now) = snapshot(nodes, vec![job("w-[01-03,7]", Number::Set(5), 1_800_000_000)]);
    assert!(snapshot.is_busy("w-01", now).is_yes() && snapshot.is_drained("w-01", now).is_no());
}

#[test]
fn the_last_job_of_a_node_says_when_it_is_free() {
    let nodes = vec![node("a1", [NodeState::Mixed]), node("a2", [NodeState::Mixed]), node("b", [NodeState::Mixed])];
    let jobs = vec![job("a[1-2]", Number::Set(5), 1_800_000_000), job("a1", Number::Set(9), 1_800_000_500), job("a2", Number::Infinite, 0)];
    let (snapshot, now) = snapshot(nodes, jobs);
    assert_eq!(snapshot.job_deadline("a1", now), Deadline::At(Timestamp::from_second(1_800_000_500).unwrap()));
    assert_eq!(snapshot.job_deadline("a2", now), Deadline::Never);
    assert!(matches!(snapshot.job_deadline("b", now), Deadline::Unknown(Why::Unclear(_))), "busy, but nobody knows by whom");
}

#[test]
fn a_job_whose_nodes_cannot_be_read_might_be_anywhere() {
    let (snapshot, now) = snapshot(vec![node("a", [NodeState::Idle, NodeState::Drain])], vec![job("a[", Number::Set(5), 1_800_000_000)]);
    assert!(matches!(snapshot.is_busy("a", now), Answer::Unknown(Why::Unclear(_))));
    assert!(matches!(snapshot.is_drained("a", now), Answer::Unknown(Why::Unclear(_))));
}

#[rstest::rstest]
#[case::none(&[])]
#[case::unknown_base(&["QUANTUM", "DRAIN"])]
#[case::only_flags(&["DRAIN", "DYNAMIC_NORM"])]
fn a_state_without_a_base_says_nothing(#[case] words: &[&str]) {
    let state: NodeStates = words.iter().map(|word| crate::rest::model::flag::Flag::from_word(word)).collect();
    let (snapshot, now) = snapshot(vec![node("a", state)], vec![]);
    assert!(matches!(snapshot.is_busy("a", now), Answer::Unknown(Why::Unclear(_))));
    assert!(!snapshot.is_drained("a", now).is_yes());
}

#[test]
fn a_job_in_a_state_of_the_future_holds_its_nodes() {
    let evaporated = QueuedJob { job_state: [JobState::Other("EVAPORATED".into())].into(), ..job("a", Number::Set(5), 1_800_000_000) };
    let (snapshot, now) = snapshot(vec![node("a", [NodeState::Idle, NodeState::Drain])], vec![evaporated]);
    assert!(snapshot.is_busy("a", now).is_yes());
}

#[test]
fn a_node_missing_from_a_list_that_is_not_whole_may_exist() {
    let (mut snapshot, now) = snapshot(vec![node("a", [NodeState::Idle])], vec![]);
    Arc::make_mut(&mut snapshot.nodes.table).missing = 3;
    assert_eq!(snapshot.is_registered("ghost", now), Answer::Unknown(Why::Partial { missing: 3 }));
    assert!(snapshot.is_registered("a", now).is_yes() && !snapshot.is_complete(now));
}

#[test]
fn changes_are_the_nodes_that_came_went_or_changed() {
    let now = Instant::now();
    let idle = |names: &[&str]| names.iter().map(|name| node(name, [NodeState::Idle])).collect::<Vec<_>>();
    let before = Nodes::default().updated(idle(&["a", "b", "c"]), now);
    let after = before.updated([idle(&["d", "a"]), vec![node("c", [NodeState::Down])]].concat(), now);
    assert_eq!(after.changes_since(&before), ["b", "c", "d"]);
    assert!(after.changes_since(&after.clone()).is_empty());
    assert!(std::ptr::eq(before.get("a").unwrap(), after.get("a").unwrap()), "what is as before stays the same object");
}

#[test]
fn a_node_that_became_free_is_free_once_the_queue_was_read_after_that() {
    let (mut snapshot, began) = snapshot(vec![node("a", [NodeState::Mixed])], vec![]);
    let (freed, later) = (began + Duration::from_secs(5), began + Duration::from_secs(9));
    let idle = || vec![node("a", [NodeState::Idle, NodeState::Drain]), node("new", [NodeState::Idle])];
    for at in [freed, later] {
        snapshot.nodes = Read { table: Arc::new(snapshot.nodes.table.updated(idle(), at)), at: Some(at) };
        assert_eq!(snapshot.is_busy("a", later), Answer::Unknown(Why::QueueBehind("a".to_owned())), "its job may be suspended");
        assert!(!snapshot.is_drained("a", later).is_yes() && snapshot.is_queue_needed());
        assert!(snapshot.is_busy("new", later).is_no(), "it had no job before either");
    }
    snapshot.jobs.at = Some(freed);
    assert!(snapshot.is_busy("a", later).is_no() && snapshot.is_drained("a", later).is_yes() && !snapshot.is_queue_needed());
}

#[test]
fn a_long_queue_is_good_for_longer() {
    let (mut snapshot, now) = snapshot(vec![node("a", [NodeState::Idle])], vec![]);
    snapshot.queue_good_for = Duration::from_mins(5);
    let later = now + Duration::from_mins(4);
    snapshot.nodes.at = Some(later);
    assert!(snapshot.is_busy("a", later).is_no());
    assert_eq!(snapshot.fresh_for(later), Some(Duration::from_secs(30)));
    snapshot.nodes.at = Some(later + LATER * 2);
    assert!(matches!(snapshot.is_busy("a", later + LATER * 2), Answer::Unknown(Why::Stale { .. })));
}

#[rstest::rstest]
#[case::before(1_799_999_999, &[NodeState::Idle], Answer::No)]
#[case::in_that_second(1_800_000_000, &[NodeState::Idle], Answer::Yes)]
#[case::later(1_800_000_009, &[NodeState::Mixed], Answer::Yes)]
#[case::later_but_silent(1_800_000_009, &[NodeState::Idle, NodeState::NotResponding], Answer::No)]
#[case::never(0, &[NodeState::Idle], Answer::No)]
fn a_slurmd_has_taken_what_was_there_when_it_started(#[case] started: u64, #[case] states: &[NodeState], #[case] expected: Answer) {
    let node = Node { slurmd_start_time: Number::Set(started), ..node("a", states.iter().cloned().collect::<NodeStates>()) };
    let (snapshot, now) = snapshot(vec![node], vec![]);
    let moment = Timestamp::from_second(1_800_000_000).unwrap();
    assert_eq!(snapshot.has_started_since("a", moment, now), expected);
    assert!(matches!(snapshot.has_started_since("a", moment, now + LATER), Answer::Unknown(_)));
}
