//! Data of the workers: it is kept or deleted as the NodeSet specifies, and a cordon does not affect it.

use std::time::{Duration, Instant};

use serde_json::json;
use slipway_bed::progress::{Progress, seconds};
use slipway_tests::eventually::{eventually, steadily};
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

const WORKERS: u32 = 3;
const FILE: &str = "/scratch/whose";

/// Names of the workers' claims, sorted.
fn claims(slurm: &Slurm) -> Vec<String> {
    let names = slurm.kubectl(&["get", "persistentvolumeclaims", "--output=jsonpath={.items[*].metadata.name}"]).unwrap();
    let mut names: Vec<String> = names.split_whitespace().filter(|name| name.starts_with("scratch-")).map(str::to_owned).collect();
    names.sort();
    names
}

async fn until_claims(slurm: &Slurm, expected: &[&str]) {
    eventually(&format!("the claims {expected:?}"), async || match claims(slurm) {
        found if found == expected => Ok(()),
        found => Err(format!("there are {found:?}")),
    })
    .await
    .unwrap();
}

fn retain(slurm: &Slurm, when_scaled: &str, when_deleted: &str) {
    let policy = json!({ "spec": { "persistentVolumeClaimRetentionPolicy": { "whenScaled": when_scaled, "whenDeleted": when_deleted } } });
    let set = format!("nodesets.slinky.slurm.net/{WORKER}");
    slurm.kubectl(&["patch", &set, "--type=merge", "--patch", &policy.to_string()]).unwrap();
}

/// Deletes the NodeSet and waits until it is gone.
async fn delete(slurm: &Slurm, cascade: &str) {
    slurm.kubectl(&["delete", "nodesets.slinky.slurm.net", WORKER, cascade, "--wait=false"]).unwrap();
    eventually("the NodeSet to go", async || {
        let Ok(found) = slurm.resource("nodeset", WORKER) else { return Ok(()) };
        let finalizers = &found["metadata"]["finalizers"];
        Err(format!("{finalizers}; {:?}; {:?}; {}", slurm.is_ready("nodeset", WORKER), slurm.pods(), slurm.nodes()))
    })
    .await
    .unwrap();
}

/// Content of a worker's file, once the worker responds.
async fn until_owner(slurm: &Slurm, worker: &str) -> String {
    slurm.until_node(worker, "idle none").await.unwrap();
    eventually(&format!("{worker} to be asked"), async || {
        let command = format!("cat {FILE} || true");
        slurm.on_worker(worker, &["sh", "-c", &command]).map_err(|failure| failure.to_string())
    })
    .await
    .unwrap()
}

/// Writes each worker's name into its own claim.
fn mark(slurm: &Slurm) {
    for pod in slurm.pods().unwrap() {
        slurm.on_worker(&pod, &["sh", "-c", &format!("printf {pod} >{FILE}")]).unwrap();
    }
}

#[tokio::test]
async fn claims_are_kept_and_deleted_as_the_node_set_says() {
    let ground = Ground::up("claims", 1).await.unwrap();
    let claim = json!({
        "metadata": { "name": "scratch" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Mi" } } },
    });
    let spec = json!({ "spec": {
        "oversubscribeNode": true, "volumeClaimTemplates": [claim],
        "slurmd": { "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }] },
    } });
    let slurm = ground.slurm("slurm", Manifest::demo().unwrap().workers(WORKERS).with("NodeSet", &spec)).await.unwrap();
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let all = ["scratch-worker-0", "scratch-worker-1", "scratch-worker-2"];
    until_claims(&slurm, &all).await;
    mark(&slurm);

    // Kept when the NodeSet is scaled in, found again when it is scaled out.
    slurm.scale(1).unwrap();
    slurm.until_pod_count(1).await.unwrap();
    steadily("the claims to stay", Duration::from_secs(2), async || match claims(&slurm) {
        found if found == all => Ok(()),
        found => Err(format!("there are {found:?}")),
    })
    .await
    .unwrap();
    slurm.scale(WORKERS).unwrap();
    for number in 0..WORKERS {
        let worker = format!("worker-{number}");
        assert_eq!(until_owner(&slurm, &worker).await, worker, "data is kept when the NodeSet shrinks");
    }

    // A cordon, of the node or of the pod, is no scale-in: a recreated worker finds its data.
    retain(&slurm, "Delete", "Retain");
    let host = slurm.host_of("worker-2").unwrap();
    ground.kubectl(&["cordon", &host]).unwrap();
    slurm.kubectl(&["annotate", "pod", "worker-2", "nodeset.slinky.slurm.net/pod-cordon=true"]).unwrap();
    eventually("worker-2 to be drained", async || match slurm.node("worker-2") {
        Ok(node) if node.starts_with("drained slurm-operator: ") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    let uid = slurm.uid("worker-2");
    slurm.kubectl(&["delete", "pod", "worker-2", "--wait"]).unwrap();
    ground.kubectl(&["uncordon", &host]).unwrap();
    slurm.until_gone("worker-2", &uid).await.unwrap();
    assert_eq!(until_owner(&slurm, "worker-2").await, "worker-2", "data is kept under a cordon");

    // Deleted with a worker that is scaled in, and with no other.
    ground.garbage_collector_knows_our_kinds(&slurm).unwrap();
    let since = Instant::now();
    slurm.scale(2).unwrap();
    until_claims(&slurm, &all[..2]).await;
    eprintln!("the claim went {} after the scale-in began", seconds(since.elapsed()));
    slurm.scale(WORKERS).unwrap();
    assert_eq!(until_owner(&slurm, "worker-2").await, "", "a new claim is empty");
    assert_eq!(until_owner(&slurm, "worker-1").await, "worker-1");

    // A NodeSet that is deleted keeps its claims or deletes them.
    retain(&slurm, "Retain", "Retain");
    delete(&slurm, "--cascade=foreground").await;
    slurm.until_pod_count(0).await.unwrap();
    assert_eq!(claims(&slurm), all, "the claims outlive their NodeSet");
    ground.cluster.apply_text(&slurm.manifest.text(), Some(&slurm.namespace)).unwrap();
    slurm.until_ready(Progress::Quiet).await.unwrap();
    assert_eq!(until_owner(&slurm, "worker-0").await, "worker-0", "another NodeSet of the same name finds the data");
    retain(&slurm, "Retain", "Delete");
    eventually("the claims to belong to the NodeSet", async || {
        let owners = slurm.kubectl(&["get", "persistentvolumeclaims", "--output=jsonpath={.items[*].metadata.ownerReferences[*].kind}"]);
        let owners = owners.map_err(|failure| failure.to_string())?;
        if owners.split_whitespace().filter(|kind| *kind == "NodeSet").count() == all.len() {
            Ok(())
        } else {
            Err(format!("owners: {owners}"))
        }
    })
    .await
    .unwrap();
    let since = Instant::now();
    delete(&slurm, "--cascade=background").await;
    until_claims(&slurm, &[]).await;
    eprintln!("the claims went {} after their NodeSet", seconds(since.elapsed()));
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}
