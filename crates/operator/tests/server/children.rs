//! Children of Controllers and RestApis, on a real API server: created, restored when edited or deleted, and otherwise left alone.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::stage::{Stage, condition, controller, eventually};

/// A child: its resource with group, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Child(&'static str, &'static str);

const SERVICES: &str = "api/v1/services";
const CONFIG_MAPS: &str = "api/v1/configmaps";
const STATEFUL_SETS: &str = "apis/apps/v1/statefulsets";
const DEPLOYMENTS: &str = "apis/apps/v1/deployments";

/// Children of a single slurmctld, of one with in-place reconfigure, of several slurmctlds, of an external one, and of slurmrestd.
const CHILDREN: [Child; 17] = [
    Child(SERVICES, "single-controller"),
    Child(SERVICES, "single-controller-internal"),
    Child(CONFIG_MAPS, "single-config"),
    Child(STATEFUL_SETS, "single-controller"),
    Child(SERVICES, "inplace-controller"),
    Child(SERVICES, "inplace-controller-internal"),
    Child(CONFIG_MAPS, "inplace-config"),
    Child(STATEFUL_SETS, "inplace-controller"),
    Child(SERVICES, "several-controller"),
    Child(SERVICES, "several-controller-internal"),
    Child(SERVICES, "several-controller-0"),
    Child(SERVICES, "several-controller-1"),
    Child(CONFIG_MAPS, "several-config"),
    Child(STATEFUL_SETS, "several-controller"),
    Child(CONFIG_MAPS, "outside-config"),
    Child(SERVICES, "single-restapi"),
    Child(DEPLOYMENTS, "single-restapi"),
];

impl Child {
    fn path(self, stage: &Stage) -> String {
        let (group, plural) = self.0.rsplit_once('/').unwrap();
        format!("/{group}/namespaces/{}/{plural}/{}", stage.namespace, self.1)
    }

    /// A write of this child as [`Stage::writes`] formats it.
    fn write(self) -> String {
        format!("\"patch\" \"{}\" \"{}\"", self.0.rsplit('/').next().unwrap(), self.1)
    }

    async fn live(self, stage: &Stage) -> Value {
        stage.get(&self.path(stage)).await
    }

    /// Edits of fields we own, with the number of writes that undo each.
    fn edits(self) -> Vec<(Value, usize)> {
        let mut edits = vec![
            (json!({ "metadata": { "annotations": null } }), 1),
            (json!({ "metadata": { "ownerReferences": null } }), 1),
            // Without this label the operator's watch does not see the object.
            (json!({ "metadata": { "labels": { "app.kubernetes.io/name": "other" } } }), 1),
        ];
        let (daemon, port) = if self.1.ends_with("restapi") { ("slurmrestd", 6820) } else { ("slurmctld", 6817) };
        let content = match self.0 {
            SERVICES => [
                (json!({ "spec": { "ports": [{ "name": daemon, "port": port, "targetPort": 1 }] } }), 1),
                (json!({ "spec": { "selector": { "app.kubernetes.io/instance": "other" } } }), 1),
            ],
            // The second edit adds files that were not checked: one write removes them, one applies the rest.
            CONFIG_MAPS => [
                (json!({ "data": { "slurm.conf": "# mine\n" } }), 1),
                (json!({ "data": { "gres.conf": "NodeName=mine\n" }, "binaryData": { "oci.conf": "AA==" } }), 2),
            ],
            _ => [
                (json!({ "spec": { "replicas": 7 } }), 1),
                (json!({ "spec": { "template": { "spec": { "containers": [{ "name": daemon, "image": "other" }] } } } }), 1),
            ],
        };
        edits.extend(content);
        edits
    }

