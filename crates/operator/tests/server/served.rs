//! CRDs that differ from ours, on a real API server.

use serde_json::{Value, json};

use crate::stage::{Stage, condition, controller, eventually};

/// Changes the schema of an installed CRD.
fn redefine(stage: &Stage, plural: &str, change: impl Fn(&mut Value)) {
    let name = format!("{plural}.slinky.slurm.net");
    let mut definition: Value = serde_json::from_str(&stage.kubectl(&["get", "crd", &name, "--output=json"])).unwrap();
    definition["metadata"] = json!({ "name": name });
    change(&mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]);
    let resource_version = stage.kubectl(&["get", "crd", &name, "--output=jsonpath={.metadata.resourceVersion}"]);
    definition["metadata"]["resourceVersion"] = resource_version.into();
    stage.bed.kubectl().args(["replace", "--filename=-"]).feed(&definition.to_string()).unwrap();
}

fn remove(object: &mut Value, field: &str) {
    assert!(object["properties"].as_object_mut().unwrap().remove(field).is_some(), "there is no {field}");
}

async fn exists(stage: &Stage, path: &str) -> bool {
    stage.get(path).await["code"] != 404
}

async fn until_schema_condition(stage: &Stage, plural: &str, name: &str, reason: &str) -> Value {
    eventually("SchemaCurrent", async || {
        let object = stage.object(plural, name).await;
        let current = condition(&object, "SchemaCurrent");
        if current["reason"] == reason && current["status"] == "False" { Ok(object) } else { Err(object["status"].to_string()) }
    })
    .await
}

#[tokio::test]
async fn nothing_is_done_for_a_kind_whose_definition_is_older_or_foreign_until_it_is_right() {
    let stage = Stage::alone("served").await;
    redefine(&stage, "nodesets", |schema| remove(&mut schema["spec"], "minReadySeconds"));
    redefine(&stage, "loginsets", |schema| remove(&mut schema["spec"], "extraSshdConfig"));
    let _operator = stage.operator("slipway", &[]);
    stage.create("controllers", &controller("slurm", &json!({}))).await;
    let nodeset = json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": { "name": "worker" },
        "spec": { "controllerRef": { "name": "slurm" }, "replicas": 2, "minReadySeconds": 60 },
    });
    let stored = stage.create("nodesets", &nodeset).await;
    assert!(stored.code == 201 && stored.body["spec"]["minReadySeconds"].is_null(), "{stored:?}");

    let loginset = json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "LoginSet", "metadata": { "name": "login" },
        "spec": { "controllerRef": { "name": "slurm" }, "sssdConfRef": { "name": "sssd", "key": "sssd.conf" } },
    });
    assert_eq!(stage.create("loginsets", &loginset).await.code, 201);

    // Older: this kind pauses, the others continue.
    let object = until_schema_condition(&stage, "loginsets", "login", "SchemaOlder").await;
    assert_eq!(condition(&object, "Ready")["reason"], "SchemaOlder", "{object}");
    let object = until_schema_condition(&stage, "nodesets", "worker", "SchemaOlder").await;
    let ready = condition(&object, "Ready");
    assert!(ready["message"].as_str().unwrap().contains("spec.minReadySeconds"), "{ready}");
    eventually("the Controller to be looked after", async || {
        let ready = condition(&stage.object("controllers", "slurm").await, "Ready");
        if ready["reason"] == "SecretMissing" { Ok(()) } else { Err(ready.to_string()) }
    })
    .await;
    let service = format!("/api/v1/namespaces/{}/services/slurm-workers-slurm", stage.namespace);
    assert!(!exists(&stage, &service).await, "it wrote for a kind whose spec may have lost fields");
    let lines = stage.log("slipway").lines().filter(|line| line.contains("ERROR") && line.contains("spec.minReadySeconds")).count();
    assert_eq!(lines, 1, "{}", stage.log("slipway"));

    // Only status fields are missing: they are left out, and reconciling continues.
    stage.apply("charts/slurm-operator-crds/templates");
    redefine(&stage, "nodesets", |schema| remove(&mut schema["status"], "desired"));
    eventually(
        "the Service of the workers",
        async || if exists(&stage, &service).await { Ok(()) } else { Err("it is not there".to_owned()) },
    )
    .await;
    let object = eventually("the status without the missing field", async || {
        let object = stage.object("nodesets", "worker").await;
        let is_told = condition(&object, "SchemaCurrent")["message"].as_str().is_some_and(|message| message.contains("status.desired"));
        if is_told && object["status"]["replicas"] == 0 { Ok(object) } else { Err(object["status"].to_string()) }
    })
    .await;
    assert!(object["status"]["desired"].is_null(), "{object}");

    // Correct again: the condition is removed, the field is set.
    stage.apply("charts/slurm-operator-crds/templates");
    eventually("the whole status", async || {
        let object = stage.object("nodesets", "worker").await;
        let is_whole = condition(&object, "SchemaCurrent").is_null() && object["status"]["desired"] == 2;
        if is_whole { Ok(()) } else { Err(object["status"].to_string()) }
    })
    .await;

    eventually("the LoginSet to say what it says otherwise", async || {
        let object = stage.object("loginsets", "login").await;
        let is_told = condition(&object, "Ready")["reason"] == "NotServed" && condition(&object, "SchemaCurrent").is_null();
        if is_told { Ok(()) } else { Err(object["status"].to_string()) }
    })
    .await;

    // A newer CRD is accepted.
    let before = stage.writes().len();
    redefine(&stage, "nodesets", |schema| schema["spec"]["properties"]["brandNew"] = json!({ "type": "string" }));
    // Foreign: one of our fields has another type there.
    redefine(&stage, "controllers", |schema| schema["spec"]["properties"]["extraConf"] = json!({ "type": "integer" }));
    let object = until_schema_condition(&stage, "controllers", "slurm", "SchemaForeign").await;
    assert!(condition(&object, "Ready")["message"].as_str().unwrap().contains("spec.extraConf"), "{object}");
    let for_nodesets: Vec<_> = stage.writes().split_off(before).into_iter().filter(|write| write.contains("nodesets")).collect();
    assert!(for_nodesets.is_empty(), "a newer definition is no reason to write: {for_nodesets:?}");
    stage.end();
}
