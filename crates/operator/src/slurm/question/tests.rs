use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_slurm::{
    rest::{
        Client, Limits, Version,
        token::FixedToken,
        transport::{Body, Later, Request, Response, Transport, Trouble},
    },
    snapshot::{Keeper, Pace},
};

use super::*;

/// A slurmrestd with constant answers.
struct Same {
    nodes: Value,
    jobs: Value,
    reservations: Value,
}

struct Whole(Option<Bytes>);

impl Body for Whole {
    fn next(&mut self) -> Later<'_, Result<Option<Bytes>, Trouble>> {
        let piece = self.0.take();
        Box::pin(async move { Ok(piece) })
    }
}

impl Transport for Same {
    fn send(&self, request: Request) -> Later<'_, Result<Response, Trouble>> {
        let lists = [("/nodes/", "nodes", &self.nodes), ("/jobs/", "jobs", &self.jobs)];
        let list = lists.into_iter().find(|(path, ..)| request.path.contains(path));
        let (key, list) = list.map_or_else(|| ("reservations", self.reservations.clone()), |(_, key, list)| (key, list.clone()));
        let body = json!({key: list, "last_update": {"set": true, "infinite": false, "number": 1_000_000}, "errors": [], "warnings": []});
        let body = Box::new(Whole(Some(Bytes::from(body.to_string()))));
        Box::pin(async move { Ok(Response { status: 200, is_json: true, body }) })
    }
}

/// Snapshot of these lists.
async fn snapshot(nodes: Value, jobs: Value) -> Arc<Snapshot> {
    snapshot_with(nodes, jobs, json!([])).await
}

async fn snapshot_with(nodes: Value, jobs: Value, reservations: Value) -> Arc<Snapshot> {
    let client = Client::new(Arc::new(Same { nodes, jobs, reservations }), Arc::new(FixedToken::new("t")), Arc::new(()), Limits::default());
    let (keeper, handle) = Keeper::new(Arc::new(client.pinned(Version::V45)), Pace::default());
    let keeper = tokio::spawn(keeper.run());
    while handle.latest().fresh_jobs(Instant::now()).is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    keeper.abort();
    handle.latest()
}

