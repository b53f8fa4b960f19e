//! Workers that vanish: with their pod, with their kubelet, with their node. Their nodes take no job, and are set DOWN when slurmctld does not hear
//! from them any more, so that the jobs there restart elsewhere. A new worker of the same name inherits nothing.

use std::time::{Duration, Instant};

use slipway_bed::progress::seconds;
use slipway_tests::eventually::{eventually, steadily};
use slipway_tests::ground::Ground;
use slipway_tests::manifest::Manifest;
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

/// slurmctld pings each node three times in this time, so it notices a dead slurmd within 40 s instead of 100. It sets a silent node DOWN itself
/// only after all of it, which none of these cases waits for.
const SLURMD_TIMEOUT: u32 = 120;

/// Long enough for at least two reconciles.
const A_WHILE: Duration = Duration::from_secs(5);

/// A worker that will vanish with its node.
struct Lost<'a> {
    worker: &'a str,
    host: &'a str,
    uid: String,
    job: u64,
}

/// Waits until a job was restarted or is pending again; returns the time it took.
async fn until_requeued(slurm: &Slurm, observer: &Observer, job: u64, since: Instant) -> Duration {
    eventually(&format!("job {job} to be requeued"), async || match observer.job(job) {
        Some(seen) if seen.restarts > 0 || seen.state == "PENDING" => Ok(since.elapsed()),
        other => Err(format!("{other:?}; {}", slurm.nodes())),
    })
    .await
    .unwrap()
}

/// Lets a requeued job start at once. Slurm delays it by two minutes, so that nothing of its first run is left.
fn at_once(slurm: &Slurm, job: u64) {
    slurm.on_controller(&["scontrol", "update", &format!("jobid={job}"), "starttime=now"]).unwrap();
}

/// Starts a job on a worker that the scenario then removes.
async fn doomed_job(slurm: &Slurm, observer: &Observer, worker: &str) -> u64 {
    let job = slurm.submit_patient_on(worker).unwrap();
    observer.follow(job);
    slurm.until_job(job, "RUNNING").await.unwrap();
    observer.look_again().await.unwrap();
    observer.excuse(job);
    job
}

/// Lets a job run on any worker.
fn anywhere(slurm: &Slurm, job: u64) {
    slurm.on_controller(&["scontrol", "update", &format!("jobid={job}"), "reqnodelist="]).unwrap();
}

/// A force-deleted pod is gone from Kubernetes before anything else: its jobs restart, and its successor takes jobs although the pod before it was
/// cordoned.
async fn a_pod_deleted_by_force(slurm: &Slurm, observer: &Observer, worker: &str) {
    let job = doomed_job(slurm, observer, worker).await;
    slurm.kubectl(&["annotate", "pod", worker, "nodeset.slinky.slurm.net/pod-cordon=true"]).unwrap();
    slurm.until_node(worker, &format!("draining slurm-operator: Pod ({}/{worker}) was cordoned", slurm.namespace)).await.unwrap();
    let uid = slurm.uid(worker);
    let since = Instant::now();
    slurm.kubectl(&["delete", "pod", worker, "--force", "--grace-period=0"]).unwrap();
    let requeued = until_requeued(slurm, observer, job, since).await;
    at_once(slurm, job);
    slurm.until_gone(worker, &uid).await.unwrap();
    slurm.until_job(job, "RUNNING").await.unwrap();
    eprintln!("deleted by force: its job was requeued after {}, ran again after {}", seconds(requeued), seconds(since.elapsed()));
    slurm.until_node(worker, "allocated none").await.unwrap();
    slurm.release_one(job).unwrap();
    slurm.until_job(job, "COMPLETED").await.unwrap();
}

