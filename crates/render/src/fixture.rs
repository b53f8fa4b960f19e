//! Resources for tests, taken from `examples/demo.yaml`, so that the published example is tested.

use serde::de::DeserializeOwned;
use serde_json::Value;
use slipway_api::{NodeSet, RestApi, SlurmController};

fn of_kind<K: DeserializeOwned>(kind: &str) -> K {
    let documents: Vec<Value> = serde_saphyr::from_multiple(include_str!("../../../examples/demo.yaml")).unwrap();
    let mut resource = documents.into_iter().find(|document| document["kind"] == kind).unwrap();
    resource["metadata"]["uid"] = format!("uid-of-{kind}").into();
    serde_json::from_value(resource).unwrap()
}

pub(crate) fn controller() -> SlurmController {
    of_kind("Controller")
}

pub(crate) fn restapi() -> RestApi {
    of_kind("RestApi")
}

pub(crate) fn nodeset() -> NodeSet {
    of_kind("NodeSet")
}
