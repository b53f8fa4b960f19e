//! Writes: server-side apply, status, create and delete of raw objects.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    core::{ApiResource, Status},
};
use serde_json::{Value, json};

/// One object and no other that gets its name later.
#[derive(Clone, Copy, Debug)]
pub struct Id<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// Makes writes in one namespace under one field manager.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    manager: &'static str,
}

impl Writer {
    pub fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager }
    }

    /// Applies `body` and takes the fields in it over from whoever had them; answers with the object as the server stored it.
    pub async fn apply(&self, kind: &ApiResource, namespace: &str, name: &str, body: &Value) -> Result<Value, kube::Error> {
        let answer = self.api(kind, namespace).patch(name, &self.forced(), &Patch::Apply(body)).await?;
        serde_json::to_value(answer).map_err(kube::Error::SerdeError)
    }

    /// Applies the status in `body`; answers with the object as the server stored it.
    pub async fn apply_status(&self, kind: &ApiResource, namespace: &str, name: &str, body: &Value) -> Result<Value, kube::Error> {
        let answer = self.api(kind, namespace).patch_status(name, &self.forced(), &Patch::Apply(body)).await?;
        serde_json::to_value(answer).map_err(kube::Error::SerdeError)
    }

    /// Creates an object. That it exists already is an error with code 409.
    pub async fn create(&self, kind: &ApiResource, namespace: &str, body: Value) -> Result<(), kube::Error> {
        let object: DynamicObject = serde_json::from_value(body).map_err(kube::Error::SerdeError)?;
        let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        self.api(kind, namespace).create(&params, &object).await.map(drop)
    }

    /// Changes labels and annotations of an object if it is still the one with this UID, and nothing else of it; `null` takes one away.
    /// Answers with the version that this made, and with `None` where it is gone or another took its name.
    pub async fn mark(
        &self,
        kind: &ApiResource,
        object: Id<'_>,
        labels: &Value,
        annotations: &Value,
    ) -> Result<Option<String>, kube::Error> {
        let Id { namespace, name, uid } = object;
        // The server refuses a patch that names another UID than the object's.
        let body = json!({ "metadata": { "uid": uid, "labels": labels, "annotations": annotations } });
        Ok(moot_is_none(self.api(kind, namespace).patch(name, &self.plain(), &Patch::Merge(&body)).await)?.and_then(version))
    }

    /// Makes those conditions of an object whose types are `ours` exactly these, if it is still the one with this UID. Conditions of others stay,
    /// whatever they do to them meanwhile. Answers with the version that this made, and with `None` where it is gone or another took its name.
    pub async fn show_conditions(
        &self,
        kind: &ApiResource,
        object: Id<'_>,
        conditions: &[Value],
        ours: fn(&str) -> bool,
    ) -> Result<Option<String>, kube::Error> {
        let Id { namespace, name, uid } = object;
        let api = self.api(kind, namespace);
        // The server keeps apart who owns what of the status and of the rest, so what we say here takes nothing away that we said elsewhere.
        let mut body = json!({
            "apiVersion": kind.api_version, "kind": kind.kind, "metadata": { "namespace": namespace, "name": name, "uid": uid },
        });
        if !conditions.is_empty() {
            body["status"]["conditions"] = conditions.into();
        }
        let Some(answer) = moot_is_none(api.patch_status(name, &self.forced(), &Patch::Apply(&body)).await)? else { return Ok(None) };
        // What another operator wrote before us is its own until somebody takes it away.
        let types = |conditions: &[Value]| -> Vec<String> {
            conditions.iter().filter_map(|condition| condition["type"].as_str()).map(str::to_owned).collect()
        };
        let wanted = types(conditions);
        let stored = answer.data["status"]["conditions"].as_array().map(|stored| types(stored)).unwrap_or_default();
        let left: Vec<Value> = stored
            .into_iter()
            .filter(|type_| ours(type_) && !wanted.contains(type_))
            .map(|type_| json!({ "type": type_, "$patch": "delete" }))
            .collect();
        if left.is_empty() {
            return Ok(version(answer));
        }
        let body = json!({ "metadata": { "uid": uid }, "status": { "conditions": left } });
        Ok(moot_is_none(api.patch_status(name, &self.plain(), &Patch::Strategic(&body)).await)?.and_then(version))
    }

    /// Names `owner` on an object and takes other owners off it, by their UIDs, if it is still the one with this UID. Who else is named there stays.
    /// Answers with the version that this made, and with `None` where it is gone or another took its name.
    pub async fn own(
        &self,
        kind: &ApiResource,
        object: Id<'_>,
        owner: Option<&OwnerReference>,
        without: &[&str],
    ) -> Result<Option<String>, kube::Error> {
        let Id { namespace, name, uid } = object;
        let removed = without.iter().map(|uid| json!({ "uid": uid, "$patch": "delete" }));
        let owners: Vec<Value> = removed.chain(owner.map(|owner| json!(owner))).collect();
        let body = json!({ "metadata": { "uid": uid, "ownerReferences": owners } });
        Ok(moot_is_none(self.api(kind, namespace).patch(name, &self.plain(), &Patch::Strategic(&body)).await)?.and_then(version))
    }

    /// Takes fields of an object away, whoever set them, if it is still the one with this UID, where one is given; `fields` has a `null` for each,
    /// and the value of one that comes in its place. That it is gone, or another took its name, is success.
    pub async fn prune(&self, kind: &ApiResource, object: Id<'_>, fields: &Value) -> Result<(), kube::Error> {
        let Id { namespace, name, uid } = object;
        let mut body = fields.clone();
        if !uid.is_empty() {
            body["metadata"] = json!({ "uid": uid });
        }
        moot_is_none(self.api(kind, namespace).patch(name, &self.plain(), &Patch::Merge(&body)).await).map(drop)
    }

    /// Sets the finalizers of an object if it is still the one with this UID and as it was in this version: somebody else may have added one. That it is
    /// gone is success. Answers whether it came to that; otherwise somebody else wrote first, and it is to be looked at again.
    pub async fn finalizers(&self, kind: &ApiResource, object: Id<'_>, version: &str, finalizers: &Value) -> Result<bool, kube::Error> {
        let Id { namespace, name, uid } = object;
        let body = json!({ "metadata": { "uid": uid, "resourceVersion": version, "finalizers": finalizers } });
        match self.api(kind, namespace).patch(name, &self.plain(), &Patch::Merge(&body)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            outcome => moot_is_none(outcome).map(|_| true),
        }
    }

    /// Deletes an object if it is still the one with this UID; that it is gone, or another took its name, is success. `grace` is for pods:
    /// how long their processes may take to end, if not as long as they say themselves.
    pub async fn delete(&self, kind: &ApiResource, object: Id<'_>, grace: Option<Duration>) -> Result<(), kube::Error> {
        let Id { namespace, name, uid } = object;
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let grace_period_seconds = grace.map(|grace| u32::try_from(grace.as_secs()).unwrap_or(u32::MAX));
        let params = DeleteParams { preconditions: Some(preconditions), grace_period_seconds, ..DeleteParams::default() };
        moot_is_none(self.api(kind, namespace).delete(name, &params).await).map(drop)
    }

    fn api(&self, kind: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, kind)
    }

    fn plain(&self) -> PatchParams {
        PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() }
    }

    fn forced(&self) -> PatchParams {
        PatchParams::apply(self.manager).force()
    }
}

/// That an object is gone, or another took its name, is an answer too.
fn moot_is_none<T>(outcome: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) || is_about_another(&status) => Ok(None),
        other => other.map(Some),
    }
}

/// Whether the server found that an apply would change the object's UID, so that it is another object.
fn is_about_another(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    status.code == 422 && causes.iter().any(|cause| cause.field == "metadata.uid")
}

fn version(object: DynamicObject) -> Option<String> {
    object.metadata.resource_version
}
