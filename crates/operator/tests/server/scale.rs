//! Autoscalers of NodeSets: an HPA, which reads and replaces the scale, and a client like KEDA, which scales to zero and back.

use serde_json::{Value, json};

use crate::stage::cluster::{Cluster, operator};
use crate::stage::{Stage, eventually};

const NODESET: &str = "worker";

/// The scale subresource as an HPA reads it.
async fn scale(cluster: &Cluster<'_>) -> Value {
    let scale = cluster.stage.get(&cluster.scale_path(NODESET)).await;
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")), "{scale}");
    scale
}

/// Number of pods that match the selector in the scale's status.
async fn selected(cluster: &Cluster<'_>, scale: &Value) -> u64 {
    let selector = scale["status"]["selector"].as_str().unwrap();
    let escaped = selector.replace('/', "%2F").replace('=', "%3D").replace(',', "%2C");
    let list = cluster.stage.get(&format!("/api/v1/namespaces/{}/pods?labelSelector={escaped}", cluster.namespace)).await;
    list["items"].as_array().unwrap().len() as u64
}

/// One round of an HPA, as the API server saw it: it reads the scale, counts the pods that match the selector, and replaces the scale with its
/// result, at the version it read. After a conflict it starts again. Returns the scale it sent.
async fn hpa(cluster: &Cluster<'_>, replicas: u64) -> Value {
    const TRIES: usize = 5;
    for left in (0..TRIES).rev() {
        let mut read = scale(cluster).await;
        assert_eq!(selected(cluster, &read).await, read["status"]["replicas"].as_u64().unwrap_or(0), "{read}");
        read["spec"]["replicas"] = replicas.into();
        let answer = cluster.stage.replace(&cluster.scale_path(NODESET), &read).await;
        if answer.code == 200 {
            return read;
        }
        assert!(answer.code == 409 && left > 0, "{answer:?}");
    }
    Value::Null
}

/// Waits until this number of workers exists, and scale, status and selector agree.
async fn until_arrived(cluster: &Cluster<'_>, replicas: u64) {
    eventually(&format!("{replicas} workers"), async || {
        let scale = scale(cluster).await;
        let status = cluster.nodeset(NODESET).await["status"].clone();
        let shown = scale["status"]["replicas"].as_u64().unwrap_or(0);
        let ready = status["readyReplicas"].as_u64().unwrap_or(0);
        match selected(cluster, &scale).await {
            found if (found, shown, ready) == (replicas, replicas, replicas) => Ok(()),
            found => Err(format!("{found} pods; {scale}; {status}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_hpa_and_a_client_like_keda_scale_out_in_to_zero_and_back_and_no_job_is_lost() {
    let stage = Stage::new("scale").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    cluster.create_nodeset(NODESET, 0).await;
    eventually("a selector", async || match scale(&cluster).await["status"]["selector"].as_str() {
        Some(selector) if !selector.is_empty() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;

    // A load that rises and falls: each round starts from the result of the previous one.
    let mut stale = Value::Null;
    for replicas in [1, 4, 8, 2] {
        stale = hpa(&cluster, replicas).await;
        until_arrived(&cluster, replicas).await;
    }
    // It read, another client wrote, and now it writes: it gets a conflict and has to read again.
    let answer = stage.replace(&cluster.scale_path(NODESET), &stale).await;
    assert_eq!(answer.code, 409, "{answer:?}");

    // Scale to zero while one worker is busy: its job ends by itself, however long that takes.
    let job = cluster.start_job(NODESET, &["worker-1"], 3600);
    eventually("the job to be known", async || {
        let status = cluster.nodeset(NODESET).await["status"].clone();
        if status["slurmAllocated"].as_u64() == Some(1) { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    cluster.scale(NODESET, 0).await;
    eventually("the idle one to go", async || {
        let left = cluster.names(NODESET).await;
        if left.iter().eq(["worker-1"]) { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    let is_draining = || cluster.sim.world(|world| world.nodes["worker-1"].is_draining);
    assert!(is_draining());

    // Scale out before that worker is deleted: it takes jobs again, with the same pod.
    let uid = cluster.pods(NODESET).await[0]["metadata"]["uid"].clone();
    cluster.scale(NODESET, 3).await;
    until_arrived(&cluster, 3).await;
    eventually("the drain to be lifted", async || if is_draining() { Err("draining".to_owned()) } else { Ok(()) }).await;
    assert!(cluster.are_running(&[job]), "the job was lost");
    assert!(cluster.pods(NODESET).await.iter().any(|pod| pod["metadata"]["uid"] == uid), "the busy worker was replaced");

    // Scale to zero for good once the job has ended.
    cluster.scale(NODESET, 0).await;
    eventually("the idle ones to go", async || match cluster.pods(NODESET).await.len() {
        1 => Ok(()),
        other => Err(format!("{other} pods")),
    })
    .await;
    assert!(cluster.are_running(&[job]), "the job was lost");
    cluster.end_job(job);
    until_arrived(&cluster, 0).await;
    cluster.scale(NODESET, 2).await;
    until_arrived(&cluster, 2).await;
    drop(cluster);
    stage.end();
}
