//! Every list field that a pod spec can have: a new release of Kubernetes adds new ones, and a merge rule must be chosen for each.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodSpec;
use schemars::SchemaGenerator;
use serde_json::Value;

use crate::merge::list::{Rule, rule};

/// Lists that have no merge key in Kubernetes and contain nothing of ours that must stay.
const WHOLE: [&str; 30] = [
    "accessModes",
    "add",
    "command",
    "drop",
    "envFrom",
    "finalizers",
    "hostnames",
    "httpHeaders",
    "items",
    "managedFields",
    "matchExpressions",
    "matchFields",
    "matchLabelKeys",
    "mismatchLabelKeys",
    "monitors",
    "nameservers",
    "namespaces",
    "nodeSelectorTerms",
    "options",
    "ownerReferences",
    "portals",
    "readinessGates",
    "resizePolicy",
    "restartPolicyRules",
    "sources",
    "supplementalGroups",
    "sysctls",
    "targetWWNs",
    "values",
    "wwids",
];

/// Names of all list fields below `schema`.
fn lists(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for (name, field) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let types = &field["type"];
                if types == "array" || types.as_array().is_some_and(|types| types.iter().any(|type_| type_ == "array")) {
                    names.insert(name.clone());
                }
            }
            fields.values().for_each(|inner| lists(inner, names));
        }
        Value::Array(items) => items.iter().for_each(|inner| lists(inner, names)),
        _ => {}
    }
}

#[test]
fn somebody_decided_how_each_list_of_a_pod_merges() {
    let schema = SchemaGenerator::default().into_root_schema_for::<PodSpec>();
    let mut names = BTreeSet::new();
    lists(schema.as_value(), &mut names);
    let whole: BTreeSet<String> = names.into_iter().filter(|name| rule(name) == Rule::Whole).collect();
    assert_eq!(whole, WHOLE.map(str::to_owned).into());
}