    /// Fields that others may add and that stay. On a pod template: the annotation set by `kubectl rollout restart`.
    fn additions(self) -> Value {
        let mut patch = json!({ "metadata": { "labels": { "example.org/seen": "yes" }, "annotations": { "example.org/seen": "yes" } } });
        if [STATEFUL_SETS, DEPLOYMENTS].contains(&self.0) {
            patch["spec"]["template"]["metadata"]["annotations"] = json!({ "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z" });
        }
        patch
    }
}

/// The object without status and without metadata set by the API server.
fn essence(object: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().remove("status");
    for counted in ["resourceVersion", "generation", "managedFields", "creationTimestamp", "uid"] {
        object["metadata"].as_object_mut().unwrap().remove(counted);
    }
    object
}

/// Waits until all `children` exist and returns them.
async fn until_all_made(stage: &Stage, children: &[Child]) -> Vec<Value> {
    let made = children.iter().map(async |child| {
        eventually(&format!("{child:?}"), async || {
            let live = child.live(stage).await;
            if live["metadata"]["uid"].is_string() { Ok(live) } else { Err(live["message"].to_string()) }
        })
        .await
    });
    join_all(made).await
}

/// Number of writes since `before`, by verb, resource and name.
fn written(stage: &Stage, before: usize) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for write in stage.writes().split_off(before) {
        // Status writes and events about the owners are not changes of children.
        if !["\"controllers\"", "\"restapis\"", "\"events\""].iter().any(|words| write.contains(words)) {
            *count.entry(write).or_default() += 1;
        }
    }
    count
}

async fn create_secret_and_claim(stage: &Stage) {
    stage.kubectl(&["create", "secret", "generic", "keys", "--from-literal=key=0123456789abcdef", "--namespace", &stage.namespace]);
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "state" },
        "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let answer = stage.put(&format!("/api/v1/namespaces/{}/persistentvolumeclaims/state", stage.namespace), &claim).await;
    assert_eq!(answer.code, 201, "{answer:?}");
}

fn several() -> Value {
    let shared = json!({ "existingClaim": "state" });
    controller("several", &json!({ "slurmctld": { "image": "slurmctld" }, "ha": { "enabled": true }, "persistence": shared }))
}

fn restapi(name: &str, controller: &str) -> Value {
    json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "RestApi", "metadata": { "name": name },
        "spec": { "controllerRef": { "name": controller }, "slurmrestd": { "image": "slurmrestd" } },
    })
}

async fn create_one_of_each(stage: &Stage) {
    create_secret_and_claim(stage).await;
    let image = json!({ "image": "slurmctld" });
    let elsewhere = json!({ "host": "ctl.example.com", "port": 6817 });
    // Not in canonical form: the API server stores the same quantity in another notation.
    let claim = json!({ "resources": { "requests": { "storage": "1024Mi" } } });
    for (plural, object) in [
        ("controllers", controller("single", &json!({ "slurmctld": image, "persistence": claim }))),
        ("controllers", controller("inplace", &json!({ "slurmctld": image, "inplaceReconfigure": true }))),
        ("controllers", several()),
        ("controllers", controller("outside", &json!({ "external": true, "externalConfig": elsewhere }))),
        ("restapis", restapi("single", "single")),
    ] {
        let answer = stage.create(plural, &object).await;
        assert_eq!(answer.code, 201, "{answer:?}");
    }
}

/// Names of objects that are created to see that all others were reconciled.
const LOOKERS: [&str; 3] = ["first", "second", "third"];

/// Waits until all existing objects are reconciled: that is the case once the children of `name`, created now, exist. Returns the writes for
/// others.
async fn until_written_for_others(stage: &Stage, name: &'static str, before: usize) -> Vec<String> {
    assert_eq!(stage.create("controllers", &controller(name, &json!({ "slurmctld": { "image": "slurmctld" } }))).await.code, 201);
    assert_eq!(stage.create("restapis", &restapi(name, name)).await.code, 201);
    eventually(&format!("the Deployment of {name}"), async || {
        let made = stage.get(&format!("/apis/apps/v1/namespaces/{}/deployments/{name}-restapi", stage.namespace)).await;
        if made["metadata"]["uid"].is_string() { Ok(()) } else { Err(made["message"].to_string()) }
    })
    .await;
    // The marker objects themselves may be written for a while longer.
    let is_for_others = |write: &String| !LOOKERS.iter().any(|looker| write.contains(looker));
    stage.writes().split_off(before).into_iter().filter(is_for_others).collect()
}

