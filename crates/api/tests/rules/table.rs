//! The table of rules, and the manifests that must be accepted as they are.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use slipway_api::{API_VERSION, page};

#[derive(Deserialize)]
pub(crate) struct Table {
    objects: BTreeMap<String, Value>,
    rules: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    of: Vec<String>,
    says: String,
    from: Option<Value>,
    accepts: Value,
    refuses: Value,
}

/// One rule on one kind.
pub(crate) struct Case {
    pub(crate) kind: String,
    pub(crate) says: String,
    /// What is updated; without it both objects are new.
    pub(crate) from: Option<Value>,
    pub(crate) accepted: Value,
    pub(crate) refused: Value,
}

/// Every rule on every kind that has it.
pub(crate) fn cases() -> Vec<Case> {
    let Table { objects, rules } = serde_saphyr::from_str(include_str!("table.yaml")).unwrap();
    let case = |row: &Row, kind: &String| {
        let mut base = objects[kind].clone();
        base["apiVersion"] = API_VERSION.into();
        base["kind"] = kind.as_str().into();
        let from = row.from.as_ref().map(|patch| merged(&base, patch));
        let base = from.as_ref().unwrap_or(&base);
        let (accepted, refused) = (merged(base, &row.accepts), merged(base, &row.refuses));
        Case { kind: kind.clone(), says: row.says.clone(), from, accepted, refused }
    };
    rules.iter().flat_map(|row| row.of.iter().map(move |kind| case(row, kind))).collect()
}

/// Manifests as charts and people write them, with empty and null fields, and those of the reference pages.
pub(crate) fn manifests() -> Vec<Value> {
    let mut manifests: Vec<Value> = serde_saphyr::from_multiple(include_str!("manifests.yaml")).unwrap();
    manifests.extend(page::examples().unwrap().into_iter().map(|mut example| {
        example["metadata"].as_object_mut().unwrap().remove("namespace");
        example
    }));
    manifests
}

/// A JSON merge patch.
fn merged(base: &Value, patch: &Value) -> Value {
    let Value::Object(fields) = patch else { return patch.clone() };
    let mut result = if base.is_object() { base.clone() } else { json!({}) };
    for (name, value) in fields {
        if value.is_null() {
            result.as_object_mut().unwrap().remove(name);
        } else {
            result[name] = merged(&result[name], value);
        }
    }
    result
}
