//! Topology and features from annotations of Kubernetes nodes reach Slurm, and a mistake in them affects nothing else.

use serde_json::{Value, json};
use slipway_api::annotation::{FEATURES, TOPOLOGY};
use slipway_api::condition::NODE_ANNOTATIONS_APPLIED;

use crate::stage::cluster::{Cluster, operator};
use crate::stage::{Stage, eventually, says};

const NODESET: &str = "worker";

async fn annotate(cluster: &Cluster<'_>, pod: &str, annotations: &Value) {
    let pods = cluster.pods(NODESET).await;
    let host = pods.iter().find(|found| found["metadata"]["name"] == pod).unwrap()["spec"]["nodeName"].as_str().unwrap().to_owned();
    let answer = cluster.stage.edit(&format!("/api/v1/nodes/{host}"), &json!({ "metadata": { "annotations": annotations } })).await;
    assert_eq!(answer.code, 200, "{answer:?}");
}

/// Waits until a node has this topology and these features, all of them active.
async fn until_set(cluster: &Cluster<'_>, node: &str, topology: &str, features: &[&str]) {
    eventually(&format!("{node} at `{topology}` with {features:?}"), async || {
        let record = cluster.sim.world(|world| world.nodes[node].clone());
        let is_so = record.topology == topology && record.features == features && record.active_features == features;
        if is_so { Ok(()) } else { Err(format!("`{}` {:?} {:?}", record.topology, record.features, record.active_features)) }
    })
    .await;
}

/// Waits until the condition has this status, and all these words in its message.
async fn until_reported(cluster: &Cluster<'_>, status: &Value, words: &[&str]) {
    cluster.until_condition(NODESET, NODE_ANNOTATIONS_APPLIED, |said| said["status"] == *status && says(said, words)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topology_and_features_of_kubernetes_nodes_are_those_of_slurm_nodes() {
    let stage = Stage::new("place").await;
    let cluster = Cluster::start(&stage).await;
    cluster.sim.world(|world| world.topologies.insert("tree".to_owned(), vec!["s1".to_owned(), "s2".to_owned()]));
    let _operator = operator(&stage);
    cluster.create_nodeset(NODESET, 3).await;
    cluster.until_settled(NODESET, 3).await;
    until_reported(&cluster, &Value::Null, &[]).await;
    cluster.until_described().await;

    // A feature set by others stays, and each change is one call.
    let by_hand = json!({ "features": ["worker", "fast"], "features_act": ["worker", "fast"] });
    cluster.sim.world(|world| world.update_nodes(&["worker-0".to_owned()], &by_hand, "root")).unwrap();
    let before = cluster.slurm_writes();
    annotate(&cluster, "worker-0", &json!({ TOPOLOGY: "tree:s1", FEATURES: "ib, gpu" })).await;
    until_set(&cluster, "worker-0", "tree:s1", &["worker", "fast", "k8s/gpu", "k8s/ib"]).await;
    until_reported(&cluster, &json!("True"), &[]).await;
    assert_eq!(cluster.slurm_writes() - before, 2);

    // A topology unknown to Slurm is reported after one attempt, and does not hold back other changes.
    annotate(&cluster, "worker-1", &json!({ TOPOLOGY: "tree:s9", FEATURES: "gpu" })).await;
    until_set(&cluster, "worker-1", "", &["worker", "k8s/gpu"]).await;
    until_reported(&cluster, &json!("False"), &["worker-1", "tree:s9", "2178", "topology.yaml"]).await;
    annotate(&cluster, "worker-2", &json!({ TOPOLOGY: "tree:s2" })).await;
    until_set(&cluster, "worker-2", "tree:s2", &["worker"]).await;
    assert_eq!(cluster.slurm_writes() - before, 5, "two for worker-1, one of them refused, and one for worker-2");

    // After a reconfigure of Slurm it is tried again.
    cluster.sim.world(|world| {
        world.topologies.insert("tree".to_owned(), ["s1", "s2", "s9"].map(str::to_owned).to_vec());
        world.reconfigure();
    });
    until_set(&cluster, "worker-1", "tree:s9", &["worker", "k8s/gpu"]).await;
    until_reported(&cluster, &json!("True"), &[]).await;

    // A mistake is reported and changes nothing.
    annotate(&cluster, "worker-1", &json!({ FEATURES: "gpu&ib" })).await;
    until_reported(&cluster, &json!("False"), &["features.slinky.slurm.net/spec", "gpu&ib", "worker-1"]).await;
    until_set(&cluster, "worker-1", "tree:s9", &["worker", "k8s/gpu"]).await;

    // Without annotations our features are removed; the topology stays.
    let none = json!({ TOPOLOGY: null, FEATURES: null });
    for pod in ["worker-0", "worker-1", "worker-2"] {
        annotate(&cluster, pod, &none).await;
    }
    until_set(&cluster, "worker-0", "tree:s1", &["worker", "fast"]).await;
    until_set(&cluster, "worker-1", "tree:s9", &["worker"]).await;
    until_reported(&cluster, &Value::Null, &[]).await;
    drop(cluster);
    stage.end();
}
