//! slurmrestd gives wrong answers, with each fault that the simulator knows, while a NodeSet is scaled in and a busy worker is to be deleted. Nothing
//! is done until the answers are right again, and then soon.

mod proxy;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;
use slipway_bed::progress::seconds;
use slipway_sim::FaultKind;
use slipway_tests::eventually::{eventually, steadily};
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{CONTROLLER, Manifest, WORKER};
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

use self::proxy::{Proxy, send_operator_through};

/// Long enough for at least two reconciles.
const HOLD: Duration = Duration::from_secs(4);
/// Longer than the last snapshot stays valid.
const LONG_HOLD: Duration = Duration::from_secs(35);
/// Faults that affect lists alone: a request for one node gets the truth, and the operator may act on it.
const TELLS_TRUTH_OF_ONE: [FaultKind; 2] = [FaultKind::EmptyList, FaultKind::HalfList];
const WAYS: [FaultKind; 12] = [
    FaultKind::ServerError,
    FaultKind::EmptyList,
    FaultKind::HalfList,
    FaultKind::TornList,
    FaultKind::ErrorsInside,
    FaultKind::StaleList,
    FaultKind::LyingGate,
    FaultKind::ControllerGone,
    FaultKind::RefuseTokens,
    FaultKind::ResetAfterWrite,
    FaultKind::Stall,
    FaultKind::Refuse,
];
/// An idle worker, and one that an administrator drained.
const AT_REST: [&str; 2] = ["worker-0", "worker-1"];

/// Everything that the operator could change: pods with their UIDs, nodes with state and reason.
fn world(slurm: &Slurm, observer: &Observer) -> BTreeMap<String, String> {
    let path = "--output=jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.deletionTimestamp}{\"\\n\"}{end}";
    let pods = slurm.kubectl(&["get", "pods", "--selector=app.kubernetes.io/name=slurmd", path]).unwrap();
    let pods = pods.lines().filter_map(|line| line.split_once(' ')).map(|(name, rest)| (format!("pod {name}"), rest.trim().to_owned()));
    let nodes = observer.nodes().into_iter().map(|node| (format!("node {}", node.name), format!("{:?} {}", node.states, node.reason)));
    pods.chain(nodes).collect()
}

/// Checks that nothing changes for a while.
async fn nothing_changes(slurm: &Slurm, observer: &Observer, before: &BTreeMap<String, String>, during: &str, hold: Duration) {
    steadily(&format!("nothing to change during {during}"), hold, async || {
        observer.look_again().await.map_err(|failure| failure.to_string())?;
        let now = world(slurm, observer);
        let changed: Vec<_> = now.iter().filter(|(what, is)| before.get(*what) != Some(*is)).collect();
        let gone: Vec<_> = before.keys().filter(|what| !now.contains_key(*what)).collect();
        if changed.is_empty() && gone.is_empty() { Ok(()) } else { Err(format!("changed: {changed:?}; gone: {gone:?}")) }
    })
    .await
    .unwrap();
}

/// Status and message of the NodeSet's `SlurmReachable` condition.
fn says(slurm: &Slurm) -> String {
    let set = slurm.resource("nodeset", WORKER).unwrap();
    let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let reachable = conditions.iter().find(|condition| condition["type"] == "SlurmReachable").cloned().unwrap_or_default();
    format!("SlurmReachable={}: {}", reachable["status"].as_str().unwrap_or_default(), reachable["message"].as_str().unwrap_or_default())
}

