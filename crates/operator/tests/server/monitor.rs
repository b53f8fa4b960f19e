//! ServiceMonitors on a real API server, whose CRD is installed later.

use serde_json::{Value, json};

use crate::stage::{Stage, condition, controller, eventually, says, until_condition};

/// The CRD that the Prometheus operator installs, without its schema.
fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "servicemonitors.monitoring.coreos.com" },
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": { "kind": "ServiceMonitor", "listKind": "ServiceMonitorList", "plural": "servicemonitors", "singular": "servicemonitor" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "properties": { "spec": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }}}],
        },
    })
}

fn with_monitor(is_enabled: bool) -> Value {
    json!({ "slurmctld": { "image": "slurmctld" }, "metrics": { "enabled": true, "serviceMonitor": { "enabled": is_enabled, "interval": "30s" } } })
}

async fn monitor(stage: &Stage, controller: &str) -> Value {
    stage.get(&format!("/apis/monitoring.coreos.com/v1/namespaces/{}/servicemonitors/{controller}-controller", stage.namespace)).await
}

/// Waits until SpecAccepted of a Controller contains `words`, or does not if `is_there` is false.
async fn until_noted(stage: &Stage, controller: &str, words: &str, is_there: bool) {
    let object = async || stage.object("controllers", controller).await;
    until_condition(object, "SpecAccepted", |accepted| says(accepted, &[words]) == is_there).await;
}

async fn until_there(stage: &Stage, controller: &str, is_right: impl Fn(&Value) -> bool) -> Value {
    eventually("the ServiceMonitor", async || {
        let found = monitor(stage, controller).await;
        if is_right(&found) { Ok(found) } else { Err(found.to_string()) }
    })
    .await
}

#[tokio::test]
async fn a_service_monitor_comes_with_its_kind_stays_as_it_should_be_and_goes_when_it_is_switched_off() {
    let stage = Stage::alone("monitor").await;
    let operator = stage.operator("slipway", &[]);
    stage.kubectl(&["create", "secret", "generic", "keys", "--from-literal=key=0123456789abcdef", "--namespace", &stage.namespace]);
    assert_eq!(stage.create("controllers", &controller("x", &with_monitor(true))).await.code, 201);
    until_noted(&stage, "x", "install the Prometheus operator", true).await;

    // The CRD is installed.
    stage.bed.kubectl().args(["create", "--filename=-"]).feed(&definition().to_string()).unwrap();
    let made = until_there(&stage, "x", |found| found["spec"].is_object()).await;
    assert_eq!(made["spec"]["endpoints"].as_array().unwrap().len(), 4, "{made}");
    assert_eq!(made["spec"]["endpoints"][0]["interval"], "30s", "{made}");
    assert_eq!(made["metadata"]["ownerReferences"][0]["name"], "x", "{made}");
    until_noted(&stage, "x", "install the Prometheus operator", false).await;
    let services = stage.kubectl(&["get", "services", "--output=name", "--namespace", &stage.namespace, "--selector", &selector(&made)]);
    assert_eq!(services.trim(), "service/x-controller-internal", "each slurmctld is one target");

    // A new process without cached state has nothing to do.
    drop(operator);
    let before = stage.writes().len();
    let _operator = stage.operator("slipway", &[]);
    assert_eq!(stage.create("controllers", &controller("other", &with_monitor(false))).await.code, 201);
    eventually("the other Controller to be looked after", async || {
        let ready = condition(&stage.object("controllers", "other").await, "Ready");
        if ready.is_null() { Err(ready.to_string()) } else { Ok(()) }
    })
    .await;
    // Edited by hand: the audit log shows that the reconcile happened and made only this write.
    stage.kubectl(&[
        "patch",
        "servicemonitor",
        "x-controller",
        "--namespace",
        &stage.namespace,
        "--type=merge",
        "--patch={\"spec\":{\"endpoints\":[{\"port\":\"web\"}]}}",
    ]);
    let repaired = until_there(&stage, "x", |found| found["spec"] == made["spec"]).await;
    assert_eq!(repaired["metadata"]["uid"], made["metadata"]["uid"]);
    let writes: Vec<_> = stage.writes().split_off(before).into_iter().filter(|write| write.contains("servicemonitors")).collect();
    assert_eq!(writes, [r#""patch" "servicemonitors" "x-controller""#]);

    // Switched off.
    stage.patch("controllers", "x", &json!({ "spec": { "metrics": { "serviceMonitor": { "enabled": false } } } })).await;
    until_there(&stage, "x", |found| found["code"] == 404).await;
    // And on again.
    stage.patch("controllers", "x", &json!({ "spec": { "metrics": { "serviceMonitor": { "enabled": true } } } })).await;
    until_there(&stage, "x", |found| found["spec"].is_object()).await;

    // The CRD is removed.
    stage.kubectl(&["delete", "crd", "servicemonitors.monitoring.coreos.com"]);
    until_noted(&stage, "x", "install the Prometheus operator", true).await;
    stage.end();
}

#[tokio::test]
async fn a_service_monitor_of_somebody_else_is_neither_taken_nor_deleted() {
    let stage = Stage::alone("foreign").await;
    stage.bed.kubectl().args(["create", "--filename=-"]).feed(&definition().to_string()).unwrap();
    let theirs = json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
        "metadata": { "name": "x-controller", "namespace": &stage.namespace }, "spec": { "endpoints": [{ "port": "web" }] },
    });
    eventually("the kind to be served", async || {
        let made = stage.bed.kubectl().args(["apply", "--server-side", "--filename=-"]).feed(&theirs.to_string());
        made.map_err(|failure| failure.to_string())
    })
    .await;
    let version = monitor(&stage, "x").await["metadata"]["resourceVersion"].clone();

    let _operator = stage.operator("slipway", &[]);
    stage.kubectl(&["create", "secret", "generic", "keys", "--from-literal=key=0123456789abcdef", "--namespace", &stage.namespace]);
    assert_eq!(stage.create("controllers", &controller("x", &with_monitor(true))).await.code, 201);
    until_noted(&stage, "x", "was not created for this Controller", true).await;
    stage.patch("controllers", "x", &json!({ "spec": { "metrics": { "serviceMonitor": { "enabled": false } } } })).await;
    until_noted(&stage, "x", "was not created for this Controller", false).await;
    assert_eq!(monitor(&stage, "x").await["metadata"]["resourceVersion"], version);
    stage.end();
}

/// The selector of a ServiceMonitor, as `kubectl` takes it.
fn selector(monitor: &Value) -> String {
    let labels = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
    labels.iter().map(|(label, value)| format!("{label}={}", value.as_str().unwrap())).collect::<Vec<_>>().join(",")
}
