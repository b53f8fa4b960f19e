//! Writes status, only if it differs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Resource, ResourceExt, core::ApiResource};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use slipway_api::{
    API_VERSION, Accounting, AccountingStatus, ControllerStatus, LoginSet, LoginSetStatus, NodeSet, NodeSetStatus, RestApi, RestApiStatus,
    SlurmController, Token, TokenStatus,
    condition::{ConditionStatus, ConditionUpdate, OURS, READY, Reason, SCHEMA_CURRENT, SPEC_ACCEPTED},
    label::Component,
};
use slipway_plan::{
    Report,
    drift::covers,
    finding::{Finding, refusal},
};
use slipway_render::nodeset::revision;
use slipway_runtime::{
    events::Kind,
    failure::{Classify, Failure, chain},
    metrics::Write,
};

use crate::world::{
    context::Context,
    error::Error,
    memory::{SentStatus, is_recent},
};

/// A kind whose status we write.
pub(crate) trait Reported: Resource<DynamicType = ()> + Serialize {
    type Status: Serialize + DeserializeOwned + Default + Clone;
    const KIND: &'static str;

    fn status(&self) -> Option<&Self::Status>;
    fn conditions(status: &mut Self::Status) -> &mut Vec<Condition>;
    /// Fills in the fields that the schema requires.
    fn complete(&self, _status: &mut Self::Status) {}
}

macro_rules! reported {
    ($type:ty, $status:ty, $kind:literal $(, $complete:item)?) => {
        impl Reported for $type {
            type Status = $status;
            const KIND: &'static str = $kind;

            fn status(&self) -> Option<&$status> {
                self.status.as_ref()
            }
            fn conditions(status: &mut $status) -> &mut Vec<Condition> {
                &mut status.conditions
            }
            $($complete)?
        }
    };
}

reported!(Accounting, AccountingStatus, "Accounting");
reported!(SlurmController, ControllerStatus, "Controller");
reported!(
    LoginSet,
    LoginSetStatus,
    "LoginSet",
    fn complete(&self, status: &mut LoginSetStatus) {
        status.selector = Component::Login.selector_text(&self.name_any());
    }
);
reported!(
    NodeSet,
    NodeSetStatus,
    "NodeSet",
    fn complete(&self, status: &mut NodeSetStatus) {
        // Only a reconcile knows which stored revision it is.
        if status.node_set_hash.is_empty() {
            status.node_set_hash = revision::hash(self);
        }
        status.selector = Component::Worker.selector_text(&self.name_any());
        status.observed_generation = self.metadata.generation;
    }
);
reported!(RestApi, RestApiStatus, "RestApi");
reported!(Token, TokenStatus, "Token");

/// Writes the plan's report; `fill` sets the fields that only this kind has.
pub(crate) async fn report<K: Reported>(
    object: &K,
    report: &Report,
    fill: impl FnOnce(&mut K::Status),
    context: &Context,
) -> Result<(), Error> {
    let ready = ConditionUpdate { type_: READY, status: report.is_ready().into(), reason: report.reason(), message: report.message() };
    let condition_updates = std::iter::once(ready)
        .chain(report.condition_updates.clone())
        .chain(accepted(&report.findings))
        .chain(context.guard.condition_update(K::KIND))
        .collect();
    write(object, condition_updates, &report.moments, &[], fill, context).await
}

/// Keeps the findings about an object, for a reconcile that fails before it can report.
pub(crate) fn note_findings<K: Reported>(object: &K, findings: &[Finding], context: &Context) {
    context.memory.findings.insert(key_of(object), findings.to_vec());
}

/// Reports that the last reconcile failed. The rest of the status stays as it was.
pub(crate) async fn report_failure<K: Reported, E: Classify>(object: &K, failure: &Failure<E>, context: &Context) {
    let ready = ConditionUpdate { type_: READY, status: ConditionStatus::False, reason: Reason::ReconcileFailed, message: chain(failure) };
    let noted = context.memory.findings.get(&key_of(object));
    // Findings are written from memory if there are any; otherwise the condition about them stays too.
    let is_kept = |type_: &&str| match *type_ {
        READY | SCHEMA_CURRENT => false,
        SPEC_ACCEPTED => noted.is_none(),
        _ => true,
    };
    let kept: Vec<&str> = OURS.into_iter().filter(is_kept).collect();
    let findings = accepted(&noted.unwrap_or_default());
    let condition_updates = std::iter::once(ready).chain(findings).chain(context.guard.condition_update(K::KIND)).collect();
    if let Err(error) = write(object, condition_updates, &BTreeMap::new(), &kept, |_| {}, context).await {
        tracing::warn!(error = chain(&error), "cannot write the failure to the status");
    }
}

fn key_of<K: Reported>(object: &K) -> String {
    format!("{}/{}/{}", K::KIND, object.namespace().unwrap_or_default(), object.name_any())
}

/// The webhook's findings as a condition, for users whom the webhook did not reach; `None` if there are no findings.
fn accepted(findings: &[Finding]) -> Option<ConditionUpdate> {
    let all: Vec<_> = findings.iter().map(|finding| finding.words.as_str()).collect();
    let is_true = refusal(findings).is_none();
    let reason = if is_true { Reason::Warnings } else { Reason::InvalidSpec };
    (!findings.is_empty()).then(|| ConditionUpdate {
        type_: SPEC_ACCEPTED,
        status: is_true.into(),
        reason,
        message: shortened(&all.join("; ")),
    })
}

