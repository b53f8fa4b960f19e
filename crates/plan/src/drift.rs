//! Whether a live child is what it should be.
//!
//! A child is applied only when it differs: an apply that changes nothing still costs the API server more than any other write.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::Value;
use slipway_api::{
    child::{Child, ChildKey, ChildKind},
    digest, quantity,
};

use crate::{Action, Plan};

/// For so long a write of ours may stay unseen by the cache before we believe that it was undone.
const SETTLE: Duration = Duration::from_secs(10);

/// What is known about a child.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The object in the cache.
    pub live: Option<Arc<Value>>,
    /// Our last write.
    pub accepted: Option<Accepted>,
}

/// What is known about children, by key.
pub type SeenChildren = BTreeMap<ChildKey, Seen>;

/// What the server made of our last write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Digest of what we sent.
    sent: String,
    /// Digest of what the server answered. It may differ from what was sent for ever (`1024Mi` becomes `1Gi`), and is settled all the same.
    answer: String,
    /// Version of the object that the cache showed when we wrote.
    before: Option<String>,
    /// Version that our write made.
    made: Option<String>,
    at: Timestamp,
}

impl Accepted {
    pub fn new(sent: &Value, answer: &Value, before: Option<&Value>, at: Timestamp) -> Self {
        Self { sent: digest::of_json(sent), answer: essence(answer), before: version(before), made: version(Some(answer)), at }
    }

    /// Whether a cache that shows `live` is older than our write. Versions are numbers that only grow; where one is not, another than before counts.
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

/// How a child differs from what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// It does not.
    None,
    /// We wrote it, and the cache has not caught up.
    Settling,
    /// It is being deleted; a new one can come only after it.
    Going,
    /// It does.
    Differs,
}

/// Compares a child with what was seen of it.
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
    // The cache shows what it was before our last write, which was something else.
    if is_unseen {
        return Drift::Differs;
    }
    let is_settled = sent_already.is_some_and(|accepted| accepted.answer == essence(live));
    let is_right = is_settled || covers(live, desired);
    if is_right && foreign_files(live, desired).is_empty() { Drift::None } else { Drift::Differs }
}

/// Files that a live ConfigMap of ours has and should not: field and key of each. Daemons read every file that is there, so these do matter,
/// and an apply does not remove what others added.
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

/// Whether `live` has everything that `desired` asks for. What others added does not matter.
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

/// Whether both say how much there should be of something, and mean the same: the server writes amounts in its own way.
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

/// Values that the server leaves out when it stores an object.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Digest of what someone decided about an object, without what the server counts and reports.
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
