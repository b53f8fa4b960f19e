//! The CustomResourceDefinitions, generated from the types.

use kube::CustomResourceExt;
use serde_json::Value;

use crate::{Accounting, GROUP, LoginSet, NodeSet, RestApi, SlurmController, Token};

/// A CustomResourceDefinition as a file of the chart.
pub struct CrdFile {
    /// File name in the chart's `templates/`.
    pub name: String,
    /// Content.
    pub yaml: String,
}

/// Every CustomResourceDefinition, as raw JSON.
pub fn definitions() -> Vec<Value> {
    [SlurmController::crd(), NodeSet::crd(), LoginSet::crd(), RestApi::crd(), Accounting::crd(), Token::crd()]
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

/// The only object that may be null: the public chart sends it as null.
const NULLABLE_OBJECT: &str = "serviceMonitor";

/// Removes `nullable` from everything but lists and maps, because kube marks every `Option` as nullable and the public schema only those. For other
/// fields the server drops a null, so that the default applies and no rule sees the null.
fn only_lists_and_maps_are_nullable(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let is_collection = map.get("type").is_some_and(|kind| kind == "array") || map.contains_key("additionalProperties");
            if map.get("nullable").is_some_and(Value::is_boolean) && !is_collection {
                map.remove("nullable");
            }
            for (name, inner) in map {
                only_lists_and_maps_are_nullable(inner);
                if name == NULLABLE_OBJECT {
                    inner["nullable"] = true.into();
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(only_lists_and_maps_are_nullable),
        _ => {}
    }
}
