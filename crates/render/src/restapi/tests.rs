use rstest::rstest;
use serde_json::{Value, json};
use slipway_api::{LocalRef, Raw, ServiceTemplate};

use super::*;
use crate::fixture;

fn references() -> References {
    References {
        controller: fixture::controller(),
        slurm_key_hash: "hash-of-slurm-key".into(),
        config_hash: "hash-of-config".into(),
        has_accounting: false,
    }
}

#[test]
fn the_demo_restapi_becomes_these_objects() {
    let restapi = fixture::restapi();
    for child in [service(&restapi).unwrap(), deployment(&restapi, &references()).unwrap()] {
        insta::assert_yaml_snapshot!(format!("{}_{}", child.key.kind.as_str(), child.key.name), child.body);
    }
}

#[rstest]
#[case::key(References { slurm_key_hash: "new".into(), ..references() })]
#[case::config(References { config_hash: "new".into(), ..references() })]
fn a_changed_key_or_configuration_makes_new_pods(#[case] changed: References) {
    let template = |references| deployment(&fixture::restapi(), references).unwrap().body["spec"]["template"].clone();
    assert_ne!(template(&references()), template(&changed));
}

fn raw(value: &Value) -> Raw {
    Raw(value.as_object().cloned().unwrap())
}

fn args(restapi: &RestApi, references: &References) -> Value {
    deployment(restapi, references).unwrap().body["spec"]["template"]["spec"]["containers"][0]["args"].clone()
}

#[test]
fn the_address_stands_behind_the_users_options() {
    let mut restapi = fixture::restapi();
    restapi.spec.slurmrestd = Some(raw(&json!({ "image": "x", "args": ["-vvv"] })));
    restapi.spec.template.get_or_insert_default().spec =
        Some(raw(&json!({ "containers": [{ "name": "slurmrestd", "args": ["-t", "9"] }] })));
    assert_eq!(args(&restapi, &references()), json!(["-s", "openapi/slurmctld", "-vvv", "-t", "9", "0.0.0.0:6820"]));
}

#[rstest]
#[case::no_reference(None, false, true)]
#[case::empty_reference(Some(""), false, true)]
#[case::users_own_lines(None, true, true)]
#[case::leads_nowhere(Some("a"), false, true)]
#[case::slurmdbd(Some("a"), true, false)]
fn without_slurmdbd_its_plugin_is_not_loaded(#[case] reference: Option<&str>, #[case] has_accounting: bool, #[case] is_left_out: bool) {
    let mut references = References { has_accounting, ..references() };
    references.controller.spec.accounting_ref = reference.map(|name| LocalRef { name: name.into() });
    let first = args(&fixture::restapi(), &references)[0].clone();
    assert_eq!(first, if is_left_out { "-s" } else { "0.0.0.0:6820" });
}

#[test]
fn a_scaled_restapi_keeps_its_pods() {
    let (mut restapi, references) = (fixture::restapi(), references());
    let before = deployment(&restapi, &references).unwrap().body;
    restapi.spec.replicas = 5;
    let after = deployment(&restapi, &references).unwrap().body;
    assert_eq!(after["spec"]["replicas"], 5);
    assert_eq!(before["spec"]["template"], after["spec"]["template"]);
}

/// `kubectl apply` keeps a copy of the manifest in an annotation.
#[test]
fn an_edit_of_the_manifest_alone_makes_no_new_pods() {
    let (mut restapi, references) = (fixture::restapi(), references());
    let before = deployment(&restapi, &references).unwrap();
    let last_applied = "kubectl.kubernetes.io/last-applied-configuration".to_owned();
    restapi.metadata.annotations.get_or_insert_default().insert(last_applied, "{}".into());
    assert_eq!(deployment(&restapi, &references).unwrap(), before);
}

#[test]
fn the_service_has_none_of_the_resources_own_marks() {
    let mut restapi = fixture::restapi();
    restapi.metadata.labels.get_or_insert_default().insert("team".into(), "a".into());
    let labels = service(&restapi).unwrap().body["metadata"]["labels"].clone();
    assert_eq!(labels.get("team"), None);
    assert_eq!(deployment(&restapi, &references()).unwrap().body["metadata"]["labels"]["team"], "a");
}

#[test]
fn the_port_of_the_service_is_the_users() {
    let mut restapi = fixture::restapi();
    assert_eq!(port(&restapi), 6820);
    restapi.spec.service = Some(ServiceTemplate { port: Some(80), ..ServiceTemplate::default() });
    assert_eq!(port(&restapi), 80);
    let service = service(&restapi).unwrap().body;
    assert_eq!(service["spec"]["ports"], json!([{ "name": "slurmrestd", "port": 80, "targetPort": "slurmrestd", "protocol": "TCP" }]));
}

#[test]
fn two_restapis_of_a_controller_share_nothing_but_its_configuration() {
    let (one, mut two) = (fixture::restapi(), fixture::restapi());
    two.metadata.name = Some("second".into());
    let [one, two] = [one, two].map(|restapi| deployment(&restapi, &references()).unwrap().body);
    assert_ne!(one["metadata"]["name"], two["metadata"]["name"]);
    assert_ne!(one["spec"]["selector"], two["spec"]["selector"]);
    assert_eq!(one["spec"]["template"]["spec"], two["spec"]["template"]["spec"]);
}
