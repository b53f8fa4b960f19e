//! A field that is newer than every type of ours reaches the child object as the user wrote it.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use slipway_api::{NodeSet, RestApi, SlurmController};
use slipway_render::{controller, nodeset, restapi};

/// A resource of `examples/demo.yaml` with further fields, read as the operator reads it.
fn of_kind<K: DeserializeOwned>(kind: &str, change: impl FnOnce(&mut Value)) -> K {
    let documents: Vec<Value> = serde_saphyr::from_multiple(include_str!("../../../examples/demo.yaml")).unwrap();
    let mut resource = documents.into_iter().find(|document| document["kind"] == kind).unwrap();
    change(&mut resource["spec"]);
    serde_json::from_value(resource).unwrap()
}

fn newer() -> Value {
    json!({ "mode": "Newest", "levels": [1, { "deep": true }] })
}

fn find<'a>(list: &'a Value, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|item| item["name"] == name).unwrap()
}

#[test]
fn of_a_controller_to_its_pods_its_claim_and_its_service() {
    let controller: SlurmController = of_kind("Controller", |spec| {
        spec["slurmctld"]["fromTheFuture"] = newer();
        spec["logfile"]["fromTheFuture"] = newer();
        spec["template"]["spec"] = json!({ "fromTheFuture": newer(), "containers": [{ "name": "slurmctld", "alsoNew": newer() }] });
        spec["persistence"]["fromTheFuture"] = newer();
        spec["service"]["spec"] = json!({ "fromTheFuture": newer(), "ports": [{ "port": 80, "fromTheFuture": newer() }] });
    });
    let statefulset = controller::statefulset(&controller, &controller::References::default(), "hash").unwrap().body;
    let pod = &statefulset["spec"]["template"]["spec"];
    assert_eq!(pod["fromTheFuture"], newer());
    assert_eq!(find(&pod["containers"], "slurmctld")["fromTheFuture"], newer());
    assert_eq!(find(&pod["containers"], "slurmctld")["alsoNew"], newer());
    assert_eq!(pod["initContainers"][0]["fromTheFuture"], newer());
    assert_eq!(statefulset["spec"]["volumeClaimTemplates"][0]["spec"]["fromTheFuture"], newer());
    let services = controller::services(&controller).unwrap();
    let client = &services.iter().find(|child| child.key.name == "slurm-controller").unwrap().body;
    assert_eq!(client["spec"]["fromTheFuture"], newer());
    assert_eq!(client["spec"]["ports"][0]["fromTheFuture"], newer());
}

#[test]
fn of_a_restapi_to_its_deployment_and_its_service() {
    let restapi: RestApi = of_kind("RestApi", |spec| {
        spec["slurmrestd"]["fromTheFuture"] = newer();
        spec["template"]["spec"]["fromTheFuture"] = newer();
        spec["service"]["spec"]["fromTheFuture"] = newer();
    });
    let controller = of_kind("Controller", |_| {});
    let references = restapi::References { controller, slurm_key_hash: "a".into(), config_hash: "b".into(), has_accounting: false };
    let deployment = restapi::deployment(&restapi, &references).unwrap().body;
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["fromTheFuture"], newer());
    assert_eq!(find(&pod["containers"], "slurmrestd")["fromTheFuture"], newer());
    assert_eq!(restapi::service(&restapi).unwrap().body["spec"]["fromTheFuture"], newer());
}

#[test]
fn of_a_nodeset_to_its_pods() {
    let nodeset: NodeSet = of_kind("NodeSet", |spec| {
        spec["slurmd"]["fromTheFuture"] = newer();
        spec["logfile"]["fromTheFuture"] = newer();
        spec["template"]["spec"] = json!({ "fromTheFuture": newer(), "volumes": [{ "name": "new", "fromTheFuture": newer() }] });
    });
    let references = nodeset::References {
        controller: of_kind("Controller", |_| {}),
        cluster_domain: "cluster.local".into(),
        gres: None,
        sssd_conf_hash: None,
        hash: "now".into(),
    };
    let pod = nodeset::pod(&nodeset, &references, 0).unwrap();
    assert_eq!(pod["spec"]["fromTheFuture"], newer());
    assert_eq!(find(&pod["spec"]["containers"], "slurmd")["fromTheFuture"], newer());
    assert_eq!(pod["spec"]["initContainers"][0]["fromTheFuture"], newer());
    assert_eq!(find(&pod["spec"]["volumes"], "new")["fromTheFuture"], newer());
}
