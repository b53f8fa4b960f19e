use rstest::rstest;
use serde_json::json;
use slipway_api::Raw;

use super::*;
use crate::fixture;

fn references() -> References {
    References { controller: fixture::controller(), slurm_key_hash: "hash-of-slurm-key".into(), config_hash: "hash-of-config".into() }
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

#[test]
fn the_address_stands_behind_the_users_options() {
    let mut restapi = fixture::restapi();
    let fields = json!({ "image": "x", "args": ["-vvv"] });
    restapi.spec.slurmrestd = Some(Raw(fields.as_object().cloned().unwrap()));
    let args = deployment(&restapi, &references()).unwrap().body["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    assert_eq!(args, json!(["-s", "openapi/slurmctld", "-vvv", "0.0.0.0:6820"]));
}