#[tokio::test]
async fn every_child_is_made_put_back_when_edited_or_deleted_and_otherwise_left_alone() {
    let stage = Stage::new("children").await;
    let operator = stage.operator("slipway", &[]);
    create_one_of_each(&stage).await;
    let made = until_all_made(&stage, &CHILDREN).await;

    for round in 0..5 {
        let before = stage.writes().len();
        let edits: Vec<_> = CHILDREN.iter().map(|child| child.edits().swap_remove(round)).collect();
        for (child, (edit, _)) in CHILDREN.iter().zip(&edits) {
            let answer = stage.edit(&child.path(&stage), edit).await;
            assert_eq!(answer.code, 200, "{child:?}: {answer:?}");
        }
        for ((child, made), (edit, _)) in CHILDREN.iter().zip(&made).zip(&edits) {
            eventually(&format!("{child:?} to be put back after {edit}"), async || {
                let live = child.live(&stage).await;
                if essence(&live) == essence(made) { Ok(()) } else { Err(live.to_string()) }
            })
            .await;
        }
        let expected: BTreeMap<_, _> = CHILDREN.iter().zip(&edits).map(|(child, (_, writes))| (child.write(), *writes)).collect();
        assert_eq!(written(&stage, before), expected, "{edits:?}");
    }

    let before = stage.writes().len();
    for child in CHILDREN {
        assert_eq!(stage.delete(&child.path(&stage), "Background").await.code, 200);
    }
    let again = until_all_made(&stage, &CHILDREN).await;
    for ((child, made), again) in CHILDREN.iter().zip(&made).zip(&again) {
        assert_ne!(made["metadata"]["uid"], again["metadata"]["uid"], "{child:?}");
        if child.0 != SERVICES {
            assert_eq!(essence(made), essence(again), "{child:?}");
        }
    }
    assert_eq!(written(&stage, before), CHILDREN.iter().map(|child| (child.write(), 1)).collect());
    // Once another reconcile has nothing to do, all status updates have been written.
    until_written_for_others(&stage, "first", 0).await;

    let before = stage.writes().len();
    let mut versions = Vec::new();
    for child in CHILDREN {
        let answer = stage.edit(&child.path(&stage), &child.additions()).await;
        assert_eq!(answer.code, 200, "{answer:?}");
        versions.push(answer.body["metadata"]["resourceVersion"].clone());
    }
    assert_eq!(until_written_for_others(&stage, "second", before).await, Vec::<String>::new(), "what others add is theirs");

    // A new process without cached state, and updates without effect.
    drop(operator);
    let before = stage.writes().len();
    let _operator = stage.operator("slipway", &[]);
    for (plural, name) in [("controllers", "single"), ("controllers", "several"), ("restapis", "single")] {
        let patch = json!({ "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" } } });
        assert_eq!(stage.patch(plural, name, &patch).await.code, 200);
    }
    assert_eq!(until_written_for_others(&stage, "third", before).await, Vec::<String>::new(), "nothing changed");
    for (child, version) in CHILDREN.iter().zip(versions) {
        assert_eq!(child.live(&stage).await["metadata"]["resourceVersion"], version, "{child:?}");
    }
    stage.end();
}

/// Runs client-side `kubectl apply`, without `--server-side`.
fn apply_client_side(stage: &Stage, object: &Value) -> String {
    stage.bed.kubectl().args(["apply", "--filename=-", "--namespace", &stage.namespace]).feed(&object.to_string()).unwrap()
}

