//! Revisions of a NodeSet: the user's settings for its pods, stored so that pods can be compared by meaning.
//!
//! The data has the shape that other operators of this API write, so that each can read the other's. It is never compared byte by byte: key order,
//! nulls and the version of a chart are no reason to replace a worker.

use serde_json::{Map, Value, json};
use slipway_api::{NodeSet, Raw, annotation, digest, quantity};

/// Labels that a chart sets on everything and changes with each version.
const VERSION_LABELS: [&str; 3] = ["helm.sh/chart", "app.kubernetes.io/version", "app.kubernetes.io/managed-by"];
/// Directive that makes a strategic merge replace; it does not affect pods.
const PATCH: &str = "$patch";

/// Data of a revision of the current NodeSet.
pub fn data(nodeset: &NodeSet) -> Value {
    let spec = &nodeset.spec;
    let replaced = |raw: &Raw| {
        let mut value = Value::Object(raw.0.clone());
        value[PATCH] = "replace".into();
        value
    };
    let mut template = serde_json::to_value(&spec.template).unwrap_or_default();
    if !template.is_object() {
        template = json!({});
    }
    template[PATCH] = "replace".into();
    let mut kept = json!({ "template": template, "ordinalPadding": spec.ordinal_padding, "oversubscribeNode": spec.oversubscribe_node });
    if let Some(slurmd) = &spec.slurmd {
        kept["slurmd"] = replaced(slurmd);
    }
    if let Some(logfile) = &spec.logfile {
        kept["logfile"] = replaced(logfile);
    }
    if let Some(extra_conf) = &spec.extra_conf {
        kept["extraConf"] = extra_conf.as_str().into();
    }
    if let Some(ssh) = &spec.ssh {
        kept["ssh"] = serde_json::to_value(ssh).unwrap_or_default();
    }
    json!({ "spec": kept })
}

/// Hash of the current pod settings of the NodeSet, used if no stored revision has the same meaning.
pub fn hash(nodeset: &NodeSet) -> String {
    digest::short_of_json(&meaning(&data(nodeset)))
}

/// Normalized pod settings of a revision's data. Two with the same meaning render the same pods.
pub fn meaning(data: &Value) -> Value {
    let mut spec = data.get("spec").cloned().unwrap_or_default();
    if let Some(metadata) = spec.pointer_mut("/template/metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.retain(|label, _| !VERSION_LABELS.contains(&label.as_str()));
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|name, _| !annotation::OF_TOOLS.iter().any(|prefix| name.starts_with(prefix)));
        }
    }
    if let Some(fields) = spec.as_object_mut() {
        // Default values mean the same as unset ones.
        fields.retain(|field, value| match field.as_str() {
            "ordinalPadding" => value.as_i64() != Some(0),
            "oversubscribeNode" => value.as_bool() != Some(false),
            "ssh" => value["enabled"] == true,
            _ => true,
        });
    }
    condensed(&spec).unwrap_or_default()
}

/// The value without nulls, empty values and patch directives, and with one form for each quantity, or `None` if nothing is left.
fn condensed(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| value.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.clone()),
        Value::Array(items) => {
            // An empty item in a list keeps its position, such as an emptyDir among volumes.
            let items: Vec<Value> = items.iter().map(|item| condensed(item).unwrap_or_default()).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (field, value) in fields.iter().filter(|(field, _)| *field != PATCH) {
                let value = match (field.as_str(), value) {
                    ("limits" | "requests", Value::Object(amounts)) => amounts_of(amounts),
                    // A volume source without settings is still a choice.
                    ("emptyDir", Value::Object(source)) if source.is_empty() => Some(json!(true)),
                    _ => condensed(value),
                };
                kept.extend(value.map(|value| (field.clone(), value)));
            }
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
    }
}

