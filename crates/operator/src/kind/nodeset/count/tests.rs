use rstest::rstest;
use slipway_plan::nodeset::{Containers, Finish, Hold, JobPolicy, Phase, Shown};

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn worker(stage: Stage, in_slurm: InSlurm) -> Worker {
    let since = (stage == Stage::Ready).then_some(NOW);
    Worker {
        name: "w-0".to_owned(),
        slot: slipway_plan::nodeset::Slot::Ordinal(0),
        created: None,
        uid: "u".to_owned(),
        stage,
        phase: Phase::Running,
        ready_since: since,
        available_from: since,
        gone_by: None,
        host: None,
        hash: "now".to_owned(),
        is_current: true,
        deletion_cost: 0,
        is_cordoned: false,
        job_policy: JobPolicy::Wait,
        node: "w-0".to_owned(),
        in_slurm,
        record: slipway_plan::nodeset::Record::default(),
        is_lost: false,
        shown: Shown::default(),
        address: None,
        containers: Containers::Ready,
        trouble: None,
    }
}

fn unknown() -> InSlurm {
    InSlurm::unknown("nobody asked")
}

/// A node with these states, separated by spaces.
fn node(states: &'static str) -> InSlurm {
    let finish = Finish::Free;
    InSlurm {
        is_registered: Answer::Yes,
        is_drained: Answer::No,
        is_busy: Answer::No,
        hold: Hold::Open,
        finish,
        states: states.split_whitespace().collect(),
        ..unknown()
    }
}

fn no_record() -> InSlurm {
    InSlurm { is_registered: Answer::No, states: Vec::new(), ..node("") }
}

fn counted(workers: &[Worker], replicas: i32) -> NodeSetStatus {
    let mut status = NodeSetStatus::default();
    count(&mut status, workers, replicas, NOW);
    status
}

/// Counts of idle, allocated, down and drained nodes.
fn in_slurm(status: &NodeSetStatus) -> [Option<i32>; 4] {
    [status.slurm_idle, status.slurm_allocated, status.slurm_down, status.slurm_drain]
}

#[rstest]
#[case::nobody(&[], [0, 0, 0, 0])]
#[case::idle(&["Idle"], [1, 0, 0, 0])]
#[case::busy(&["Allocated", "Mixed Completing"], [0, 2, 0, 0])]
#[case::a_drained_one_is_idle_too(&["Idle Drain", "Mixed Drain"], [1, 1, 0, 2])]
#[case::down(&["Down NotResponding", "Down Drain"], [0, 0, 2, 1])]
fn nodes_are_counted_by_what_slurm_says(#[case] nodes: &[&'static str], #[case] expected: [i32; 4]) {
    let workers: Vec<_> = nodes.iter().map(|states| worker(Stage::Ready, node(states))).collect();
    assert_eq!(in_slurm(&counted(&workers, 1)), expected.map(Some));
}

#[rstest]
#[case::slurm_is_unknown(vec![worker(Stage::Ready, node("Idle")), worker(Stage::Ready, unknown())], None)]
#[case::slurm_knows_that_it_has_none(vec![worker(Stage::Ready, node("Idle")), worker(Stage::Starting, no_record())], Some(1))]
#[case::a_pod_was_just_created(vec![worker(Stage::Ready, node("Idle")), Worker { uid: String::new(), ..worker(Stage::Starting, unknown()) }], Some(1))]
fn what_is_unknown_is_not_counted(#[case] workers: Vec<Worker>, #[case] idle: Option<i32>) {
    assert_eq!(counted(&workers, 2).slurm_idle, idle);
}

#[test]
fn a_worker_is_available_when_it_has_been_ready_for_long_enough() {
    let soon = Worker { available_from: Some(NOW + std::time::Duration::from_secs(1)), ..worker(Stage::Ready, unknown()) };
    let old = Worker { is_current: false, ..worker(Stage::Ready, unknown()) };
    let workers = [worker(Stage::Ready, unknown()), soon, old, worker(Stage::Going, unknown())];
    let status = counted(&workers, 3);
    assert_eq!((status.replicas, status.desired, status.updated_replicas), (Some(4), Some(3), Some(2)));
    assert_eq!((status.ready_replicas, status.available_replicas, status.unavailable_replicas), (Some(3), Some(2), Some(1)));
    assert_eq!(counted(&workers, 0).unavailable_replicas, Some(0), "more than asked for are not missing");
}
