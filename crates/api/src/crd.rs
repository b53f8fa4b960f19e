//! The CustomResourceDefinitions, generated from the types.

use kube::CustomResourceExt;
use serde_json::Value;

use crate::{GROUP, NodeSet, RestApi, SlurmController};

/// A CustomResourceDefinition as a file of the chart.
pub struct CrdFile {
    /// File name in the chart's `templates/`.
    pub name: String,
    /// Content.
    pub yaml: String,
}

/// Every CustomResourceDefinition, as raw JSON.
pub fn definitions() -> Vec<Value> {
    [SlurmController::crd(), NodeSet::crd(), RestApi::crd()]
        .iter()
        .map(|crd| {
            let mut body = serde_json::to_value(crd).unwrap_or_default();
            only_lists_and_maps_are_nullable(&mut body);
            body
        })
        .collect()
}

/// Every CustomResourceDefinition as the file that the chart carries.
pub fn files() -> Result<Vec<CrdFile>, serde_saphyr::ser::Error> {
    definitions()
        .iter()
        .map(|body| {
            let plural = body["spec"]["names"]["plural"].as_str().unwrap_or_default();
            Ok(CrdFile { name: format!("{GROUP}_{plural}.yaml"), yaml: serde_saphyr::to_string(body)? })
        })
        .collect()
}

/// kube marks every `Option` as nullable; the public schema does so only for lists and maps, and a null elsewhere is a mistake worth
/// telling the user about.
fn only_lists_and_maps_are_nullable(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let is_collection = map.get("type").is_some_and(|kind| kind == "array") || map.contains_key("additionalProperties");
            if map.get("nullable").is_some_and(Value::is_boolean) && !is_collection {
                map.remove("nullable");
            }
            map.values_mut().for_each(only_lists_and_maps_are_nullable);
        }
        Value::Array(items) => items.iter_mut().for_each(only_lists_and_maps_are_nullable),
        _ => {}
    }
}
