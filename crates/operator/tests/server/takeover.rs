//! A NodeSet whose workers were created by another operator of this API: they are adopted as they are.

use serde_json::{Value, json};

use crate::stage::cluster::{Cluster, operator};
use crate::stage::{Stage, eventually};

const NODESET: &str = "worker";
const WORKERS: usize = 3;
/// Hash as the other operator computed it, over bytes that we never see.
const THEIR_HASH: &str = "5d9f7c6b84";
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

fn revisions_path(cluster: &Cluster<'_>) -> String {
    format!("/apis/apps/v1/namespaces/{}/controllerrevisions", cluster.namespace)
}

async fn revisions(cluster: &Cluster<'_>) -> Vec<Value> {
    cluster.stage.get(&revisions_path(cluster)).await["items"].as_array().cloned().unwrap_or_default()
}

/// Rewrites the objects as the other operator leaves them: its hash on pods and revision, the values that Go writes for unset fields, no finalizer,
/// and a status without our fields.
async fn rewrite(cluster: &Cluster<'_>) {
    let path = revisions_path(cluster);
    let found = revisions(cluster).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let ours = &found[0];
    let mut data = ours["data"].clone();
    data["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    data["spec"]["template"]["spec"]["containers"] = Value::Null;
    data["spec"]["slurmd"]["resources"] = json!({});
    data["spec"]["ssh"] = json!({ "enabled": false, "extraSshdConfig": "", "sssdConfRef": {} });
    let theirs = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": data,
        "metadata": {
            "name": format!("{NODESET}-{THEIR_HASH}"), "labels": { HASH_LABEL: THEIR_HASH },
            "ownerReferences": ours["metadata"]["ownerReferences"],
        },
    });
    let name = ours["metadata"]["name"].as_str().unwrap();
    assert_eq!(cluster.stage.delete(&format!("{path}/{name}"), "Background").await.code, 200);
    assert_eq!(cluster.stage.put(&format!("{path}/{NODESET}-{THEIR_HASH}"), &theirs).await.code, 201);
    for pod in cluster.pods(NODESET).await {
        let patch = json!({ "metadata": { "labels": { HASH_LABEL: THEIR_HASH } } });
        assert_eq!(cluster.edit_pod(pod["metadata"]["name"].as_str().unwrap(), &patch).await.code, 200);
    }
    let nodeset = cluster.path("nodesets", NODESET);
    assert_eq!(cluster.stage.edit(&nodeset, &json!({ "metadata": { "finalizers": null } })).await.code, 200);
    let status = json!({ "status": { "conditions": null, "nodeSetHash": THEIR_HASH, "observedGeneration": 1 } });
    assert_eq!(cluster.stage.edit(&format!("{nodeset}/status"), &status).await.code, 200);
}

/// Waits until Ready is True for the current generation.
async fn until_settled(cluster: &Cluster<'_>) {
    eventually("the NodeSet to be ready", async || {
        let nodeset = cluster.nodeset(NODESET).await;
        let conditions = nodeset["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_current = |condition: &Value| condition["observedGeneration"] == nodeset["metadata"]["generation"];
        let is_ready = |condition: &&Value| condition["type"] == "Ready" && condition["status"] == "True" && is_current(condition);
        if conditions.iter().any(|condition| is_ready(&condition)) { Ok(()) } else { Err(nodeset["status"].to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_another_operator_and_a_new_version_of_the_chart_are_no_reason_to_replace_anybody() {
    let stage = Stage::new("takeover").await;
    let cluster = Cluster::start(&stage).await;
    let template = |chart: &str| json!({ "metadata": { "labels": { "helm.sh/chart": chart, "team": "a" } }, "spec": {} });
    {
        let _first = operator(&stage);
        let spec = json!({ "template": template("slurm-1.0.0") });
        cluster.create_nodeset_with(NODESET, u32::try_from(WORKERS).unwrap(), &spec).await;
        cluster.until_settled(NODESET, WORKERS).await;
        until_settled(&cluster).await;
    }
    let job = cluster.start_job(NODESET, &["worker-1"], 3600);
    rewrite(&cluster).await;
    let before = cluster.uids(NODESET).await;

    let _second = operator(&stage);
    until_settled(&cluster).await;
    let status = cluster.nodeset(NODESET).await["status"].clone();
    assert_eq!((&status["nodeSetHash"], &status["updatedReplicas"]), (&json!(THEIR_HASH), &json!(WORKERS)), "{status}");
    let kept: Vec<Value> = revisions(&cluster).await.iter().map(|revision| revision["metadata"]["name"].clone()).collect();
    assert_eq!(kept, [format!("{NODESET}-{THEIR_HASH}")], "their revision is ours");

    let upgrade = json!({ "spec": { "template": template("slurm-1.1.0") } });
    assert_eq!(stage.edit(&cluster.path("nodesets", NODESET), &upgrade).await.code, 200);
    until_settled(&cluster).await;
    assert_eq!(cluster.nodeset(NODESET).await["status"]["nodeSetHash"], THEIR_HASH);

    // A change meant for pods makes a new revision.
    let wanted = json!({ "spec": { "updateStrategy": { "type": "OnDelete" }, "template": { "metadata": { "labels": { "team": "b" } } } } });
    assert_eq!(stage.edit(&cluster.path("nodesets", NODESET), &wanted).await.code, 200);
    eventually("another revision", async || match cluster.nodeset(NODESET).await["status"]["nodeSetHash"].as_str() {
        Some(hash) if hash != THEIR_HASH => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!(cluster.uids(NODESET).await, before);
    assert!(cluster.deletions().is_empty() && cluster.are_running(&[job]));
    drop(cluster);
    stage.end();
}
