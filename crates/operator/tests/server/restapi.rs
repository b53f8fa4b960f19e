//! RestApis on a real API server: changes that replace their pods, and changes that do not.

use serde_json::{Value, json};

use crate::stage::{Stage, controller, eventually, says, until_condition};

fn restapi(name: &str, controller: &str, spec: &Value) -> Value {
    let mut object = json!({ "apiVersion": "slinky.slurm.net/v1beta1", "kind": "RestApi", "metadata": { "name": name }, "spec": spec });
    object["spec"]["controllerRef"] = json!({ "name": controller });
    object["spec"]["slurmrestd"] = json!({ "image": "slurmrestd" });
    object
}

async fn child(stage: &Stage, group: &str, plural: &str, name: &str) -> Value {
    stage.get(&format!("/{group}/namespaces/{}/{plural}/{name}", stage.namespace)).await
}

async fn deployment(stage: &Stage, restapi: &str) -> Value {
    child(stage, "apis/apps/v1", "deployments", &format!("{restapi}-restapi")).await
}

/// Waits until a Deployment has at least this generation.
async fn until_generation(stage: &Stage, restapi: &str, expected: i64) -> Value {
    eventually(&format!("generation {expected} of {restapi}"), async || {
        let found = deployment(stage, restapi).await;
        if found["metadata"]["generation"].as_i64() >= Some(expected) {
            Ok(found)
        } else {
            Err(found["metadata"]["generation"].to_string())
        }
    })
    .await
}

async fn config(stage: &Stage) -> Value {
    child(stage, "api/v1", "configmaps", "slurm-config").await
}

async fn until_ready(stage: &Stage, restapi: &str, words: &str) {
    let words = stage.here(words);
    until_condition(async || stage.object("restapis", restapi).await, "Ready", |ready| says(ready, &[&words])).await;
}