/// Shortens a message. The schema allows 32768 characters, more than anyone reads.
fn shortened(text: &str) -> String {
    const MOST: usize = 2000;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Writes `condition_updates` as conditions and keeps the existing ones in `kept`; other conditions of ours are removed. `moments` become the times
/// of their last transitions.
async fn write<K: Reported>(
    object: &K,
    condition_updates: Vec<ConditionUpdate>,
    moments: &BTreeMap<&'static str, Timestamp>,
    kept: &[&str],
    fill: impl FnOnce(&mut K::Status),
    context: &Context,
) -> Result<(), Error> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let key = key_of(object);
    let now = context.clock.now();

    // The status on the server: our last write, as long as the cache is stale.
    let sent = context.memory.statuses.get(&key);
    let unseen = sent.as_ref().filter(|sent| sent.before == object.resource_version() && is_recent(sent.at, now));
    let known = match unseen {
        Some(sent) => serde_json::from_value(sent.status.clone()).unwrap_or_default(),
        None => object.status().cloned().unwrap_or_default(),
    };

    let mut status = known.clone();
    object.complete(&mut status);
    fill(&mut status);
    let before = std::mem::take(K::conditions(&mut status));
    let generation = object.meta().generation;
    // Ours only: conditions of others stay with their owners.
    let conditions = before.iter().filter(|condition| kept.contains(&condition.type_.as_str())).cloned();
    let ready = condition_updates.iter().find(|condition_update| condition_update.type_ == READY).cloned();
    let said = condition_updates.into_iter().map(|condition_update| {
        let moment = moments.get(condition_update.type_);
        let condition = condition_update.condition(generation, &before, Time(now));
        Condition { last_transition_time: moment.map_or(condition.last_transition_time, |moment| Time(*moment)), ..condition }
    });
    *K::conditions(&mut status) = said.chain(conditions).collect();

    let (mut known, mut status) = (to_value(&known), to_value(&status));
    // Fields that the server does not keep would make the write fail, and would differ forever.
    if !context.guard.prune_status(K::KIND, &mut status) || status.as_object().is_none_or(serde_json::Map::is_empty) {
        return Ok(());
    }
    context.guard.prune_status(K::KIND, &mut known);
    let (there, wanted) = (without_conditions(&known), without_conditions(&status));
    // A write removes fields that we no longer set, unless someone else sets them as well. So it is tried once.
    let is_clean = covers(&wanted, &there) || sent.is_some_and(|sent| sent.status == status);
    if has_our_conditions(&known, &status) && covers(&there, &wanted) && is_clean {
        return Ok(());
    }
    let body = json!({
        "apiVersion": API_VERSION, "kind": K::KIND,
        "metadata": { "namespace": namespace, "name": name },
        "status": status,
    });
    let resource = ApiResource::erase::<K>(&());
    let what = format!("write the status of {} `{namespace}/{name}`", K::KIND);
    context.writer.apply_status(&resource, &namespace, &name, &body).await.map_err(Error::write(what))?;
    context.metrics.writes.get_or_create(&Write { verb: "status", kind: K::KIND }).inc();
    if let Some(ready) = ready {
        tracing::info!(object = %key, ready = ready.status.as_str(), reason = ready.reason.as_str(), condition = %ready.message, "status updated");
        tell(object, &before, &ready, context);
    }
    context.memory.statuses.insert(key, SentStatus { before: object.resource_version(), status, at: now });
    Ok(())
}

/// Sends an event if the `Ready` condition got another status or reason; `before` are the previous conditions.
fn tell<K: Reported>(object: &K, before: &[Condition], ready: &ConditionUpdate, context: &Context) {
    let (status, reason) = (ready.status.as_str(), ready.reason.as_str());
    if !before.iter().any(|known| known.type_ == READY && known.status == status && known.reason == reason) {
        let kind = if ready.reason.is_trouble() { Kind::Warning } else { Kind::Normal };
        context.say(object, kind, reason, "Sync", &ready.message);
    }
}

/// True if our conditions in `known` match those in `status`.
fn has_our_conditions(known: &Value, status: &Value) -> bool {
    let ours = |status: &Value| -> Vec<Value> {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.filter(|condition| OURS.iter().any(|type_| condition["type"] == *type_)).cloned().collect()
    };
    let (known, wanted) = (ours(known), ours(status));
    known.len() == wanted.len() && wanted.iter().all(|condition| known.iter().any(|found| covers(found, condition)))
}

fn without_conditions(status: &Value) -> Value {
    let mut status = status.clone();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("conditions");
    }
    status
}

fn to_value(status: &impl Serialize) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::same(json!([{"type": "Ready", "status": "True"}]), json!([{"type": "Ready", "status": "True"}]), true)]
    #[case::one_of_others(json!([{"type": "Theirs"}, {"type": "Ready", "status": "True"}]), json!([{"type": "Ready", "status": "True"}]), true)]
    #[case::changed(json!([{"type": "Ready", "status": "False"}]), json!([{"type": "Ready", "status": "True"}]), false)]
    #[case::one_more(json!([{"type": "Ready", "status": "True"}]), json!([{"type": "Ready", "status": "True"}, {"type": "SpecAccepted", "status": "True"}]), false)]
    #[case::one_has_to_go(json!([{"type": "Ready", "status": "True"}, {"type": "SpecAccepted"}]), json!([{"type": "Ready", "status": "True"}]), false)]
    fn only_a_difference_in_our_own_conditions_is_written(#[case] known: Value, #[case] wanted: Value, #[case] expected: bool) {
        assert_eq!(has_our_conditions(&json!({ "conditions": known }), &json!({ "conditions": wanted })), expected);
    }

    #[test]
    fn a_long_story_is_cut_between_two_letters() {
        assert_eq!(shortened("ä"), "ä");
        assert!(shortened(&"ä".repeat(3000)).ends_with("ä ..."));
    }
}