/// Runs one fault: the busy worker with the highest number is to be deleted, slurmrestd gives wrong answers, the job ends, slurmrestd recovers.
async fn round(slurm: &Slurm, observer: &Observer, proxy: &Proxy, way: FaultKind, victim: u32, job: u64) {
    let (pod, during) = (format!("worker-{victim}"), format!("{way:?}"));
    let uid = slurm.uid(&pod);
    slurm.scale(victim).unwrap();
    eventually(&format!("{pod} to be drained"), async || {
        let node = slurm.node(&pod).map_err(|failure| failure.to_string())?;
        if node.starts_with("draining slurm-operator: ") { Ok(()) } else { Err(node) }
    })
    .await
    .unwrap();
    observer.look_again().await.unwrap();
    let before = world(slurm, observer);

    proxy.fail(way);
    let is_long = way == FaultKind::Refuse;
    if !is_long {
        eventually(&format!("the operator to ask during {during}"), async || match proxy.hits() {
            0 => Err("it does not".to_owned()),
            _ => Ok(()),
        })
        .await
        .unwrap();
    }
    nothing_changes(slurm, observer, &before, &during, if is_long { LONG_HOLD } else { HOLD }).await;
    let words = says(slurm);
    assert!(!is_long || words.starts_with("SlurmReachable=False"), "{words}");
    slurm.release_one(job).unwrap();
    slurm.until_job(job, "COMPLETED").await.unwrap();
    if !TELLS_TRUTH_OF_ONE.contains(&way) {
        steadily(&format!("{pod} to stay during {during}"), HOLD / 2, async || {
            if slurm.uid(&pod) == uid { Ok(()) } else { Err("it left".to_owned()) }
        })
        .await
        .unwrap();
    }
    let hits = proxy.heal();
    let since = Instant::now();
    slurm.until_gone(&pod, &uid).await.unwrap();
    eprintln!("{during}: {hits} wrong answers; {pod} left {} after the healing; the NodeSet said: {words}", seconds(since.elapsed()));
}

/// Runs one fault after the other on one cluster.
async fn every_way(ground: &Ground, namespace: &str, port: u16, ways: &[FaultKind]) {
    let count = u32::try_from(ways.len() + AT_REST.len()).unwrap();
    let manifest = Manifest::demo().unwrap().workers(count).with("NodeSet", &json!({ "spec": { "oversubscribeNode": true } }));
    let manifest = manifest.with("RestApi", &json!({ "spec": { "service": { "port": port } } }));
    let proxy = Proxy::start(&ground.bed, namespace, CONTROLLER, port).unwrap();
    let slurm = ground.slurm(namespace, manifest).await.unwrap();
    let observer = Observer::start(&ground.bed, &slurm).unwrap();

    // The worker with the highest number is scaled in first, and none of those at rest.
    let highest_first: Vec<u32> = (u32::try_from(AT_REST.len()).unwrap()..count).rev().collect();
    let jobs: Vec<u64> = highest_first.iter().map(|number| slurm.submit_patient_on(&format!("worker-{number}")).unwrap()).collect();
    for job in &jobs {
        observer.follow(*job);
        slurm.until_job(*job, "RUNNING").await.unwrap();
    }
    for (cost, number) in (0..count).rev().enumerate() {
        let cost = format!("nodeset.slinky.slurm.net/pod-deletion-cost={cost}");
        slurm.kubectl(&["annotate", "pod", &format!("worker-{number}"), &cost]).unwrap();
    }
    slurm.drain(AT_REST[1], "bad disk").unwrap();
    observer.demand(AT_REST.len());
    for ((way, number), job) in ways.iter().zip(highest_first).zip(jobs) {
        round(&slurm, &observer, &proxy, *way, number, job).await;
    }

    assert_eq!(slurm.pods().unwrap(), AT_REST);
    assert_eq!(AT_REST.map(|worker| slurm.node(worker).unwrap()), ["idle none", "drained bad disk"]);
    observer.verdict().await.unwrap();
}

#[tokio::test]
async fn wrong_answers_of_slurmrestd_end_no_job_and_change_nothing() {
    let ground = Ground::alone("wrong", 2).await.unwrap();
    send_operator_through(&ground.cluster).unwrap();
    // Two clusters, each on a thread, so that the faults of both overlap. The last fault lasts longest, so its cluster has fewer.
    let halves = WAYS.split_at(WAYS.len() / 2 + 1);
    std::thread::scope(|scope| {
        for (namespace, port, ways) in [("one", 6820, halves.0), ("two", 6821, halves.1)] {
            let ground = &ground;
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(every_way(ground, namespace, port, ways));
            });
        }
    });
    ground.end().unwrap();
}
