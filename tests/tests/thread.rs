//! The whole thread on real parts: manifests a user would write, the operator as a pod, real daemons, a real job.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::{Duration, Instant};

use serde_json::Value;
use slipway_bed::Bed;
use slipway_bed::cache::Cache;
use slipway_bed::image::Image;
use slipway_bed::progress::{Progress, seconds};
use slipway_bed::up::{Wanted, up};
use slipway_tests::audit::Audit;
use slipway_tests::cluster::Cluster;
use slipway_tests::eventually::eventually;
use slipway_tests::passes::passes;
use slipway_tests::slurm::{OPERATOR_USER, Slurm, install_operator, restart_operator};

const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn a_user_applies_manifests_and_runs_a_job_on_two_nodes() {
    let cache = Cache::open().unwrap();
    let name = format!("thread-{}", std::process::id()).parse().unwrap();
    let wanted = Wanted { images: Image::of_slurm(), ..Wanted::cluster(name, 2) };
    slipway_bed::up::prepare(&cache, &wanted).unwrap();
    let started = Instant::now();
    let bed = up(&cache, &wanted).await.unwrap();
    let bed_time = started.elapsed();
    let cluster = Cluster::of_bed(&bed);
    let started = Instant::now();
    install_operator(&cluster, Progress::Quiet).await.unwrap();
    let slurm = Slurm::bring_up(&cluster, "slurm", Progress::Quiet).await.unwrap();
    let slurm_time = started.elapsed();

    let job = slurm.run_job(2, "srun --label hostname").await.unwrap();
    assert_eq!(job.state, "COMPLETED", "{job:?}");
    let mut hosts: Vec<_> = job.output.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["worker-0", "worker-1"], "{}", job.output);

    slurm.until_at_rest().await.unwrap();
    a_pass_over_an_unchanged_world_writes_nothing(&bed, &cluster).await;
    an_edited_child_is_repaired(&cluster).await;
    a_scale_in_that_cannot_be_judged_removes_nothing(&cluster).await;

    let memory = bed.memory().unwrap_or_default() >> 20;
    let started = Instant::now();
    bed.down().unwrap();
    let down_time = started.elapsed();
    eprintln!(
        "bed of 2 nodes up in {}, operator and Slurm ready in {}, {memory} MiB, down in {}",
        seconds(bed_time),
        seconds(slurm_time),
        seconds(down_time)
    );
}

/// A new process of the operator has no memory of what it wrote, so its first pass over each object is the hardest one to do
/// without a write.
async fn a_pass_over_an_unchanged_world_writes_nothing(bed: &Bed, cluster: &Cluster) {
    // At rest: everything that was to be said about the last change has been said.
    eventually("the Controller to say that its configuration runs everywhere", PATIENCE, async || {
        let path = "--output=jsonpath={.status.conditions[?(@.type=='ConfigurationApplied')].status}";
        let args = ["get", "controllers.slinky.slurm.net/slurm", "--namespace=slurm", path];
        let status = cluster.kubectl().args(args).output().map_err(|failure| failure.to_string())?;
        if status == "True" { Ok(()) } else { Err(format!("it says `{status}`")) }
    })
    .await
    .unwrap();
    let audit = Audit::from_now(bed);
    restart_operator(cluster).unwrap();
    eventually("a pass of the new operator over each kind", PATIENCE, async || {
        let passes = passes(cluster)?;
        if passes.len() == 3 && passes.values().all(|count| *count >= 1.0) { Ok(()) } else { Err(format!("passes so far: {passes:?}")) }
    })
    .await
    .unwrap();
    let writes = audit.writes_of(OPERATOR_USER);
    assert!(writes.is_empty(), "the operator wrote although nothing had changed: {writes:?}");
}

async fn an_edited_child_is_repaired(cluster: &Cluster) {
    let service = ["--namespace=slurm", "service", "slurm-restapi"];
    let wrong = r#"{"spec":{"selector":{"app.kubernetes.io/name":"nobody"}}}"#;
    cluster.kubectl().args(["patch", "--patch", wrong]).args(service).output().unwrap();
    eventually("the operator to put the selector right", PATIENCE, async || {
        let text = cluster.kubectl().args(["get", "--output=json"]).args(service).output().map_err(|failure| failure.to_string())?;
        let service: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let selector = &service["spec"]["selector"]["app.kubernetes.io/name"];
        if selector == "slurmrestd" { Ok(()) } else { Err(format!("it is {selector}")) }
    })
    .await
    .unwrap();
}

/// Without a RestApi nobody can be asked.
async fn a_scale_in_that_cannot_be_judged_removes_nothing(cluster: &Cluster) {
    let nodeset = "nodesets.slinky.slurm.net/worker";
    cluster.kubectl().args(["delete", "--namespace=slurm", "restapis.slinky.slurm.net/slurm", "--wait"]).output().unwrap();
    let workers = || {
        let pods = ["get", "pods", "--namespace=slurm", "--selector=app.kubernetes.io/name=slurmd"];
        cluster.kubectl().args(pods).arg("--output=jsonpath={.items[*].metadata.uid}").output().unwrap()
    };
    let before = workers();
    cluster.kubectl().args(["scale", "--namespace=slurm", nodeset, "--replicas=1"]).output().unwrap();
    eventually("the NodeSet to say why it does not shrink", PATIENCE, async || {
        let text = cluster.kubectl().args(["get", "--namespace=slurm", "--output=json", nodeset]).output();
        let object: Value = serde_json::from_str(&text.map_err(|failure| failure.to_string())?).map_err(|error| error.to_string())?;
        if object["status"]["observedGeneration"] != object["metadata"]["generation"] {
            return Err("it has not seen the change yet".to_owned());
        }
        let conditions = object["status"]["conditions"].to_string();
        if conditions.contains("Slurm") && conditions.contains("unknown") { Ok(()) } else { Err(conditions) }
    })
    .await
    .unwrap();
    assert_eq!(before, workers(), "a worker was removed although Slurm could not be asked");
}