#[tokio::test]
async fn slurmrestd_restarts_for_its_configuration_and_its_key_and_for_nothing_else() {
    let stage = Stage::new("restapi").await;
    let operator = stage.operator("slipway", &[]);
    assert_eq!(stage.create("restapis", &restapi("one", "slurm", &json!({}))).await.code, 201);
    until_ready(&stage, "one", "Controller `slurm/slurm` does not exist").await;
    stage.kubectl(&["create", "configmap", "files", "--from-literal=gres.conf=AutoDetect=off", "--namespace", &stage.namespace]);
    let spec = json!({ "slurmctld": { "image": "slurmctld" }, "configFileRefs": [{ "name": "files" }] });
    assert_eq!(stage.create("controllers", &controller("slurm", &spec)).await.code, 201);
    until_ready(&stage, "one", "Secret `slurm/keys` does not exist").await;
    stage.kubectl(&[
        "create",
        "secret",
        "generic",
        "keys",
        "--from-literal=key=0123456789abcdef",
        "--from-literal=other=a",
        "--namespace",
        &stage.namespace,
    ]);
    let second = json!({ "replicas": 2, "service": { "port": 8080 } });
    assert_eq!(stage.create("restapis", &restapi("two", "slurm", &second)).await.code, 201);

    let made = until_generation(&stage, "one", 1).await;
    assert_eq!(made["spec"]["template"]["spec"]["containers"][0]["args"], json!(["-s", "openapi/slurmctld", "0.0.0.0:6820"]));
    assert_eq!(until_generation(&stage, "two", 1).await["spec"]["replicas"], 2);
    let service = child(&stage, "api/v1", "services", "two-restapi").await;
    assert_eq!((&service["spec"]["ports"][0]["port"], &service["spec"]["ports"][0]["targetPort"]), (&json!(8080), &json!("slurmrestd")));

    // Others edit the published configuration; another of its files changes; another key of the Secret changes. No slurmrestd restarts.
    let published = config(&stage).await["data"]["slurm.conf"].clone();
    stage.kubectl(&[
        "patch",
        "configmap",
        "slurm-config",
        "--namespace",
        &stage.namespace,
        "--type=merge",
        r#"--patch={"data":{"slurm.conf":"oops"}}"#,
    ]);
    eventually("the edit to be undone", async || {
        let found = config(&stage).await["data"]["slurm.conf"].clone();
        if found == published { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    stage.kubectl(&[
        "patch",
        "configmap",
        "files",
        "--namespace",
        &stage.namespace,
        "--type=merge",
        r#"--patch={"data":{"gres.conf":"AutoDetect=nvidia"}}"#,
    ]);
    eventually("the new gres.conf", async || {
        let found = config(&stage).await["data"]["gres.conf"].clone();
        if found == "AutoDetect=nvidia" { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    stage.kubectl(&["patch", "secret", "keys", "--namespace", &stage.namespace, "--type=merge", r#"--patch={"stringData":{"other":"b"}}"#]);

    // The next writes of these Deployments are for relevant changes, one for each.
    stage.patch("controllers", "slurm", &json!({ "spec": { "extraConf": "SchedulerParameters=bf_interval=30" } })).await;
    let reconfigured = [until_generation(&stage, "one", 2).await, until_generation(&stage, "two", 2).await];
    stage.kubectl(&[
        "patch",
        "secret",
        "keys",
        "--namespace",
        &stage.namespace,
        "--type=merge",
        r#"--patch={"stringData":{"key":"fedcba9876543210"}}"#,
    ]);
    // Without a change of the resource that names it, a Secret is read every few minutes.
    stage.patch("controllers", "slurm", &json!({ "metadata": { "annotations": { "slipway.dev/read-secrets": "new" } } })).await;
    for (name, before) in ["one", "two"].into_iter().zip(&reconfigured) {
        let after = until_generation(&stage, name, 3).await;
        assert_eq!(after["metadata"]["generation"], 3, "{name} was written more often than something changed");
        let hash = |deployment: &Value, hash: &str| deployment["spec"]["template"]["metadata"]["annotations"][hash].clone();
        assert_ne!(hash(before, "slinky.slurm.net/slurm-key-hash"), hash(&after, "slinky.slurm.net/slurm-key-hash"));
        assert_eq!(hash(before, "slinky.slurm.net/slurm-config-hash"), hash(&after, "slinky.slurm.net/slurm-config-hash"));
        assert_ne!(hash(&made, "slinky.slurm.net/slurm-config-hash"), hash(&after, "slinky.slurm.net/slurm-config-hash"));
    }

    // Scaled out: existing pods stay.
    let before = deployment(&stage, "one").await;
    stage.patch("restapis", "one", &json!({ "spec": { "replicas": 3 } })).await;
    let scaled = until_generation(&stage, "one", 4).await;
    assert_eq!((&scaled["spec"]["replicas"], &scaled["spec"]["template"]), (&json!(3), &before["spec"]["template"]));

    // A new process without cached state writes only for the new RestApi.
    until_ready(&stage, "one", "0 of 3 pods are ready").await;
    drop(operator);
    let writes = stage.writes().len();
    let _operator = stage.operator("slipway", &[]);
    assert_eq!(stage.create("restapis", &restapi("three", "slurm", &json!({}))).await.code, 201);
    until_ready(&stage, "three", "0 of 1 pods are ready").await;
    let others: Vec<_> = stage.writes().split_off(writes).into_iter().filter(|write| !write.contains("three")).collect();
    assert!(others.is_empty(), "{others:?}");
    stage.end();
}

#[tokio::test]
async fn slurmrestd_for_a_slurmctld_outside_needs_a_copy_of_its_key() {
    let stage = Stage::new("outside-api").await;
    let _operator = stage.operator("slipway", &[]);
    let outside = json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "Controller", "metadata": { "name": "slurm" },
        "spec": { "external": true, "externalConfig": { "host": "ctl.example.com", "port": 6817 } },
    });
    assert_eq!(stage.create("controllers", &outside).await.code, 201);
    assert_eq!(stage.create("restapis", &restapi("api", "slurm", &json!({}))).await.code, 201);
    until_ready(&stage, "api", "Controller `slurm/slurm` names no auth/slurm key").await;
    stage.kubectl(&["create", "secret", "generic", "keys", "--from-literal=key=0123456789abcdef", "--namespace", &stage.namespace]);
    stage.kubectl(&["delete", "controllers.slinky.slurm.net", "slurm", "--namespace", &stage.namespace]);
    let mut with_key = outside.clone();
    with_key["spec"]["slurmKeyRef"] = json!({ "name": "keys", "key": "key" });
    assert_eq!(stage.create("controllers", &with_key).await.code, 201);
    let made = until_generation(&stage, "api", 1).await;
    let sources = made["spec"]["template"]["spec"]["volumes"][0]["projected"]["sources"].clone();
    assert_eq!((&sources[0]["configMap"]["name"], &sources[1]["secret"]["name"]), (&json!("slurm-config"), &json!("keys")));
    assert!(config(&stage).await["data"]["slurm.conf"].as_str().unwrap().contains("ctl.example.com"));
    stage.end();
}