/// Acts as the garbage collector, which does not run here: removes owner references or deletes the children, then removes the owner's finalizers.
async fn collect(stage: &Stage, children: &[Child], policy: &str) {
    for child in children {
        let code = match policy {
            "Orphan" => stage.edit(&child.path(stage), &json!({ "metadata": { "ownerReferences": null } })).await.code,
            _ => stage.delete(&child.path(stage), "Background").await.code,
        };
        assert_eq!(code, 200);
    }
    assert_eq!(stage.patch("controllers", "several", &json!({ "metadata": { "finalizers": null } })).await.code, 200);
}

/// Waits until the operator has seen all earlier changes of Controllers: it reports on one more, which is created after them.
async fn until_all_seen(stage: &Stage, marker: &str) {
    let missing = json!({ "name": "missing", "key": "key" });
    assert_eq!(stage.create("controllers", &controller(marker, &json!({ "slurmKeyRef": missing }))).await.code, 201);
    eventually(&format!("a look at {marker}"), async || {
        let ready = condition(&stage.object("controllers", marker).await, "Ready");
        if ready["reason"] == "SecretMissing" { Ok(()) } else { Err(ready.to_string()) }
    })
    .await;
}

/// Waits until all children exist and have this owner alone.
async fn until_taken_over(stage: &Stage, children: &[Child], uid: &Value) -> Vec<Value> {
    let taken = children.iter().map(async |child| {
        eventually(&format!("{child:?} to belong to {uid}"), async || {
            let live = child.live(stage).await;
            let owners = live["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            if owners.len() == 1 && owners[0]["uid"] == *uid { Ok(live) } else { Err(json!(owners).to_string()) }
        })
        .await
    });
    join_all(taken).await
}

#[tokio::test]
async fn children_outlive_an_orphaning_deletion_go_with_any_other_and_come_back_under_the_same_name() {
    let stage = Stage::new("lives").await;
    let _operator = stage.operator("slipway", &[]);
    create_secret_and_claim(&stage).await;
    let children: Vec<_> = CHILDREN.into_iter().filter(|child| child.1.starts_with("several")).collect();
    assert_eq!(stage.create("controllers", &several()).await.code, 201);
    until_all_made(&stage, &children).await;
    let path = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/controllers/several", stage.namespace);

    for (policy, marker) in [("Orphan", "a-done"), ("Foreground", "b-done")] {
        let made = until_all_made(&stage, &children).await;
        let before = stage.writes().len();
        assert_eq!(stage.delete(&path, policy).await.code, 200, "{policy}");
        // Immediately: the operator may see the changes of the children before that of their Controller.
        collect(&stage, &children, policy).await;
        until_all_seen(&stage, marker).await;
        let again = stage.create("controllers", &several()).await;
        assert_eq!(again.code, 201, "{again:?}");
        let taken = until_taken_over(&stage, &children, &again.body["metadata"]["uid"]).await;
        for ((child, made), taken) in children.iter().zip(&made).zip(&taken) {
            assert_eq!(made["metadata"]["uid"] == taken["metadata"]["uid"], policy == "Orphan", "{child:?} after {policy}");
            assert_eq!(
                (&made["spec"]["template"], &made["data"]),
                (&taken["spec"]["template"], &taken["data"]),
                "{child:?} after {policy}"
            );
        }
        let mut written = written(&stage, before);
        written.retain(|write, _| !write.contains(marker));
        assert_eq!(written, children.iter().map(|child| (child.write(), 1)).collect(), "nothing is done before the second life");
    }

    // A Controller deleted before its children are garbage-collected: they name an owner that no longer exists.
    let made = until_all_made(&stage, &children).await;
    assert_eq!(stage.delete(&path, "Background").await.code, 200);
    let again = stage.create("controllers", &several()).await;
    let taken = until_taken_over(&stage, &children, &again.body["metadata"]["uid"]).await;
    for ((child, made), taken) in children.iter().zip(&made).zip(&taken) {
        assert_eq!(made["metadata"]["uid"], taken["metadata"]["uid"], "{child:?}");
        assert_eq!(made["metadata"]["generation"], taken["metadata"]["generation"], "{child:?}: no pod is replaced");
    }

    // One slurmctld instead of several: only the Services of single pods are deleted.
    assert_eq!(stage.patch("controllers", "several", &json!({ "spec": { "ha": { "enabled": false } } })).await.code, 200);
    for child in &children {
        let is_of_a_pod = ["several-controller-0", "several-controller-1"].contains(&child.1);
        eventually(&format!("{child:?} to {}", if is_of_a_pod { "go" } else { "stay" }), async || {
            let live = child.live(&stage).await;
            if live["metadata"]["uid"].is_null() == is_of_a_pod { Ok(()) } else { Err(live.to_string()) }
        })
        .await;
    }
    eventually("one slurmctld", async || {
        let live = Child(STATEFUL_SETS, "several-controller").live(&stage).await;
        if live["spec"]["replicas"] == 1 { Ok(()) } else { Err(live["spec"]["replicas"].to_string()) }
    })
    .await;
    stage.end();
}

#[tokio::test]
async fn what_kubectl_apply_leaves_on_a_resource_never_gets_to_its_children() {
    let stage = Stage::new("applied").await;
    let _operator = stage.operator("slipway", &[]);
    create_secret_and_claim(&stage).await;
    let children: Vec<_> = CHILDREN.into_iter().filter(|child| child.1.starts_with("single")).collect();
    let mut single = controller("single", &json!({ "slurmctld": { "image": "slurmctld" } }));
    let mut api = restapi("single", "single");
    for object in [&single, &api] {
        apply_client_side(&stage, object);
    }
    let made = until_all_made(&stage, &children).await;

    // The same manifest again, then a change that pods do not depend on; `kubectl` rewrites its copy of the manifest.
    for object in [&single, &api] {
        assert!(apply_client_side(&stage, object).contains("unchanged"));
    }
    single["spec"]["service"] = json!({ "metadata": { "annotations": { "example.org/pool": "a" } } });
    api["spec"]["replicas"] = 2.into();
    for object in [&single, &api] {
        assert!(apply_client_side(&stage, object).contains("configured"));
    }
    eventually("both changes to take effect", async || {
        let service = Child(SERVICES, "single-controller").live(&stage).await["metadata"]["annotations"]["example.org/pool"].clone();
        let replicas = Child(DEPLOYMENTS, "single-restapi").live(&stage).await["spec"]["replicas"].clone();
        if (&service, &replicas) == (&json!("a"), &json!(2)) { Ok(()) } else { Err(format!("{service} {replicas}")) }
    })
    .await;
    for (child, made) in children.iter().zip(&made) {
        let live = child.live(&stage).await;
        assert_eq!(live["spec"]["template"], made["spec"]["template"], "{child:?}: pods are replaced for nothing");
        assert!(!live.to_string().contains("last-applied-configuration"), "{live}");
    }

    // The user's own annotation is inherited, as before; that of `kubectl` is not.
    single["metadata"]["annotations"] = json!({ "example.org/owner": "physics" });
    apply_client_side(&stage, &single);
    let workload = Child(STATEFUL_SETS, "single-controller");
    let live = eventually("the annotation on the pods", async || {
        let live = workload.live(&stage).await;
        let found = live["spec"]["template"]["metadata"]["annotations"]["example.org/owner"].clone();
        if found == "physics" { Ok(live) } else { Err(found.to_string()) }
    })
    .await;
    let mut expected = made[3]["spec"]["template"].clone();
    expected["metadata"]["annotations"]["example.org/owner"] = "physics".into();
    assert_eq!(live["spec"]["template"], expected);
    stage.end();
}
