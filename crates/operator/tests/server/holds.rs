//! Drains of workers by users, Kubernetes and Slurm administrators, each until its owner lifts it; and scale-in of busy workers.

use std::time::Duration;

use serde_json::json;
use slipway_api::annotation::{DRAIN_DEADLINE, FORCE_DELETE, NODE_CORDON_REASON, POD_CORDON};
use slipway_runtime::clock::{Clock, SystemClock};

use crate::stage::cluster::{Cluster, operator};
use crate::stage::{Stage, condition, eventually};

const NODESET: &str = "worker";

/// Waits until a node is drained with this reason, or undrained if `None`.
async fn until_drained(cluster: &Cluster<'_>, node: &str, words: Option<&str>) {
    eventually(&format!("{node} to be drained: {words:?}"), async || {
        let record = cluster.sim.world(|world| world.nodes[node].clone());
        let found = record.is_draining.then_some(record.reason.as_str());
        if found == words { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

async fn annotate(cluster: &Cluster<'_>, pod: &str, key: &str, value: Option<&str>) {
    let answer = cluster.edit_pod(pod, &json!({ "metadata": { "annotations": { key: value } } })).await;
    assert_eq!(answer.code, 200, "{answer:?}");
}

/// Drain reason of worker-0 while its user cordons it.
fn cordoned(cluster: &Cluster<'_>) -> String {
    format!("slurm-operator: Pod ({}/worker-0) was cordoned", cluster.namespace)
}

async fn cordon_host(cluster: &Cluster<'_>, host: &str, is_cordoned: bool, why: Option<&str>) {
    let patch = json!({ "metadata": { "annotations": { NODE_CORDON_REASON: why } }, "spec": { "unschedulable": is_cordoned } });
    let answer = cluster.stage.edit(&format!("/api/v1/nodes/{host}"), &patch).await;
    assert_eq!(answer.code, 200, "{answer:?}");
}

async fn host_of(cluster: &Cluster<'_>, pod: &str) -> String {
    let pods = cluster.pods(NODESET).await;
    let found = pods.iter().find(|found| found["metadata"]["name"] == pod).unwrap();
    found["spec"]["nodeName"].as_str().unwrap().to_owned()
}

/// A user cordons a pod, its host is cordoned as well, and both are uncordoned, with a running job all the time.
async fn cordons(cluster: &Cluster<'_>) {
    let job = cluster.run_job(NODESET, &["worker-0"], 3600).await;
    let host = host_of(cluster, "worker-0").await;
    cluster.until_described().await;
    let before = cluster.slurm_writes();
    annotate(cluster, "worker-0", POD_CORDON, Some("true")).await;
    until_drained(cluster, "worker-0", Some(&cordoned(cluster))).await;
    cordon_host(cluster, &host, true, Some("fan 3\nfailed")).await;
    until_drained(cluster, "worker-0", Some("slurm-operator: fan 3 failed")).await;
    cordon_host(cluster, &host, false, None).await;
    until_drained(cluster, "worker-0", Some(&cordoned(cluster))).await;
    annotate(cluster, "worker-0", POD_CORDON, None).await;
    until_drained(cluster, "worker-0", None).await;
    assert_eq!(cluster.slurm_writes() - before, 4, "one write for each change of cause");
    assert!(cluster.are_running(&[job]));
    cluster.end_job(job);
}

/// An administrator's drain persists through cordons and uncordons.
async fn administrator(cluster: &Cluster<'_>) {
    let words = Some("bad disk");
    let drain = json!({ "state": ["DRAIN"], "reason": "bad disk" });
    cluster.sim.world(|world| world.update_nodes(&["worker-1".to_owned()], &drain, "root")).unwrap();
    let before = cluster.slurm_writes();
    annotate(cluster, "worker-1", POD_CORDON, Some("true")).await;
    // A later drain of another worker shows that this one was reconciled.
    annotate(cluster, "worker-0", POD_CORDON, Some("true")).await;
    until_drained(cluster, "worker-0", Some(&cordoned(cluster))).await;
    annotate(cluster, "worker-1", POD_CORDON, None).await;
    annotate(cluster, "worker-0", POD_CORDON, None).await;
    until_drained(cluster, "worker-0", None).await;
    until_drained(cluster, "worker-1", words).await;
    assert_eq!(cluster.slurm_writes() - before, 2);
    let undrain = json!({ "state": ["UNDRAIN"] });
    cluster.sim.world(|world| world.update_nodes(&["worker-1".to_owned()], &undrain, "root")).unwrap();
}

/// Scales in three busy workers: one by force, one at its deadline, one when its job has ended.
async fn leave(cluster: &Cluster<'_>) {
    let mut jobs = Vec::new();
    for node in ["worker-0", "worker-1", "worker-2"] {
        jobs.push(cluster.run_job(NODESET, &[node], 3600).await);
    }
    let deleted = cluster.deletions().len();
    cluster.scale(NODESET, 0).await;
    for node in ["worker-0", "worker-1", "worker-2"] {
        until_drained(cluster, node, Some("slurm-operator: Pod is pending termination for scale-in")).await;
    }
    eventually("the NodeSet to say how they may leave sooner", async || {
        let message = condition(&cluster.nodeset(NODESET).await, "Ready")["message"].to_string();
        if message.contains(FORCE_DELETE) && message.contains(DRAIN_DEADLINE) { Ok(()) } else { Err(message) }
    })
    .await;
    assert!(cluster.are_running(&jobs) && cluster.deletions().len() == deleted);

    annotate(cluster, "worker-0", FORCE_DELETE, Some("true")).await;
    eventually("the forced one to go", async || gone(cluster, deleted, &["worker-0"])).await;
    let deadline = SystemClock.now() + Duration::from_secs(4);
    annotate(cluster, "worker-1", DRAIN_DEADLINE, Some(&deadline.to_string())).await;
    eventually("the late one to go", async || gone(cluster, deleted, &["worker-0", "worker-1"])).await;
    assert!(SystemClock.now() >= deadline, "it went before its time");
    assert!(cluster.are_running(&jobs[2..]), "nobody permitted that");
    cluster.end_job(jobs[2]);
    eventually("the last one to go", async || gone(cluster, deleted, &["worker-0", "worker-1", "worker-2"])).await;
}

fn gone(cluster: &Cluster<'_>, before: usize, expected: &[&str]) -> Result<(), String> {
    let mut deleted = cluster.deletions().split_off(before);
    deleted.sort_unstable();
    if deleted == expected { Ok(()) } else { Err(format!("{deleted:?}")) }
}

/// The workers come back on nodes that are DOWN and drained by us. If a pod fails with a running job, the job is requeued.
async fn until_back(cluster: &Cluster<'_>) {
    cluster.scale(NODESET, 3).await;
    for node in ["worker-0", "worker-1", "worker-2"] {
        until_drained(cluster, node, None).await;
    }
    cluster.until_settled(NODESET, 3).await;
    let job = cluster.run_job(NODESET, &["worker-2"], 3600).await;
    cluster.kubelet.fail("worker-2").await.unwrap();
    eventually("the job to be given back", async || if cluster.are_running(&[job]) { Err("it runs".to_owned()) } else { Ok(()) }).await;
    cluster.until_settled(NODESET, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_keeps_jobs_from_a_worker_also_lets_them_come_again_and_only_a_user_ends_one() {
    let stage = Stage::new("holds").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    cluster.create_nodeset(NODESET, 3).await;
    cluster.until_settled(NODESET, 3).await;
    cordons(&cluster).await;
    administrator(&cluster).await;
    leave(&cluster).await;
    until_back(&cluster).await;
    drop(cluster);
    stage.end();
}
