//! Merges the user's container or pod spec over the generated one, on raw JSON, so that fields newer than our types survive.
//!
//! Objects merge, and a value set by the user wins, even `false`, `0` and `""`. `null` counts as unset, because charts send it for everything that
//! is not set; `$patch` removes a field, as in a strategic merge patch. Lists follow [`list::Rule`]. `docs/merging.md` documents this for users,
//! and a test runs its examples.

mod list;

use serde_json::{Map, Value};
use slipway_api::Raw;

type Fields = Map<String, Value>;

/// Actions, of which a probe or a hook may have only one.
const ACTIONS: [&str; 5] = ["exec", "grpc", "httpGet", "sleep", "tcpSocket"];

/// Objects that mean the same empty and unset. Charts send them empty, and an unchanged pod must not look changed. Other empty objects are
/// significant: `emptyDir: {}`, a selector that matches everything.
const SAY_NOTHING_WHEN_EMPTY: [&str; 16] = [
    "affinity",
    "capabilities",
    "dnsConfig",
    "lifecycle",
    "limits",
    "livenessProbe",
    "nodeAffinity",
    "nodeSelector",
    "overhead",
    "podAffinity",
    "podAntiAffinity",
    "readinessProbe",
    "requests",
    "resources",
    "securityContext",
    "startupProbe",
];

/// A container with the user's fields merged in.
pub fn container(base: Value, user: Option<&Raw>) -> Value {
    over(base, user)
}

/// A pod spec with the user's fields merged in.
pub fn pod_spec(base: Value, user: Option<&Raw>) -> Value {
    over(base, user)
}

fn over(mut base: Value, user: Option<&Raw>) -> Value {
    if let (Some(fields), Some(Raw(user))) = (base.as_object_mut(), user) {
        over_object(fields, &without_nulls(user));
    }
    base
}

/// The fields without nulls.
pub(crate) fn without_nulls(fields: &Fields) -> Fields {
    fn given(value: &Value) -> Value {
        match value {
            Value::Object(fields) => without_nulls(fields).into(),
            Value::Array(items) => items.iter().filter(|item| !item.is_null()).map(given).collect(),
            scalar => scalar.clone(),
        }
    }
    fields.iter().filter(|(_, value)| !value.is_null()).map(|(field, value)| (field.clone(), given(value))).collect()
}

fn over_object(base: &mut Fields, user: &Fields) {
    if Patch::of(user) == Patch::Replace {
        base.clear();
    }
    if user.keys().any(|field| ACTIONS.contains(&field.as_str())) {
        base.retain(|field, _| !ACTIONS.contains(&field.as_str()) || user.contains_key(field));
    }
    for (field, value) in user.iter().filter(|(field, _)| *field != Patch::KEY) {
        match value {
            Value::Object(fields) if Patch::of(fields) == Patch::Delete => {
                base.remove(field);
            }
            Value::Object(fields) => {
                if let Some(Value::Object(known)) = base.get_mut(field) {
                    over_object(known, fields);
                    continue;
                }
                let new = fresh(fields);
                if !new.is_empty() || !SAY_NOTHING_WHEN_EMPTY.contains(&field.as_str()) {
                    base.insert(field.clone(), new.into());
                }
            }
            Value::Array(items) => {
                let known = base.get_mut(field).and_then(Value::as_array_mut).map(std::mem::take);
                if let Some(list) = list::over(field, known, items) {
                    base.insert(field.clone(), list.into());
                }
            }
            scalar => {
                base.insert(field.clone(), scalar.clone());
            }
        }
    }
}

/// The user's object if there is no generated one.
fn fresh(user: &Fields) -> Fields {
    let mut new = Fields::new();
    over_object(&mut new, user);
    new
}

/// Directive of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patch {
    Merge,
    /// Removes the generated object.
    Delete,
    /// Replaces the generated object.
    Replace,
}

impl Patch {
    const KEY: &'static str = "$patch";

    fn of(fields: &Fields) -> Self {
        match fields.get(Self::KEY).and_then(Value::as_str) {
            Some("delete") => Self::Delete,
            Some("replace") => Self::Replace,
            _ => Self::Merge,
        }
    }
}

#[cfg(test)]
mod tests;
