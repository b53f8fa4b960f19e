//! Workers come and leave without losing a job: scaling in waits for the busy ones, takes the idle ones first, and leaves an
//! administrator's drain alone.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::{Duration, Instant};

use serde_json::json;
use slipway_bed::progress::seconds;
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

const PATIENCE: Duration = Duration::from_mins(1);
const WORKERS: u32 = 4;

fn scale(slurm: &Slurm, replicas: u32) {
    slurm.kubectl(&["scale", &format!("nodesets.slinky.slurm.net/{WORKER}"), &format!("--replicas={replicas}")]).unwrap();
}

/// Names of the worker pods, in order.
fn pods(slurm: &Slurm) -> Vec<String> {
    let selector = "--selector=app.kubernetes.io/name=slurmd";
    let names = slurm.kubectl(&["get", "pods", selector, "--output=jsonpath={.items[*].metadata.name}"]).unwrap();
    let mut names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    names.sort();
    names
}

async fn until_pods(slurm: &Slurm, expected: &[&str]) {
    eventually(&format!("the pods {expected:?}"), PATIENCE, async || {
        let found = pods(slurm);
        let jobs = || slurm.on_controller(&["squeue", "--states=all", "--format=%i %T %N %r"]).unwrap_or_default();
        if found == expected { Ok(()) } else { Err(format!("there are {found:?}, and jobs\n{}", jobs())) }
    })
    .await
    .unwrap();
}

/// State and reason of a node, as sinfo shows them.
fn node(slurm: &Slurm, name: &str) -> String {
    slurm.on_controller(&["sinfo", "--noheader", "--Node", "--nodes", name, "--format=%T %E"]).unwrap().trim().to_owned()
}

async fn until_node(slurm: &Slurm, name: &str, expected: &str) {
    eventually(&format!("node {name} to be `{expected}`"), PATIENCE, async || {
        let found = node(slurm, name);
        if found == expected { Ok(()) } else { Err(format!("it is `{found}`")) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_shrinking_node_set_loses_no_job_and_touches_no_drain_of_others() {
    let ground = Ground::up("scaling", 2).await.unwrap();
    let manifest = Manifest::demo().unwrap().workers(WORKERS).with("NodeSet", &json!({ "spec": { "oversubscribeNode": true } }));
    let slurm = ground.slurm("slurm", manifest).await.unwrap();
    let observer = Observer::start(&ground.bed, &slurm).unwrap();

    // Three jobs on three of four; an administrator drains one that is busy.
    let jobs: Vec<u64> = (0..3).map(|_| slurm.submit_patient(1).unwrap()).collect();
    for job in &jobs {
        observer.follow(*job);
        slurm.until_job(*job, "RUNNING").await.unwrap();
    }
    let busy = slurm.on_controller(&["squeue", "--noheader", "--states=RUNNING", "--format=%N"]).unwrap();
    let busy: Vec<&str> = busy.split_whitespace().collect();
    let idle = pods(&slurm).into_iter().find(|pod| !busy.contains(&pod.as_str())).unwrap();
    slurm.on_controller(&["scontrol", "update", &format!("nodename={}", busy[0]), "state=drain", "reason=bad disk"]).unwrap();

    // The idle one leaves at once, the busy ones stay until their jobs have ended.
    let since = Instant::now();
    scale(&slurm, 1);
    let mut staying: Vec<&str> = busy.clone();
    staying.sort_unstable();
    until_pods(&slurm, &staying).await;
    eprintln!("the idle worker {idle} left after {}", seconds(since.elapsed()));
    let ready = || slurm.is_ready("nodeset", WORKER);
    let why = eventually("the NodeSet to say what it waits for", PATIENCE, async || match ready() {
        Err(why) if why.contains("jobs are running there") => Ok(why),
        other => Err(format!("{other:?}")),
    });
    assert!(why.await.unwrap().contains("delete pod `worker-"));
    assert_eq!(node(&slurm, busy[0]), "draining bad disk");
    observer.look_again().await.unwrap();
    assert_eq!(observer.losses(), []);

    // A scale-in that is taken back: who was drained for it takes jobs again, but for the administrator's.
    scale(&slurm, 3);
    for worker in &busy[1..] {
        until_node(&slurm, worker, "allocated none").await;
    }
    assert_eq!(node(&slurm, busy[0]), "draining bad disk");
    scale(&slurm, 1);

    let since = Instant::now();
    for job in &jobs {
        slurm.release(*job).unwrap();
        slurm.until_job(*job, "COMPLETED").await.unwrap();
    }
    eventually("one worker to be left", PATIENCE, async || {
        let found = pods(&slurm);
        if found.len() == 1 { Ok(()) } else { Err(format!("there are {found:?}")) }
    })
    .await
    .unwrap();
    eprintln!("the others left {} after their jobs were let go", seconds(since.elapsed()));
    observer.verdict().await.unwrap();

    // Who comes back under an old name takes jobs, but for the one that an administrator keeps.
    scale(&slurm, WORKERS);
    for number in 0..WORKERS {
        let worker = format!("worker-{number}");
        until_node(&slurm, &worker, if worker == busy[0] { "drained bad disk" } else { "idle none" }).await;
    }
    ground.bed.down().unwrap();
}
