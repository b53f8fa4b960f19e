//! Objects that this release does not serve report it, and nothing is created for what runs elsewhere: on a real API server.

use serde_json::{Value, json};

use crate::stage::{Stage, controller, eventually};

#[tokio::test]
async fn what_runs_outside_is_ready_and_nothing_is_made_for_it() {
    let stage = Stage::new("unserved").await;
    let _operator = stage.operator("slipway", &[]);
    stage.kubectl(&["create", "secret", "generic", "keys", "--from-literal=key=0123456789abcdef", "--namespace", &stage.namespace]);
    for (plural, object) in [
        (
            "accountings",
            json!({
                "apiVersion": "slinky.slurm.net/v1beta1", "kind": "Accounting", "metadata": { "name": "elsewhere" },
                "spec": { "external": true, "externalConfig": { "host": "dbd.example.com", "port": 6819 } },
            }),
        ),
        ("controllers", controller("plain", &json!({ "slurmctld": { "image": "slurmctld" } }))),
    ] {
        let answer = stage.create(plural, &object).await;
        assert_eq!(answer.code, 201, "{answer:?}");
    }
    for (plural, name, expected) in [("accountings", "elsewhere", ("True", "AllReady", "outside this Kubernetes"))] {
        eventually(&format!("{plural}/{name}"), async || {
            let object = stage.object(plural, name).await;
            let ready = crate::stage::condition(&object, "Ready");
            let is_said = ready["status"] == expected.0 && ready["reason"] == expected.1;
            if is_said && ready["message"].as_str().unwrap_or_default().contains(expected.2) {
                Ok(())
            } else {
                Err(object["status"].to_string())
            }
        })
        .await;
    }
    // The plain Controller has its children, so those of the others would exist by now, too.
    eventually("the plain Controller's StatefulSet", async || {
        let made = stage.kubectl(&["get", "statefulsets", "--output=name", "--namespace", &stage.namespace]);
        if made.contains("plain-controller") { Ok(()) } else { Err(made) }
    })
    .await;
    let kinds = "statefulsets,services,configmaps,pods,poddisruptionbudgets";
    let made = stage.kubectl(&["get", kinds, "--output=name", "--namespace", &stage.namespace]);
    assert!(!["elsewhere", "workers"].iter().any(|name| made.contains(name)), "{made}");
    stage.end();
}

/// Kinds that are stored but not served: kind, plural, spec.
fn unserved_kinds() -> [(&'static str, &'static str, Value); 3] {
    let key = json!({ "name": "keys", "key": "key" });
    [
        (
            "Accounting",
            "accountings",
            json!({ "slurmKeyRef": key, "jwtHs256KeyRef": key, "storageConfig": { "host": "db", "passwordKeyRef": key } }),
        ),
        ("LoginSet", "loginsets", json!({ "controllerRef": { "name": "slurm" }, "sssdConfRef": key, "login": { "imgae": "x" } })),
        ("Token", "tokens", json!({ "jwtHs256KeyRef": key, "username": "alice" })),
    ]
}

/// Creates one object of each kind and waits until each reports that it is not served.
async fn create_all(stage: &Stage, name: &str) {
    for (kind, plural, spec) in unserved_kinds() {
        let object = json!({ "apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": { "name": name }, "spec": spec });
        let answer = stage.create(plural, &object).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        eventually("Ready", async || {
            let object = stage.object(plural, name).await;
            let ready = crate::stage::condition(&object, "Ready");
            if ready["reason"] == "NotServed" { Ok(()) } else { Err(object["status"].to_string()) }
        })
        .await;
    }
}

#[tokio::test]
async fn objects_of_a_kind_that_is_not_served_say_so_once_and_nothing_else_happens() {
    let stage = Stage::new("kinds").await;
    let operator = stage.operator("slipway", &[]);
    create_all(&stage, "first").await;
    for (kind, plural, doubt) in [
        ("Accounting", "accountings", "spec.jwtHs256KeyRef is deprecated"),
        ("LoginSet", "loginsets", "spec.login.imgae"),
        ("Token", "tokens", "spec.jwtHs256KeyRef is deprecated"),
    ] {
        let object = stage.object(plural, "first").await;
        let (ready, accepted) = (crate::stage::condition(&object, "Ready"), crate::stage::condition(&object, "SpecAccepted"));
        let message = ready["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{kind} is not served")) && message.contains("keep running it elsewhere"), "{message}");
        assert_eq!((&ready["status"], &ready["observedGeneration"]), (&json!("False"), &json!(1)), "{ready}");
        assert_eq!((&accepted["reason"], &accepted["observedGeneration"]), (&json!("Warnings"), &json!(1)), "{accepted}");
        assert!(accepted["message"].as_str().unwrap().contains(doubt), "{accepted}");
        assert!(object["metadata"]["finalizers"].is_null(), "{object}");
    }

    // A new process, and an update without effect: only the new objects are written.
    drop(operator);
    let before = stage.writes().len();
    let _operator = stage.operator("slipway", &[]);
    create_all(&stage, "second").await;
    let mut versions = Vec::new();
    for (_, plural, _) in unserved_kinds() {
        let answer = stage.patch(plural, "first", &json!({ "metadata": { "annotations": { "seen": "by others" } } })).await;
        versions.push((plural, answer.body["metadata"]["resourceVersion"].clone()));
    }
    create_all(&stage, "third").await;
    let expected: Vec<_> = unserved_kinds()
        .iter()
        .flat_map(|(_, plural, _)| ["second", "third"].map(|name| format!("\"patch\" \"{plural}\" \"{name}\"")))
        .collect();
    // The audit log shows a write slightly later than the object does.
    eventually("the writes for the new objects alone", async || {
        let mut writes = stage.writes().split_off(before);
        // Each new object has an event or two about its conditions.
        writes.retain(|write| !write.contains("\"events\""));
        writes.sort();
        if writes == expected { Ok(()) } else { Err(format!("{writes:?}")) }
    })
    .await;
    for (plural, version) in versions {
        assert_eq!(stage.object(plural, "first").await["metadata"]["resourceVersion"], version, "{plural}");
        // No finalizer holds it.
        stage.kubectl(&["delete", &format!("{plural}.slinky.slurm.net"), "first", "--namespace", &stage.namespace, "--wait=false"]);
        assert_eq!(stage.object(plural, "first").await["code"], 404, "{plural}");
    }
    stage.end();
}
