//! Merges two lists.

use serde_json::Value;
use slipway_api::env;

use super::{Fields, Patch, fresh, over_object};

/// Rule by which two lists merge. If Kubernetes has a merge key for a list, it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Items with the same keys merge, others are added.
    Merge(&'static [&'static str]),
    /// Like `Merge`, for a choice of one: generated fields that the user's item lacks are removed, or there would be two volume sources.
    Choose(&'static [&'static str]),
    /// The user's item replaces the generated one with the same key.
    ReplaceBy(&'static str),
    /// The user's items are appended without duplicates: the generated ones keep the pod working.
    Union,
    /// The user's items are appended.
    Append,
    /// The user's list replaces the generated one, even if it is empty.
    Whole,
}

/// The rule for a list field of a container or a pod spec.
pub(super) fn rule(field: &str) -> Rule {
    match field {
        "containers" | "initContainers" | "ephemeralContainers" | "claims" | "imagePullSecrets" | "schedulingGates" => {
            Rule::Merge(&["name"])
        }
        "ports" => Rule::Merge(&["containerPort", "protocol"]),
        "volumeMounts" => Rule::Merge(&["mountPath"]),
        "volumeDevices" => Rule::Merge(&["devicePath"]),
        "hostAliases" => Rule::Merge(&["ip"]),
        "topologySpreadConstraints" => Rule::Merge(&["topologyKey", "whenUnsatisfiable"]),
        "volumes" | "resourceClaims" => Rule::Choose(&["name"]),
        "env" => Rule::ReplaceBy("name"),
        "tolerations"
        | "searches"
        | "requiredDuringSchedulingIgnoredDuringExecution"
        | "preferredDuringSchedulingIgnoredDuringExecution" => Rule::Union,
        "args" => Rule::Append,
        _ => Rule::Whole,
    }
}

/// `ours`, if there is such a list, merged with the user's items, or `None` if there is no list and nothing to add.
pub(super) fn over(field: &str, ours: Option<Vec<Value>>, user: &[Value]) -> Option<Vec<Value>> {
    let rule = rule(field);
    let is_replaced = rule == Rule::Whole || user.iter().any(|item| is(item, Patch::Replace));
    let is_new = ours.is_none();
    let mut list = ours.filter(|_| !is_replaced).unwrap_or_default();
    for item in user.iter().filter(|item| !is(item, Patch::Replace)) {
        let same = list.iter().position(|known| rule.is_same(known, item));
        match (same, item) {
            (Some(index), _) if is(item, Patch::Delete) => {
                list.remove(index);
            }
            (None, _) if is(item, Patch::Delete) => {}
            (Some(index), Value::Object(fields)) => rule.join(&mut list[index], fields),
            (Some(_), _) => {}
            (None, Value::Object(fields)) => list.push(fresh(fields).into()),
            (None, scalar) => list.push(scalar.clone()),
        }
    }
    (!list.is_empty() || !is_new || rule == Rule::Whole).then_some(list)
}

fn is(item: &Value, patch: Patch) -> bool {
    item.as_object().is_some_and(|fields| Patch::of(fields) == patch)
}

impl Rule {
    /// True if the user's `item` has the same keys as `known`, or equals it.
    fn is_same(self, known: &Value, item: &Value) -> bool {
        let has_keys = match self {
            Self::Merge(keys) | Self::Choose(keys) => keys.iter().all(|key| has_same(key, known, item)),
            Self::ReplaceBy(key) => has_same(key, known, item),
            Self::Union => false,
            Self::Append | Self::Whole => return false,
        };
        has_keys || item.as_object().map_or(known == item, |fields| known.as_object() == Some(&fresh(fields)))
    }

    /// Merges the user's `item` into `known`, which has the same keys.
    fn join(self, known: &mut Value, item: &Fields) {
        match (self, known.as_object_mut()) {
            (Self::Merge(_), Some(known)) => over_object(known, item),
            (Self::Choose(keys), Some(known)) => {
                if item.len() > keys.len() {
                    known.retain(|field, _| item.contains_key(field));
                }
                over_object(known, item);
            }
            (Self::ReplaceBy(_), Some(known)) => {
                let joined = joined_options(known, item);
                *known = fresh(item);
                if let Some(joined) = joined {
                    known.insert("value".to_owned(), joined.into());
                }
            }
            _ => {}
        }
    }
}

/// True if both have `key` with the same value.
fn has_same(key: &str, known: &Value, item: &Value) -> bool {
    let default = || (key == "protocol").then_some("TCP").map(Value::from);
    let of = |value: &Value| value.get(key).cloned().or_else(default);
    of(item).is_some_and(|wanted| of(known) == Some(wanted))
}

/// The options of sackd, ours before the user's: without ours it would not find slurmctld. `None` for other variables.
fn joined_options(known: &Fields, item: &Fields) -> Option<String> {
    let text = |variable: &Fields| variable.get("value").and_then(Value::as_str).map(str::to_owned);
    let is_joined = item.get("name").and_then(Value::as_str) == Some(env::SACKD_OPTIONS);
    let (ours, theirs) = (text(known).filter(|_| is_joined)?, text(item)?);
    let has_ours = theirs == ours || theirs.starts_with(&format!("{ours} "));
    Some(if has_ours { theirs } else { format!("{ours} {theirs}") })
}