fn amounts_of(amounts: &Map<String, Value>) -> Option<Value> {
    let text = |amount: &Value| amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    let amounts: Map<String, Value> =
        amounts.iter().map(|(name, amount)| (name.clone(), quantity::canonical(&text(amount)).into())).collect();
    (!amounts.is_empty()).then_some(Value::Object(amounts))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::fixture;

    fn of(spec: &Value) -> Value {
        meaning(&json!({ "spec": spec }))
    }

    #[rstest]
    #[case::key_order(json!({"slurmd": {"image": "a", "name": "b"}}), json!({"slurmd": {"name": "b", "image": "a"}}))]
    #[case::nulls(json!({"template": {"spec": {"containers": null, "hostname": "w-"}}}), json!({"template": {"spec": {"hostname": "w-"}}}))]
    #[case::marks(json!({"template": {"$patch": "replace"}, "slurmd": {"$patch": "replace", "image": "a"}}), json!({"slurmd": {"image": "a"}}))]
    #[case::defaults(json!({"ordinalPadding": 0, "oversubscribeNode": false, "ssh": {"enabled": false}}), json!({}))]
    #[case::chart(json!({"template": {"metadata": {"labels": {"helm.sh/chart": "slurm-1.2.0", "team": "a"}}}}), json!({"template": {"metadata": {"labels": {"helm.sh/chart": "slurm-1.3.0", "team": "a"}}}}))]
    #[case::tool(json!({"template": {"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "x"}}}}), json!({"template": {"metadata": {"creationTimestamp": null}}}))]
    #[case::amounts(json!({"slurmd": {"resources": {"limits": {"memory": "1024Mi", "cpu": 2}}}}), json!({"slurmd": {"resources": {"limits": {"memory": "1Gi", "cpu": "2"}}}}))]
    fn these_make_the_same_pods(#[case] one: Value, #[case] other: Value) {
        assert_eq!(of(&one), of(&other));
    }

    #[rstest]
    #[case::image(json!({"slurmd": {"image": "a"}}), json!({"slurmd": {"image": "b"}}))]
    #[case::label(json!({"template": {"metadata": {"labels": {"team": "a"}}}}), json!({"template": {"metadata": {"labels": {"team": "b"}}}}))]
    #[case::padding(json!({"ordinalPadding": 3}), json!({}))]
    #[case::ssh(json!({"ssh": {"enabled": true}}), json!({"ssh": {"enabled": false}}))]
    #[case::amount(json!({"slurmd": {"resources": {"limits": {"memory": "1Gi"}}}}), json!({"slurmd": {"resources": {"limits": {"memory": "2Gi"}}}}))]
    #[case::a_switch(json!({"template": {"spec": {"hostNetwork": true}}}), json!({"template": {"spec": {"hostNetwork": false}}}))]
    #[case::order_of_a_list(json!({"slurmd": {"args": ["-v", "-D"]}}), json!({"slurmd": {"args": ["-D", "-v"]}}))]
    #[case::a_place_in_a_list(json!({"slurmd": {"args": ["", "x"]}}), json!({"slurmd": {"args": ["x"]}}))]
    #[case::kind_of_a_volume(json!({"template": {"spec": {"volumes": [{"name": "a", "emptyDir": {}}]}}}), json!({"template": {"spec": {"volumes": [{"name": "a"}]}}}))]
    fn these_do_not(#[case] one: Value, #[case] other: Value) {
        assert_ne!(of(&one), of(&other));
    }

    #[test]
    fn nothing_but_what_pods_are_made_of_goes_in() {
        let (one, mut other) = (fixture::nodeset(), fixture::nodeset());
        other.spec.replicas += 5;
        other.spec.pin_to_node = true;
        other.spec.min_ready_seconds = Some(7);
        other.metadata.labels = Some([("helm.sh/chart".to_owned(), "slurm-9".to_owned())].into());
        assert_eq!(data(&one), data(&other));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z]{0,3}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z$]{1,4}", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_meaning_of_a_meaning_is_itself(spec in json()) {
            let once = of(&spec);
            prop_assert_eq!(of(&once), once);
        }
    }
}
