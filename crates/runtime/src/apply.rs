//! Writes: server-side apply, status, create and delete of raw objects.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    core::{ApiResource, Status},
};
use serde_json::{Value, json};

/// Identity of one object, not of a later one with the same name.
#[derive(Clone, Copy, Debug)]
pub struct Id<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// Writes to the API server under one field manager.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    manager: &'static str,
}

impl Writer {
    pub fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager }
    }

    /// Applies `body` and takes its fields over from other managers. Returns the object as the server stored it.
    pub async fn apply(&self, kind: &ApiResource, namespace: &str, name: &str, body: &Value) -> Result<Value, kube::Error> {
        let answer = self.api(kind, namespace).patch(name, &self.forced(), &Patch::Apply(body)).await?;
        serde_json::to_value(answer).map_err(kube::Error::SerdeError)
    }

    /// Applies the status in `body`. Returns the object as the server stored it.
    pub async fn apply_status(&self, kind: &ApiResource, namespace: &str, name: &str, body: &Value) -> Result<Value, kube::Error> {
        let answer = self.api(kind, namespace).patch_status(name, &self.forced(), &Patch::Apply(body)).await?;
        serde_json::to_value(answer).map_err(kube::Error::SerdeError)
    }

    /// Creates an object. Fails with code 409 if it exists.
    pub async fn create(&self, kind: &ApiResource, namespace: &str, body: Value) -> Result<(), kube::Error> {
        let object: DynamicObject = serde_json::from_value(body).map_err(kube::Error::SerdeError)?;
        let params = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        self.api(kind, namespace).create(&params, &object).await.map(drop)
    }

    /// Changes labels and annotations of an object, and nothing else, if it still has this UID; `null` removes one. Returns the new version, or
    /// `None` if the object is gone or another one has its name.
    pub async fn mark(
        &self,
        kind: &ApiResource,
        object: Id<'_>,
        labels: &Value,
        annotations: &Value,
    ) -> Result<Option<String>, kube::Error> {
        let Id { namespace, name, uid } = object;
        // The server refuses a patch whose UID differs from the object's.
        let body = json!({ "metadata": { "uid": uid, "labels": labels, "annotations": annotations } });
        Ok(moot_is_none(self.api(kind, namespace).patch(name, &self.plain(), &Patch::Merge(&body)).await)?.and_then(version))
    }

    /// Sets the conditions whose types are `ours` to exactly these, if the object still has this UID. Conditions of others stay, even if they change
    /// concurrently. Returns the new version, or `None` if the object is gone or another one has its name.
    pub async fn show_conditions(
        &self,
        kind: &ApiResource,
        object: Id<'_>,
        conditions: &[Value],
        ours: fn(&str) -> bool,
    ) -> Result<Option<String>, kube::Error> {
        let Id { namespace, name, uid } = object;
        let api = self.api(kind, namespace);
        // The server tracks ownership of the status separately, so this apply removes nothing that we applied elsewhere.
        let mut body = json!({
            "apiVersion": kind.api_version, "kind": kind.kind, "metadata": { "namespace": namespace, "name": name, "uid": uid },
        });
        if !conditions.is_empty() {
            body["status"]["conditions"] = conditions.into();
        }
        let Some(answer) = moot_is_none(api.patch_status(name, &self.forced(), &Patch::Apply(&body)).await)? else { return Ok(None) };
        // Conditions that another operator wrote before us stay in its ownership until someone removes them.
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

    /// Adds `owner` to an object and removes other owners, by their UIDs, if the object still has this UID. All other owners stay. Returns the new
    /// version, or `None` if the object is gone or another one has its name.
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

    /// Removes fields of an object, no matter who set them. `fields` has a `null` for each, and the value of a field that replaces one. If a UID is
    /// given, only the object with that UID is changed. Succeeds if the object is gone or another one has its name.
    pub async fn prune(&self, kind: &ApiResource, object: Id<'_>, fields: &Value) -> Result<(), kube::Error> {
        let Id { namespace, name, uid } = object;
        let mut body = fields.clone();
        if !uid.is_empty() {
            body["metadata"] = json!({ "uid": uid });
        }
        moot_is_none(self.api(kind, namespace).patch(name, &self.plain(), &Patch::Merge(&body)).await).map(drop)
    }

    /// Sets the finalizers of an object if it still has this UID and this version: someone else may have added one. Returns true if they are set or
    /// the object is gone, and false if someone else wrote first: then it has to be read again.
    pub async fn finalizers(&self, kind: &ApiResource, object: Id<'_>, version: &str, finalizers: &Value) -> Result<bool, kube::Error> {
        let Id { namespace, name, uid } = object;
        let body = json!({ "metadata": { "uid": uid, "resourceVersion": version, "finalizers": finalizers } });
        match self.api(kind, namespace).patch(name, &self.plain(), &Patch::Merge(&body)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            outcome => moot_is_none(outcome).map(|_| true),
        }
    }

    /// Deletes an object if it still has this UID. Succeeds if it is gone or another one has its name. `grace` replaces a pod's own termination grace
    /// period.
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

/// Turns the errors for an object that is gone, or whose name another one has, into `None`.
fn moot_is_none<T>(outcome: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) || is_about_another(&status) => Ok(None),
        other => other.map(Some),
    }
}

/// True if the server refused an apply because it would change the object's UID: it is another object.
fn is_about_another(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    status.code == 422 && causes.iter().any(|cause| cause.field == "metadata.uid")
}

fn version(object: DynamicObject) -> Option<String> {
    object.metadata.resource_version
}
