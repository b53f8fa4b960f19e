//! What is made for Controllers and RestApis, on a real API server: made, put back when edited or deleted, and otherwise left alone.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod stage;

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::stage::{NAMESPACE, Stage, controller, eventually};

/// A child: its resource with group, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Child(&'static str, &'static str);

const SERVICES: &str = "api/v1/services";
const CONFIG_MAPS: &str = "api/v1/configmaps";
const STATEFUL_SETS: &str = "apis/apps/v1/statefulsets";
const DEPLOYMENTS: &str = "apis/apps/v1/deployments";

/// What one slurmctld has, what each of several has beside, what one outside has, and what slurmrestd has.
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
    fn path(self) -> String {
        let (group, plural) = self.0.rsplit_once('/').unwrap();
        format!("/{group}/namespaces/{NAMESPACE}/{plural}/{}", self.1)
    }

    /// As the audit log names writes of it.
    fn write(self) -> String {
        format!("\"patch\" \"{}\" \"{}\"", self.0.rsplit('/').next().unwrap(), self.1)
    }

    async fn live(self, stage: &Stage) -> Value {
        stage.get(&self.path()).await
    }

    /// Edits of what is ours, and how many writes each costs to be undone.
    fn edits(self) -> Vec<(Value, usize)> {
        let mut edits = vec![
            (json!({ "metadata": { "annotations": null } }), 1),
            (json!({ "metadata": { "ownerReferences": null } }), 1),
            (json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "others" } } }), 1),
        ];
        let content = match self.0 {
            SERVICES => [
                (json!({ "spec": { "ports": [{ "name": "other", "port": 1 }] } }), 1),
                (json!({ "spec": { "selector": { "app.kubernetes.io/instance": "other" } } }), 1),
            ],
            // A file that nobody checked: it goes, and then the rest is as it was.
            CONFIG_MAPS => [
                (json!({ "data": { "slurm.conf": "# mine\n" } }), 1),
                (json!({ "data": { "gres.conf": "NodeName=mine\n" }, "binaryData": { "oci.conf": "AA==" } }), 2),
            ],
            _ => [
                (json!({ "spec": { "replicas": 7 } }), 1),
                (json!({ "spec": { "template": { "spec": { "containers": [{ "name": "other", "image": "other" }] } } } }), 1),
            ],
        };
        edits.extend(content);
        edits
    }

    /// What a stranger may add: it stays. On a pod template it is what `kubectl rollout restart` leaves there.
    fn additions(self) -> Value {
        let mut patch = json!({ "metadata": { "labels": { "example.org/seen": "yes" }, "annotations": { "example.org/seen": "yes" } } });
        if [STATEFUL_SETS, DEPLOYMENTS].contains(&self.0) {
            patch["spec"]["template"]["metadata"]["annotations"] = json!({ "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z" });
        }
        patch
    }
}

/// What was decided about an object.
fn essence(object: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().remove("status");
    for counted in ["resourceVersion", "generation", "managedFields", "creationTimestamp", "uid"] {
        object["metadata"].as_object_mut().unwrap().remove(counted);
    }
    object
}

/// Waits until every one of `children` exists.
async fn all_made(stage: &Stage, children: &[Child]) -> Vec<Value> {
    let made = children.iter().map(async |child| {
        eventually(&format!("{child:?}"), async || {
            let live = child.live(stage).await;
            if live["metadata"]["uid"].is_string() { Ok(live) } else { Err(live["message"].to_string()) }
        })
        .await
    });
    join_all(made).await
}

/// How often each child was written since `before`; nothing else was done to anything.
fn written(stage: &Stage, before: usize) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for write in stage.writes().split_off(before) {
        // What is said about the objects in between is not a change of theirs.
        if !["\"controllers\"", "\"restapis\"", "\"events\""].iter().any(|words| write.contains(words)) {
            *count.entry(write).or_default() += 1;
        }
    }
    count
}

async fn create_secret_and_claim(stage: &Stage) {
    stage.kubectl(&["create", "secret", "generic", "keys", "--from-literal=key=0123456789abcdef", "--namespace", NAMESPACE]);
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "state" },
        "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let answer = stage.put(&format!("/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/state"), &claim).await;
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
    // As `kubectl` would not write them: the server stores other words for the same.
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

/// A pass over everything that is there: objects made now have had theirs when those of `name` are made. Returns what was written for others.
async fn written_for_others(stage: &Stage, name: &'static str, before: usize) -> Vec<String> {
    assert_eq!(stage.create("controllers", &controller(name, &json!({ "slurmctld": { "image": "slurmctld" } }))).await.code, 201);
    assert_eq!(stage.create("restapis", &restapi(name, name)).await.code, 201);
    eventually(&format!("the Deployment of {name}"), async || {
        let made = stage.get(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}-restapi")).await;
        if made["metadata"]["uid"].is_string() { Ok(()) } else { Err(made["message"].to_string()) }
    })
    .await;
    stage.writes().split_off(before).into_iter().filter(|write| !write.contains(name)).collect()
}

#[tokio::test]
async fn every_child_is_made_put_back_when_edited_or_deleted_and_otherwise_left_alone() {
    let stage = Stage::new("children").await;
    let operator = stage.operator("slipway", &[]);
    create_one_of_each(&stage).await;
    let made = all_made(&stage, &CHILDREN).await;

    for round in 0..5 {
        let before = stage.writes().len();
        let edits: Vec<_> = CHILDREN.iter().map(|child| child.edits().swap_remove(round)).collect();
        for (child, (edit, _)) in CHILDREN.iter().zip(&edits) {
            let answer = stage.edit(&child.path(), edit).await;
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
        assert_eq!(stage.delete(&child.path(), "Background").await.code, 200);
    }
    let again = all_made(&stage, &CHILDREN).await;
    for ((child, made), again) in CHILDREN.iter().zip(&made).zip(&again) {
        assert_ne!(made["metadata"]["uid"], again["metadata"]["uid"], "{child:?}");
        if child.0 != SERVICES {
            assert_eq!(essence(made), essence(again), "{child:?}");
        }
    }
    assert_eq!(written(&stage, before), CHILDREN.iter().map(|child| (child.write(), 1)).collect());
    // What is said about all of it has been said when a second look finds nothing to do.
    written_for_others(&stage, "first", 0).await;

    let before = stage.writes().len();
    let mut versions = Vec::new();
    for child in CHILDREN {
        let answer = stage.edit(&child.path(), &child.additions()).await;
        assert_eq!(answer.code, 200, "{answer:?}");
        versions.push(answer.body["metadata"]["resourceVersion"].clone());
    }
    assert_eq!(written_for_others(&stage, "second", before).await, Vec::<String>::new(), "what others add is theirs");

    // A new process, which remembers nothing, and events that mean nothing.
    drop(operator);
    let before = stage.writes().len();
    let _operator = stage.operator("slipway", &[]);
    for (plural, name) in [("controllers", "single"), ("controllers", "several"), ("restapis", "single")] {
        let patch = json!({ "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" } } });
        assert_eq!(stage.patch(plural, name, &patch).await.code, 200);
    }
    assert_eq!(written_for_others(&stage, "third", before).await, Vec::<String>::new(), "nothing changed");
    for (child, version) in CHILDREN.iter().zip(versions) {
        assert_eq!(child.live(&stage).await["metadata"]["resourceVersion"], version, "{child:?}");
    }
    stage.end();
}
