//! Writes status, only where it differs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Resource, ResourceExt, core::ApiResource};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use slipway_api::{
    API_VERSION, ControllerStatus, NodeSet, NodeSetStatus, RestApi, RestApiStatus, SlurmController,
    condition::{self, Reason},
    label::Component,
};
use slipway_plan::{Report, drift::covers};
use slipway_render::nodeset::template_hash;
use slipway_runtime::{
    failure::{Classify, Failure, chain},
    metrics::Write,
};

use crate::{
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
    /// Fills in what the schema requires.
    fn complete(&self, _status: &mut Self::Status) {}
}

impl Reported for SlurmController {
    type Status = ControllerStatus;
    const KIND: &'static str = "Controller";

    fn status(&self) -> Option<&ControllerStatus> {
        self.status.as_ref()
    }
    fn conditions(status: &mut ControllerStatus) -> &mut Vec<Condition> {
        &mut status.conditions
    }
}

impl Reported for RestApi {
    type Status = RestApiStatus;
    const KIND: &'static str = "RestApi";

    fn status(&self) -> Option<&RestApiStatus> {
        self.status.as_ref()
    }
    fn conditions(status: &mut RestApiStatus) -> &mut Vec<Condition> {
        &mut status.conditions
    }
}

impl Reported for NodeSet {
    type Status = NodeSetStatus;
    const KIND: &'static str = "NodeSet";

    fn status(&self) -> Option<&NodeSetStatus> {
        self.status.as_ref()
    }
    fn conditions(status: &mut NodeSetStatus) -> &mut Vec<Condition> {
        &mut status.conditions
    }
    fn complete(&self, status: &mut NodeSetStatus) {
        status.node_set_hash = template_hash(self);
        status.selector = Component::Worker.selector_text(&self.name_any());
        status.observed_generation = self.metadata.generation;
    }
}

/// Writes what the plan reports; `fill` sets the fields that only this kind has.
pub(crate) async fn report<K: Reported>(
    object: &K,
    report: &Report,
    fill: impl FnOnce(&mut K::Status),
    context: &Context,
) -> Result<(), Error> {
    let ready = Readiness { is_ready: report.is_ready(), reason: report.reason(), message: report.message() };
    write(object, ready, fill, context).await
}

/// Writes that the last pass failed. What else the status says stays as it was.
pub(crate) async fn report_failure<K: Reported, E: Classify>(object: &K, failure: &Failure<E>, context: &Context) {
    let ready = Readiness { is_ready: false, reason: Reason::ReconcileFailed, message: chain(failure) };
    if let Err(error) = write(object, ready, |_| {}, context).await {
        tracing::warn!(error = chain(&error), "the failure could not be shown on the resource");
    }
}

struct Readiness {
    is_ready: bool,
    reason: Reason,
    message: String,
}

async fn write<K: Reported>(object: &K, ready: Readiness, fill: impl FnOnce(&mut K::Status), context: &Context) -> Result<(), Error> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let key = format!("{}/{namespace}/{name}", K::KIND);
    let now = context.clock.now();

    // The status that the server has: what we sent last, as long as the cache is behind.
    let sent = context.memory.statuses.get(&key);
    let unseen = sent.filter(|sent| sent.before == object.resource_version() && is_recent(sent.at, now));
    let known = match unseen {
        Some(sent) => serde_json::from_value(sent.status).unwrap_or_default(),
        None => object.status().cloned().unwrap_or_default(),
    };

    let mut status = known.clone();
    object.complete(&mut status);
    fill(&mut status);
    let Readiness { is_ready, reason, message } = ready;
    let conditions = K::conditions(&mut status);
    let condition = condition::ready(is_ready, reason, message, object.meta().generation, conditions, Time(now));
    // Ours only: conditions of others are theirs to keep.
    *conditions = vec![condition];

    let (known, status) = (to_value(&known), to_value(&status));
    if has_condition(&known, &status) && covers(&without_conditions(&known), &without_conditions(&status)) {
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
    tracing::info!(object = %key, ready = is_ready, message = %body["status"]["conditions"][0]["message"].as_str().unwrap_or_default(), "reported");
    context.memory.statuses.insert(key, SentStatus { before: object.resource_version(), status, at: now });
    Ok(())
}

/// Whether the one condition of `status` is among those of `known`.
fn has_condition(known: &Value, status: &Value) -> bool {
    let ours = &status["conditions"][0];
    known["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(|condition| covers(condition, ours)))
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
