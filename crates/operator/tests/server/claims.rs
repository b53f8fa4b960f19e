//! Names, claims, nodes and orphans of workers, on a real API server. No garbage collector runs here, so the tests check owner references.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::stage::cluster::{CONTROLLER, Cluster, operator};
use crate::stage::{Stage, eventually};

const NODESET: &str = "worker";

fn with_scratch(more: &Value) -> Value {
    let mut spec = json!({
        "volumeClaimTemplates": [{
            "metadata": { "name": "scratch", "labels": { "tier": "fast" } },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        }],
        "template": { "spec": { "volumes": [{ "name": "scratch", "emptyDir": {} }] } },
    });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

fn claim_path(cluster: &Cluster<'_>, name: &str) -> String {
    format!("/api/v1/namespaces/{}/persistentvolumeclaims/{name}", cluster.namespace)
}

/// Claims by name.
async fn claims(cluster: &Cluster<'_>) -> BTreeMap<String, Value> {
    let list = cluster.stage.get(&format!("/api/v1/namespaces/{}/persistentvolumeclaims", cluster.namespace)).await;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.into_iter().map(|claim| (claim["metadata"]["name"].as_str().unwrap().to_owned(), claim)).collect()
}

/// Kind and name of a claim's owner, by claim.
async fn owners(cluster: &Cluster<'_>) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let owner = |claim: &Value| match &claim["metadata"]["ownerReferences"][0] {
        Value::Null => "-".to_owned(),
        owner => format!("{} {}", text(&owner["kind"]), text(&owner["name"])),
    };
    claims(cluster).await.iter().map(|(name, claim)| (name.clone(), owner(claim))).collect()
}

async fn until_owners(cluster: &Cluster<'_>, expected: &[(&str, &str)]) {
    let expected: BTreeMap<String, String> = expected.iter().map(|(claim, owner)| ((*claim).to_owned(), (*owner).to_owned())).collect();
    eventually(&format!("the owners {expected:?}"), async || match owners(cluster).await {
        found if found == expected => Ok(()),
        found => Err(format!("they are {found:?}")),
    })
    .await;
}

async fn retain(cluster: &Cluster<'_>, when_deleted: &str, when_scaled: &str) {
    let policy = json!({ "spec": { "persistentVolumeClaimRetentionPolicy": { "whenDeleted": when_deleted, "whenScaled": when_scaled } } });
    let answer = cluster.stage.patch("nodesets", NODESET, &policy).await;
    assert_eq!(answer.code, 200, "{answer:?}");
}