/// Without its kubelet the state of a worker is unknown, and its jobs run on: nothing is done.
async fn nothing_is_done_without_a_kubelet(ground: &Ground, slurm: &Slurm, lost: &Lost<'_>) {
    let Lost { worker, host, uid, job } = lost;
    eventually("Kubernetes to miss the kubelet", async || {
        let node = ground.cluster.get(&format!("/api/v1/nodes/{host}")).map_err(|failure| failure.to_string())?;
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_missed = conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "Unknown");
        if is_missed { Ok(()) } else { Err(format!("it says {conditions:?}")) }
    })
    .await
    .unwrap();
    steadily("the job to go on without a kubelet", A_WHILE, async || {
        let shown = slurm.show_job(*job).map_err(|failure| failure.to_string())?;
        if shown.state == "RUNNING" && slurm.uid(worker) == *uid { Ok(()) } else { Err(format!("{shown:?}; {}", slurm.nodes())) }
    })
    .await
    .unwrap();
}

/// When its Node is gone Kubernetes deletes the pod after a minute, and then the worker no longer exists.
async fn a_node_that_is_deleted(ground: &Ground, slurm: &Slurm, observer: &Observer, lost: &Lost<'_>) {
    let Lost { worker, host, uid, job } = lost;
    ground.bed.kill_node(host.trim_start_matches('n').parse().unwrap()).unwrap();
    let since = Instant::now();
    ground.kubectl(&["delete", "node", host]).unwrap();
    // Its Slurm node is DOWN only for as long as the next pod needs to register, which may be less than a second.
    let requeued = until_requeued(slurm, observer, *job, since).await;
    // In this order: its own worker may be back at any moment, and a job that runs there does not move.
    anywhere(slurm, *job);
    at_once(slurm, *job);
    slurm.until_job(*job, "RUNNING").await.unwrap();
    let elsewhere = slurm.show_job(*job).unwrap().host;
    eprintln!(
        "node deleted: the job of {worker} was requeued after {}, running on {elsewhere} after {}",
        seconds(requeued),
        seconds(since.elapsed())
    );
    slurm.release_one(*job).unwrap();
    slurm.until_job(*job, "COMPLETED").await.unwrap();
    eventually("another pod to take its place", async || {
        let now = slurm.uid(worker);
        if !now.is_empty() && now != *uid { Ok(()) } else { Err(format!("its pod is `{now}`")) }
    })
    .await
    .unwrap();
    slurm.until_node(worker, "idle none").await.unwrap();
    eprintln!("node deleted: {worker} was back after {}", seconds(since.elapsed()));
    assert_ne!(slurm.host_of(worker).unwrap(), *host);
}

#[tokio::test]
async fn a_worker_that_vanishes_leaves_no_stale_node_and_its_jobs_start_anew() {
    let ground = Ground::up("vanish", 3).await.unwrap();
    // One node gets a worker and nothing else.
    let victim = ground.free_node().unwrap();
    ground.kubectl(&["cordon", &victim]).unwrap();
    let manifest = Manifest::demo().unwrap().workers(1).with_conf(&format!("SlurmdTimeout={SLURMD_TIMEOUT}"));
    let slurm = ground.slurm("slurm", manifest).await.unwrap();
    let others: Vec<String> = ground.nodes().into_iter().filter(|node| *node != victim).collect();
    for other in &others {
        ground.kubectl(&["cordon", other]).unwrap();
    }
    ground.kubectl(&["uncordon", &victim]).unwrap();
    slurm.scale(2).unwrap();
    slurm.until_node("worker-1", "idle none").await.unwrap();
    for other in &others {
        ground.kubectl(&["uncordon", other]).unwrap();
    }
    slurm.until_node("worker-0", "idle none").await.unwrap();
    assert_eq!(slurm.host_of("worker-1").unwrap(), victim);

    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    // Kubernetes notices a missing kubelet after twenty seconds: enough time for the other case.
    let job = doomed_job(&slurm, &observer, "worker-1").await;
    let lost = Lost { worker: "worker-1", host: &victim, uid: slurm.uid("worker-1"), job };
    ground.bed.kill_node_part(victim.trim_start_matches('n').parse().unwrap(), "kubelet").unwrap();
    a_pod_deleted_by_force(&slurm, &observer, "worker-0").await;
    nothing_is_done_without_a_kubelet(&ground, &slurm, &lost).await;
    a_node_that_is_deleted(&ground, &slurm, &observer, &lost).await;
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}
