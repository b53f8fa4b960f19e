//! Workers get a new template without losing a job: idle ones first, a few at a time. A broken template stops by itself, and a change by the chart
//! alone replaces no worker.

use std::time::{Duration, Instant};

use serde_json::json;
use slipway_bed::progress::seconds;
use slipway_tests::eventually::{eventually, steadily};
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

const WORKERS: u32 = 6;
const MAX_UNAVAILABLE: u32 = 2;
/// Long enough for at least two reconciles.
const A_WHILE: Duration = Duration::from_secs(5);

fn patch(slurm: &Slurm, patch: &serde_json::Value) {
    slurm.kubectl(&["patch", "nodesets.slinky.slurm.net", WORKER, "--type=merge", "--patch", &patch.to_string()]).unwrap();
}

/// A patch with a new template that contains this value.
fn template(value: &str) -> serde_json::Value {
    json!({ "spec": { "template": { "metadata": { "annotations": { "example.org/release": value } } } } })
}

/// Workers of which two may be unavailable at a time.
async fn cluster(ground: &Ground, workers: u32) -> Slurm {
    let strategy = json!({ "spec": {
        "oversubscribeNode": true, "revisionHistoryLimit": 10,
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": MAX_UNAVAILABLE } },
    }});
    let manifest = Manifest::demo().unwrap().workers(workers).with("NodeSet", &strategy);
    ground.slurm("slurm", manifest).await.unwrap()
}

#[tokio::test]
async fn a_new_template_reaches_every_worker_and_costs_no_job() {
    let ground = Ground::up("updates", 2).await.unwrap();
    let slurm = cluster(&ground, WORKERS).await;
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let jobs: Vec<u64> = (0..3).map(|_| slurm.submit_patient(1).unwrap()).collect();
    for job in &jobs {
        observer.follow(*job);
        slurm.until_job(*job, "RUNNING").await.unwrap();
    }
    let (before, busy) = (slurm.uids().unwrap(), slurm.busy().unwrap());
    observer.demand(usize::try_from(WORKERS - MAX_UNAVAILABLE).unwrap());

    // Idle workers are replaced, busy ones keep their jobs.
    let since = Instant::now();
    patch(&slurm, &template("2"));
    eventually("the idle workers to be replaced", async || {
        let now = slurm.uids().unwrap();
        let old: Vec<&String> = before.iter().filter(|(pod, uid)| now.get(*pod) == Some(*uid)).map(|(pod, _)| pod).collect();
        if old.len() == busy.len() { Ok(()) } else { Err(format!("{old:?} are as before; {}", slurm.nodes())) }
    })
    .await
    .unwrap();
    eprintln!("three idle workers were replaced within {}", seconds(since.elapsed()));
    for worker in &busy {
        assert_eq!(slurm.uid(worker), before[worker], "{worker} has a job");
    }
    let is_meant = |why: &str| why.contains("jobs are running there") || why.contains("older template");
    slurm.until_not_ready("nodeset", WORKER, is_meant).await.unwrap();
    observer.look_again().await.unwrap();
    assert_eq!(observer.losses(), []);
    for job in &jobs {
        slurm.release_one(*job).unwrap();
        slurm.until_job(*job, "COMPLETED").await.unwrap();
    }
    slurm.until_updated(u64::from(WORKERS)).await.unwrap();
    eprintln!("all workers were replaced within {}", seconds(since.elapsed()));
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_costs_no_more_workers_than_the_budget_and_the_way_back_heals() {
    let ground = Ground::up("rollback", 2).await.unwrap();
    let slurm = cluster(&ground, WORKERS).await;
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    observer.demand(usize::try_from(WORKERS - MAX_UNAVAILABLE).unwrap());
    let updated = slurm.uids().unwrap();
    let image = slurm.resource("nodeset", WORKER).unwrap()["spec"]["slurmd"]["image"].clone();
    patch(&slurm, &json!({ "spec": { "slurmd": { "image": "localhost/no/such:image" } } }));
    slurm.until_not_ready("nodeset", WORKER, |why| why.contains("ImagePull")).await.unwrap();
    steadily("the budget", A_WHILE, async || {
        let now = slurm.uids().unwrap();
        let replaced = updated.iter().filter(|(pod, uid)| now.get(*pod) != Some(*uid)).count();
        if replaced <= usize::try_from(MAX_UNAVAILABLE).unwrap() { Ok(()) } else { Err(format!("{replaced} workers were taken away")) }
    })
    .await
    .unwrap();
    patch(&slurm, &json!({ "spec": { "slurmd": { "image": image } } }));
    let since = Instant::now();
    slurm.until_updated(u64::from(WORKERS)).await.unwrap();
    eprintln!("healed {} after the rollback", seconds(since.elapsed()));
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}
