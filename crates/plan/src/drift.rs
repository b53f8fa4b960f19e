//! Comparison of a live child with its desired state.
//!
//! A child is applied only if it differs: an apply that changes nothing still costs the API server more than any other write.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::Value;
use slipway_api::{
    child::{Child, ChildKey, ChildKind},
    digest, quantity,
};

use crate::{Action, Plan};

/// Time for which the cache may lack our write before the write counts as undone.
const SETTLE: Duration = Duration::from_secs(10);

/// Known state of a child.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The object in the cache.
    pub live: Option<Arc<Value>>,
    /// Our last write.
    pub accepted: Option<Accepted>,
}

/// Known state of children, by key.
pub type SeenChildren = BTreeMap<ChildKey, Seen>;

/// Result of our last write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Digest of the request.
    sent: String,
    /// Digest of the response. It may differ from the request forever (`1024Mi` becomes `1Gi`) and still be settled.
    answer: String,
    /// Resource version in the cache when we wrote.
    before: Option<String>,
    /// Resource version of our write.
    made: Option<String>,
    at: Timestamp,
}

impl Accepted {
    pub fn new(sent: &Value, answer: &Value, before: Option<&Value>, at: Timestamp) -> Self {
        Self { sent: digest::of_json(sent), answer: essence(answer), before: version(before), made: version(Some(answer)), at }
    }

    /// True if a cache that shows `live` is older than our write. Versions are increasing numbers; if one is not a number, any change since our write
    /// counts as newer.
    fn is_unseen(&self, live: Option<&Value>, now: Timestamp) -> bool {
        let shown = version(live);
        let number = |version: &Option<String>| version.as_deref()?.parse::<u64>().ok();
        let is_older = match (number(&shown), number(&self.made)) {
            (Some(shown), Some(made)) => shown < made,
            _ => shown == self.before,
        };
        is_older && now.duration_since(self.at).unsigned_abs() < SETTLE
    }
}

/// Difference between a child and its desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// No difference.
    None,
    /// We wrote it, and the cache has not caught up.
    Settling,
    /// It is terminating; a new one can be created only afterwards.
    Going,
    /// It differs.
    Differs,
}

/// Compares the desired state of a child with its known state.
pub fn drift(desired: &Value, seen: &Seen, now: Timestamp) -> Drift {
    let sent_already = seen.accepted.as_ref().filter(|accepted| accepted.sent == digest::of_json(desired));
    let is_unseen = seen.accepted.as_ref().is_some_and(|accepted| accepted.is_unseen(seen.live.as_deref(), now));
    if is_unseen && sent_already.is_some() {
        return Drift::Settling;
    }
    let Some(live) = seen.live.as_deref() else { return Drift::Differs };
    if live["metadata"].get("deletionTimestamp").is_some_and(|time| !time.is_null()) {
        return Drift::Going;
    }
    // The cache is older than our last write, which was something else.
    if is_unseen {
        return Drift::Differs;
    }
    let is_settled = sent_already.is_some_and(|accepted| accepted.answer == essence(live));
    let is_right = is_settled || covers(live, desired);
    if is_right && foreign_files(live, desired).is_empty() { Drift::None } else { Drift::Differs }
}

/// Files that our live ConfigMap has and should not have: field and key of each. They matter because daemons read every file there, and an apply does
/// not remove what others added.
pub fn foreign_files(live: &Value, desired: &Value) -> Vec<(&'static str, String)> {
    if desired["kind"] != ChildKind::ConfigMap.as_str() {
        return Vec::new();
    }
    let foreign = |field: &'static str| {
        let files = live[field].as_object().into_iter().flatten().map(|(file, _)| file);
        files.filter(move |file| desired[field].get(file.as_str()).is_none()).map(move |file| (field, file.clone()))
    };
    ["data", "binaryData"].into_iter().flat_map(foreign).collect()
}

/// Adds an apply for each child that differs.
pub fn plan_children(desired: Vec<Child>, seen: &SeenChildren, now: Timestamp, plan: &mut Plan) {
    let unseen = Seen::default();
    for child in desired {
        match drift(&child.body, seen.get(&child.key).unwrap_or(&unseen), now) {
            Drift::Differs => plan.actions.push(Action::Apply(Box::new(child))),
            Drift::Settling | Drift::Going => plan.wake_within(SETTLE),
            Drift::None => {}
        }
    }
}

/// True if `live` has everything that `desired` asks for. Additions by others do not matter.
pub fn covers(live: &Value, desired: &Value) -> bool {
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => desired.iter().all(|(key, wanted)| {
            live.get(key).is_some_and(|found| covers(found, wanted) || is_same_amount(key, found, wanted))
                || (is_nothing(wanted) && !live.contains_key(key))
        }),
        (Value::Array(live), Value::Array(desired)) => {
            live.len() == desired.len() && live.iter().zip(desired).all(|(found, wanted)| covers(found, wanted))
        }
        _ => live == desired,
    }
}

/// True if both are equal resource quantities: the server normalizes their notation.
fn is_same_amount(key: &str, live: &Value, wanted: &Value) -> bool {
    let is_same = |live: &Value, wanted: &Value| {
        let text = |amount: &Value| amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        quantity::is_same(&text(live), &text(wanted))
    };
    match (key, live, wanted) {
        ("requests" | "limits", Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(resource, wanted)| live.get(resource).is_some_and(|live| is_same(live, wanted)))
        }
        ("sizeLimit", live, wanted) => is_same(live, wanted),
        _ => false,
    }
}

/// True for values that the server omits when it stores an object.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Digest of an object without its status and the server's counters.
fn essence(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for counter in ["resourceVersion", "generation", "managedFields"] {
            metadata.remove(counter);
        }
    }
    digest::of_json(&object)
}

fn version(object: Option<&Value>) -> Option<String> {
    Some(object?["metadata"]["resourceVersion"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests;