async fn pod(cluster: &Cluster<'_>, name: &str) -> Value {
    cluster.stage.get(&format!("/api/v1/namespaces/{}/pods/{name}", cluster.namespace)).await
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// Deletes a pod as a user does and waits until a new pod of that name exists.
async fn replace(cluster: &Cluster<'_>, name: &str) -> Value {
    let before = uid(&pod(cluster, name).await);
    cluster.stage.delete(&format!("/api/v1/namespaces/{}/pods/{name}", cluster.namespace), "Background").await;
    eventually(&format!("another pod `{name}`"), async || {
        let found = pod(cluster, name).await;
        if !uid(&found).is_empty() && uid(&found) != before { Ok(()) } else { Err(found["metadata"].to_string()) }
    })
    .await;
    pod(cluster, name).await
}

/// Deletes a claim as Kubernetes does if its owner is gone and no pod uses it.
async fn collect(cluster: &Cluster<'_>, name: &str) {
    cluster.stage.delete(&claim_path(cluster, name), "Background").await;
    cluster.stage.edit(&claim_path(cluster, name), &json!({ "metadata": { "finalizers": null } })).await;
}

async fn message(cluster: &Cluster<'_>) -> String {
    let ready = crate::stage::condition(&cluster.nodeset(NODESET).await, "Ready");
    ready["message"].as_str().unwrap_or_default().to_owned()
}

const NOBODY: [(&str, &str); 3] = [("scratch-worker-00", "-"), ("scratch-worker-01", "-"), ("scratch-worker-02", "-")];

/// Creates three workers with a claim each. The last claim was created by others before, without our labels. Scale-in deletes claims.
async fn three_with_scratch(cluster: &Cluster<'_>) {
    let theirs = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "scratch-worker-02" },
        "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "7Gi" } } },
    });
    assert_eq!(cluster.stage.put(&claim_path(cluster, "scratch-worker-02"), &theirs).await.code, 201);
    cluster.create_nodeset_with(NODESET, 3, &with_scratch(&json!({ "ordinalPadding": 2 }))).await;
    cluster.until_settled(NODESET, 3).await;
    retain(cluster, "Retain", "Delete").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_are_made_for_workers_and_follow_the_policy_as_it_changes() {
    let stage = Stage::new("claims").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    three_with_scratch(&cluster).await;
    assert_eq!(cluster.names(NODESET).await, ["worker-00", "worker-01", "worker-02"].map(str::to_owned).into());

    let made = claims(&cluster).await;
    assert_eq!(made.keys().collect::<Vec<_>>(), ["scratch-worker-00", "scratch-worker-01", "scratch-worker-02"]);
    assert_eq!(
        made["scratch-worker-00"]["metadata"]["labels"],
        json!({ "app.kubernetes.io/instance": NODESET, "app.kubernetes.io/name": "slurmd", "tier": "fast" })
    );
    assert_eq!(made["scratch-worker-02"]["spec"]["resources"]["requests"]["storage"], "7Gi");
    let volumes = pod(&cluster, "worker-02").await["spec"]["volumes"].clone();
    let scratch: Vec<&Value> = volumes.as_array().unwrap().iter().filter(|volume| volume["name"] == "scratch").collect();
    assert_eq!(scratch, [&json!({ "name": "scratch", "persistentVolumeClaim": { "claimName": "scratch-worker-02" } })]);

    // A claim that is not ours is left alone.
    retain(&cluster, "Delete", "Retain").await;
    until_owners(&cluster, &[("scratch-worker-00", "NodeSet worker"), ("scratch-worker-01", "NodeSet worker"), ("scratch-worker-02", "-")])
        .await;
    retain(&cluster, "Retain", "Delete").await;
    until_owners(&cluster, &NOBODY).await;
    drop(cluster);
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_a_cordon_nor_a_scale_in_that_is_taken_back_nor_a_deletion_gives_a_claim_away() {
    let stage = Stage::new("claims-stay").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    three_with_scratch(&cluster).await;
    let job = cluster.run_job(NODESET, &["worker-00", "worker-01", "worker-02"], 3600).await;
    let cordon = json!({ "metadata": { "annotations": { "nodeset.slinky.slurm.net/pod-cordon": "true" } } });
    assert_eq!(cluster.edit_pod("worker-00", &cordon).await.code, 200);
    cluster.scale(NODESET, 1).await;
    eventually("the scale-in to wait", async || {
        let message = message(&cluster).await;
        if message.contains("waits to delete pod") { Ok(()) } else { Err(message) }
    })
    .await;
    assert!(owners(&cluster).await.values().all(|owner| owner == "-"));
    cluster.scale(NODESET, 3).await;
    cluster.end_job(job);
    let uncordon = json!({ "metadata": { "annotations": { "nodeset.slinky.slurm.net/pod-cordon": null } } });
    assert_eq!(cluster.edit_pod("worker-00", &uncordon).await.code, 200);
    let before = uid(&claims(&cluster).await["scratch-worker-01"]);
    replace(&cluster, "worker-01").await;
    cluster.until_settled(NODESET, 3).await;
    assert_eq!(uid(&claims(&cluster).await["scratch-worker-01"]), before);
    until_owners(&cluster, &NOBODY).await;
    drop(cluster);
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_really_leaves_takes_its_claim_along_and_its_successor_waits_until_that_is_gone() {
    let stage = Stage::new("claims-leave").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    three_with_scratch(&cluster).await;
    until_owners(&cluster, &NOBODY).await;
    let before = uid(&claims(&cluster).await["scratch-worker-01"]);
    let leaver = uid(&pod(&cluster, "worker-01").await);
    let cheap = json!({ "metadata": { "annotations": { "nodeset.slinky.slurm.net/pod-deletion-cost": "-1" } } });
    assert_eq!(cluster.edit_pod("worker-01", &cheap).await.code, 200);
    cluster.scale(NODESET, 2).await;
    cluster.until_settled(NODESET, 2).await;
    until_owners(&cluster, &[("scratch-worker-00", "-"), ("scratch-worker-01", "Pod worker-01"), ("scratch-worker-02", "-")]).await;
    assert_eq!(claims(&cluster).await["scratch-worker-01"]["metadata"]["ownerReferences"][0]["uid"], leaver.as_str());

    cluster.scale(NODESET, 3).await;
    eventually("a sentence about the claim", async || {
        let message = message(&cluster).await;
        let expected = "pod `worker-01` waits until claim `scratch-worker-01`, which is being deleted, is gone";
        if message == expected { Ok(()) } else { Err(message) }
    })
    .await;
    collect(&cluster, "scratch-worker-01").await;
    cluster.until_settled(NODESET, 3).await;
    until_owners(&cluster, &NOBODY).await;
    assert_ne!(uid(&claims(&cluster).await["scratch-worker-01"]), before);
    drop(cluster);
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_no_watch_shows_is_found_to_be_going_when_it_is_needed() {
    let stage = Stage::new("claims-seen").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    three_with_scratch(&cluster).await;
    cluster.scale(NODESET, 2).await;
    cluster.until_settled(NODESET, 2).await;
    assert!(!cluster.names(NODESET).await.contains("worker-02"));
    stage.delete(&claim_path(&cluster, "scratch-worker-02"), "Background").await;
    cluster.scale(NODESET, 3).await;
    eventually("a sentence about somebody's claim", async || {
        let message = message(&cluster).await;
        if message.starts_with("pod `worker-02` waits until claim `scratch-worker-02`") { Ok(()) } else { Err(message) }
    })
    .await;
    assert!(!cluster.names(NODESET).await.contains("worker-02"));
    drop(cluster);
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_somebody_else_controls_is_left_to_them_and_said_once() {
    let stage = Stage::new("foreign").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    cluster.create_nodeset_with(NODESET, 1, &with_scratch(&json!({}))).await;
    cluster.until_settled(NODESET, 1).await;
    let owner = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "0", "controller": true }]);
    assert_eq!(stage.edit(&claim_path(&cluster, "scratch-worker-0"), &json!({ "metadata": { "ownerReferences": owner } })).await.code, 200);
    for policy in ["Delete", "Retain", "Delete"] {
        retain(&cluster, policy, policy).await;
        eventually("the policy to be seen", async || {
            let nodeset = cluster.nodeset(NODESET).await;
            let (seen, wanted) = (&nodeset["status"]["observedGeneration"], &nodeset["metadata"]["generation"]);
            if seen == wanted { Ok(()) } else { Err(format!("{seen} of {wanted}")) }
        })
        .await;
        assert_eq!(owners(&cluster).await["scratch-worker-0"], "ConfigMap theirs");
    }
    let said = async || {
        let events = stage.get(&format!("/apis/events.k8s.io/v1/namespaces/{}/events", cluster.namespace)).await;
        events["items"].as_array().unwrap().iter().filter(|event| event["reason"] == "ConflictingController").cloned().collect::<Vec<_>>()
    };
    eventually("an event", async || if said().await.is_empty() { Err("none".to_owned()) } else { Ok(()) }).await;
    let events = said().await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0]["note"].as_str().unwrap().starts_with("claim `scratch-worker-0` is controlled by ConfigMap `theirs`"), "{events:?}");
    drop(cluster);
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_about_claims_at_rest() {
    let stage = Stage::new("claims-rest").await;
    let cluster = Cluster::start(&stage).await;
    let running = operator(&stage);
    let policy = json!({ "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Delete" }, "pinToNode": true });
    cluster.create_nodeset_with(NODESET, 3, &with_scratch(&policy)).await;
    cluster.until_settled(NODESET, 3).await;
    eventually("all pins", async || {
        let status = cluster.nodeset(NODESET).await["status"].clone();
        let is_done = status["ordinalToNode"].as_object().is_some_and(|pins| pins.len() == 3) && status["availableReplicas"] == 3;
        if is_done { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    let about_claims = || cluster.writes().into_iter().filter(|write| write.resource == "persistentvolumeclaims").collect::<Vec<_>>();
    assert!(about_claims().iter().all(|write| write.verb == "create"), "{:?}", about_claims());
    assert_eq!(about_claims().len(), 3);

    // A new process reconciles everything again. The annotation triggers a reconcile; observedGeneration of the spec change shows that it happened.
    drop(running);
    let before = cluster.writes().len();
    let _operator = operator(&stage);
    cluster.stage.patch("nodesets", NODESET, &json!({ "metadata": { "annotations": { "touched": "yes" } } })).await;
    cluster.stage.patch("nodesets", NODESET, &json!({ "spec": { "minReadySeconds": 1 } })).await;
    eventually("another look", async || {
        let nodeset = cluster.nodeset(NODESET).await;
        if nodeset["status"]["observedGeneration"] == nodeset["metadata"]["generation"] { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    let writes: Vec<_> = cluster.writes().split_off(before).into_iter().filter(|write| write.resource != "events").collect();
    assert!(writes.iter().all(|write| write.resource == "nodesets" && write.subresource == "status"), "{writes:?}");
    drop(cluster);
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_a_node_set_left_behind_are_taken_over_as_they_are() {
    let stage = Stage::new("orphans").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    cluster.create_nodeset_with(NODESET, 2, &with_scratch(&json!({}))).await;
    cluster.until_settled(NODESET, 2).await;
    let job = cluster.run_job(NODESET, &["worker-0", "worker-1"], 3600).await;
    let before: BTreeMap<String, String> =
        cluster.pods(NODESET).await.iter().map(|pod| (pod["metadata"]["name"].to_string(), uid(pod))).collect();
    let old = uid(&cluster.nodeset(NODESET).await);

    // As `kubectl delete --cascade=orphan` and the garbage collector do: remove the owner reference from the pods, then delete the NodeSet.
    let path = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/nodesets/{NODESET}", stage.namespace);
    stage.delete(&path, "Orphan").await;
    for name in ["worker-0", "worker-1"] {
        assert_eq!(cluster.edit_pod(name, &json!({ "metadata": { "ownerReferences": null } })).await.code, 200);
    }
    let owner = |pod: &Value| pod["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default().to_owned();
    assert!(cluster.pods(NODESET).await.iter().all(|pod| owner(pod).is_empty()), "a NodeSet that is being deleted adopts nothing");
    stage.edit(&path, &json!({ "metadata": { "finalizers": null } })).await;
    eventually("the NodeSet to go", async || {
        let found = cluster.nodeset(NODESET).await;
        if found["code"] == 404 { Ok(()) } else { Err(found["metadata"].to_string()) }
    })
    .await;
    // A pod of another cluster, whose jobs our Slurm does not know. It has the name of a future worker.
    let mut strange = pod(&cluster, "worker-1").await;
    strange["metadata"] = json!({ "name": "worker-2", "labels": strange["metadata"]["labels"] });
    strange["metadata"]["labels"]["slinky.slurm.net/cluster"] = "other".into();
    strange["spec"] = json!({ "containers": [{ "name": "slurmd", "image": "slurmd" }] });
    strange["status"] = Value::Null;
    let made = stage.put(&format!("/api/v1/namespaces/{}/pods/worker-2", cluster.namespace), &strange).await;
    assert_eq!(made.code, 201, "{made:?}");

    // The same NodeSet again, with another template.
    cluster.create_nodeset_with(NODESET, 3, &with_scratch(&json!({ "slurmd": { "image": "newer" } }))).await;
    let new = uid(&cluster.nodeset(NODESET).await);
    assert_ne!(old, new);
    eventually("the pods to be adopted", async || {
        let pods = cluster.pods(NODESET).await;
        let adopted = pods.iter().filter(|pod| owner(pod) == new).count();
        if adopted == 2 { Ok(()) } else { Err(format!("{adopted} of {}", pods.len())) }
    })
    .await;
    eventually("a word about the strange one", async || {
        let message = message(&cluster).await;
        if message.contains("pod `worker-2` has the name of a worker, and belongs to the cluster of Controller `other`") {
            Ok(())
        } else {
            Err(message)
        }
    })
    .await;
    let after: BTreeMap<String, String> =
        cluster.pods(NODESET).await.iter().map(|pod| (pod["metadata"]["name"].to_string(), uid(pod))).collect();
    assert!(before.iter().all(|(name, uid)| after.get(name) == Some(uid)), "{before:?} {after:?}");
    assert!(cluster.are_running(&[job]));
    assert_eq!(cluster.deletions(), [""; 0]);
    assert_eq!(owner(&pod(&cluster, "worker-2").await), "");
    assert_eq!(pod(&cluster, "worker-0").await["metadata"]["labels"]["slinky.slurm.net/cluster"], CONTROLLER);
    drop(cluster);
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_comes_back_on_its_node_while_that_takes_it() {
    let stage = Stage::new("pins").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    cluster.create_nodeset_with(NODESET, 2, &json!({ "pinToNode": true })).await;
    cluster.until_settled(NODESET, 2).await;
    let pins = async || cluster.nodeset(NODESET).await["status"]["ordinalToNode"].clone();
    eventually("the pins", async || {
        if pins().await.as_object().is_some_and(|pins| pins.len() == 2) { Ok(()) } else { Err(pins().await.to_string()) }
    })
    .await;
    let home = pod(&cluster, "worker-0").await["spec"]["nodeName"].as_str().unwrap().to_owned();
    assert_eq!(pins().await["0"], home.as_str());

    let wanted = |pod: &Value| pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].clone();
    let back = replace(&cluster, "worker-0").await;
    let to_home = json!({ "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [home] }] }] });
    assert_eq!(wanted(&back), to_home);

    // A worker does not wait for a node that accepts no pods. A pin is dropped if its node is deleted. Pods not bound to a node by name get hosts
    // in turn.
    let taint = json!({ "spec": { "taints": [{ "key": "full", "effect": "NoSchedule" }] } });
    assert_eq!(stage.edit(&format!("/api/v1/nodes/{home}"), &taint).await.code, 200);
    assert_ne!(wanted(&replace(&cluster, "worker-0").await), to_home);
    cluster.until_settled(NODESET, 2).await;
    let other = pins().await["1"].as_str().unwrap().to_owned();
    stage.delete(&format!("/api/v1/nodes/{other}"), "Background").await;
    eventually("the pin to go", async || if pins().await["1"].is_null() { Ok(()) } else { Err(pins().await.to_string()) }).await;
    cluster.stage.patch("nodesets", NODESET, &json!({ "spec": { "pinToNode": false } })).await;
    eventually("no pins", async || if pins().await.is_null() { Ok(()) } else { Err(pins().await.to_string()) }).await;
    drop(cluster);
    stage.end();
}