#[rstest]
#[case::waits("x", &["PENDING"], Answer::Yes)]
#[case::waits_for_any_of_several("all,x", &["PENDING"], Answer::Yes)]
#[case::runs("x", &["RUNNING"], Answer::Yes)]
#[case::suspended("x", &["SUSPENDED"], Answer::Yes)]
#[case::leaves("x", &["COMPLETED", "COMPLETING"], Answer::Yes)]
#[case::unknown_state("x", &["LEVITATING"], Answer::Yes)]
#[case::ended("x", &["COMPLETED"], Answer::No)]
#[case::elsewhere("xx,all", &["RUNNING"], Answer::No)]
#[case::nowhere("", &["RUNNING"], Answer::Unknown("Slurm names no partition of job 7".to_owned()))]
#[tokio::test(start_paused = true)]
async fn a_job_counts_for_each_partition_that_it_names(#[case] partition: &str, #[case] states: &[&str], #[case] expected: Answer) {
    let job = json!({"job_id": 7, "partition": partition, "job_state": states});
    let snapshot = snapshot(json!([]), json!([job])).await;
    let asked = ["y".to_owned(), "x".to_owned()];
    assert_eq!(partitions_have_jobs(Some(&snapshot), &asked, Instant::now()), expected);
    if expected == Answer::Yes {
        let soon = Instant::now() + FRESH + Duration::from_secs(1);
        assert_eq!(partitions_have_jobs(Some(&snapshot), &asked, soon), expected, "it need not be read again for this");
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_queue_says_nothing() {
    let snapshot = snapshot(json!([]), json!([])).await;
    let asked = ["x".to_owned()];
    assert_eq!(partitions_have_jobs(Some(&snapshot), &asked, Instant::now()), Answer::No);
    let soon = Instant::now() + FRESH + Duration::from_secs(1);
    assert!(matches!(partitions_have_jobs(Some(&snapshot), &asked, soon), Answer::Unknown(_)), "a job may have come since");
    let later = Instant::now() + Duration::from_mins(1);
    assert!(matches!(partitions_have_jobs(Some(&snapshot), &asked, later), Answer::Unknown(_)));
    assert!(matches!(partitions_have_jobs(None, &asked, later), Answer::Unknown(_)));
    assert!(workers_behind(Some(&snapshot), Timestamp::UNIX_EPOCH, later).is_err());
    assert!(workers_behind(None, Timestamp::UNIX_EPOCH, later).is_err());
}

#[rstest]
#[case::before(999, &["IDLE"], Some(true))]
#[case::in_the_same_second(1_000, &["IDLE"], None)]
#[case::after(1_001, &["MIXED"], None)]
#[case::unheard_of(999, &["IDLE", "NOT_RESPONDING"], Some(false))]
#[case::down(999, &["DOWN"], Some(false))]
#[case::back_and_has_not_said(0, &["IDLE"], Some(false))]
#[case::read_it_and_went_silent(1_001, &["IDLE", "NOT_RESPONDING"], None)]
#[case::yet_to_come(0, &["IDLE", "CLOUD", "POWERED_DOWN"], None)]
#[case::without_slurmd(0, &["IDLE", "EXTERNAL"], None)]
#[tokio::test(start_paused = true)]
async fn a_worker_is_behind_until_it_started_after_slurmctld(#[case] started: u64, #[case] states: &[&str], #[case] answers: Option<bool>) {
    let number = json!({"set": true, "infinite": false, "number": started});
    let node = json!({"name": "w", "state": states, "slurmd_start_time": number});
    let snapshot = snapshot(json!([node]), json!([])).await;
    let since = Timestamp::from_millisecond(1_000_900).unwrap();
    let (_, behind) = workers_behind(Some(&snapshot), since, Instant::now()).unwrap();
    let expected: Vec<Behind> = answers.map(|answers| Behind { node: "w".to_owned(), answers }).into_iter().collect();
    assert_eq!(behind, expected);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_registered_themselves_are_told_apart() {
    let nodes = json!([{"name": "w-1", "state": ["IDLE", "DYNAMIC_NORM"]}, {"name": "f", "state": ["IDLE"]}]);
    let snapshot = snapshot(nodes, json!([])).await;
    assert_eq!(registered_nodes(Some(&snapshot)).names().collect::<Vec<_>>(), ["w-1"]);
    assert!(registered_nodes(None).is_empty());
}

#[tokio::test(start_paused = true)]
async fn records_are_needed_by_reservations_and_by_jobs_that_have_or_require_them() {
    let jobs = json!([
        {"job_id": 7, "partition": "x", "job_state": ["PENDING"], "required_nodes": "w-[1-2]"},
        {"job_id": 8, "partition": "x", "job_state": ["RUNNING"], "nodes": "w-2,z"},
        {"job_id": 9, "partition": "x", "job_state": ["PENDING"], "excluded_nodes": "w-4"},
        {"job_id": 10, "partition": "x", "job_state": ["COMPLETED"], "nodes": "w-4"},
    ]);
    let snapshot = snapshot_with(
        json!([]),
        jobs,
        json!([{"name": "later", "node_list": "w-[3,9]"}, {"name": "SlurmOperatorMaint-w", "node_list": "w-4"}]),
    )
    .await;
    let asked = ["w-1", "w-2", "w-3", "w-4"];
    let (needs_now, is_certain) = needs(Some(&snapshot), &asked, "SlurmOperatorMaint-w", Instant::now()).unwrap();
    let expected = [("w-1", "job 7 requires it"), ("w-2", "2 jobs require it, such as 7"), ("w-3", "reservation `later` names it")];
    assert_eq!(needs_now, expected.map(|(node, words)| (node.to_owned(), words.to_owned())).into());
    assert!(is_certain);
    let soon = Instant::now() + FRESH + Duration::from_secs(1);
    assert!(!needs(Some(&snapshot), &asked, "SlurmOperatorMaint-w", soon).unwrap().1, "a job may have come since");
    assert!(needs(Some(&snapshot), &asked, "SlurmOperatorMaint-w", Instant::now() + Duration::from_mins(1)).is_err());
    assert!(needs(None, &asked, "SlurmOperatorMaint-w", Instant::now()).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_read_may_name_anybody() {
    let unreadable = json!([{"name": "odd", "node_list": "w-[1-"}]);
    let snapshot = snapshot_with(json!([]), json!([]), unreadable).await;
    assert!(needs(Some(&snapshot), &["w-1"], "SlurmOperatorMaint-w", Instant::now()).is_err());
}
