//! The user's container or pod spec over the generated one.
//!
//! Works on raw JSON so that fields newer than our types survive. Objects merge, a value the user wrote wins (also `false`, `0` and an
//! empty list), `null` removes. Lists follow [`rule`].

use serde_json::{Map, Value};
use slipway_api::Raw;

/// How two lists become one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListRule {
    /// Items with the same key merge.
    MergeBy(&'static str),
    /// Of items with the same key the user's counts, whole: merging would mix two variants of one choice (two volume sources).
    ReplaceBy(&'static str),
    /// The user's items come on top of ours, which keep the pod working.
    Union,
    /// The user's list counts.
    Replace,
}

fn rule(field: &str) -> ListRule {
    match field {
        "containers" | "initContainers" => ListRule::MergeBy("name"),
        "ports" => ListRule::MergeBy("containerPort"),
        "volumeMounts" => ListRule::MergeBy("mountPath"),
        "volumeDevices" => ListRule::MergeBy("devicePath"),
        "hostAliases" => ListRule::MergeBy("ip"),
        "topologySpreadConstraints" => ListRule::MergeBy("topologyKey"),
        "env" | "volumes" | "imagePullSecrets" => ListRule::ReplaceBy("name"),
        "tolerations"
        | "searches"
        | "requiredDuringSchedulingIgnoredDuringExecution"
        | "preferredDuringSchedulingIgnoredDuringExecution" => ListRule::Union,
        _ => ListRule::Replace,
    }
}

/// Variants of which a probe or a hook may have only one.
const ACTIONS: [&str; 5] = ["exec", "grpc", "httpGet", "sleep", "tcpSocket"];

/// A container with the user's fields merged in; the user's arguments come after ours.
pub fn container(mut base: Value, user: Option<&Raw>) -> Value {
    let Some(Raw(user)) = user else { return base };
    let ours = base.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
    let theirs = user.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
    over_object(&mut base, user);
    if !ours.is_empty() || !theirs.is_empty() {
        base["args"] = ours.into_iter().chain(theirs).collect();
    }
    base
}

/// A pod spec with the user's fields merged in.
pub fn pod_spec(mut base: Value, user: Option<&Raw>) -> Value {
    if let Some(Raw(user)) = user {
        over_object(&mut base, user);
    }
    base
}

fn over_object(base: &mut Value, user: &Map<String, Value>) {
    if !base.is_object() {
        *base = Value::Object(Map::new());
    }
    let Some(base) = base.as_object_mut() else { return };
    if user.keys().any(|key| ACTIONS.contains(&key.as_str())) {
        base.retain(|key, _| !ACTIONS.contains(&key.as_str()) || user.contains_key(key));
    }
    for (key, value) in user {
        match value {
            Value::Null => {
                base.remove(key);
            }
            Value::Object(fields) => over_object(base.entry(key).or_insert(Value::Null), fields),
            Value::Array(items) => {
                let list = base.entry(key).or_insert_with(|| Value::Array(Vec::new()));
                over_list(list, items, rule(key));
            }
            scalar => {
                base.insert(key.clone(), scalar.clone());
            }
        }
    }
}

fn over_list(base: &mut Value, user: &[Value], rule: ListRule) {
    let Some(list) = base.as_array_mut().filter(|_| rule != ListRule::Replace) else {
        *base = Value::Array(user.to_vec());
        return;
    };
    for item in user {
        let same = match rule {
            ListRule::MergeBy(key) | ListRule::ReplaceBy(key) => {
                list.iter_mut().find(|known| item.get(key).is_some() && known.get(key) == item.get(key))
            }
            ListRule::Union | ListRule::Replace => list.iter_mut().find(|known| *known == item),
        };
        match (same, rule, item) {
            (Some(known), ListRule::MergeBy(_), Value::Object(fields)) => over_object(known, fields),
            (Some(known), ..) => *known = item.clone(),
            (None, ..) => list.push(item.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
