//! Writes: server-side apply, status, create and delete of raw objects.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    core::ApiResource,
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
    /// That it is gone, or another took its name, is success.
    pub async fn mark(&self, kind: &ApiResource, object: Id<'_>, labels: &Value, annotations: &Value) -> Result<(), kube::Error> {
        let Id { namespace, name, uid } = object;
        // The server refuses a patch that names another UID than the object's.
        let body = json!({ "metadata": { "uid": uid, "labels": labels, "annotations": annotations } });
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        moot_is_fine(self.api(kind, namespace).patch(name, &params, &Patch::Merge(&body)).await.map(drop))
    }

    /// Takes fields of an object away, whoever set them, if it is still the one with this UID; `fields` has a `null` for each. That it is gone,
    /// or another took its name, is success.
    pub async fn prune(&self, kind: &ApiResource, object: Id<'_>, fields: &Value) -> Result<(), kube::Error> {
        let Id { namespace, name, uid } = object;
        let mut body = fields.clone();
        body["metadata"] = json!({ "uid": uid });
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        moot_is_fine(self.api(kind, namespace).patch(name, &params, &Patch::Merge(&body)).await.map(drop))
    }

    /// Deletes an object if it is still the one with this UID; that it is gone, or another took its name, is success. `grace` is for pods:
    /// how long their processes may take to end, if not as long as they say themselves.
    pub async fn delete(&self, kind: &ApiResource, object: Id<'_>, grace: Option<Duration>) -> Result<(), kube::Error> {
        let Id { namespace, name, uid } = object;
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let grace_period_seconds = grace.map(|grace| u32::try_from(grace.as_secs()).unwrap_or(u32::MAX));
        let params = DeleteParams { preconditions: Some(preconditions), grace_period_seconds, ..DeleteParams::default() };
        moot_is_fine(self.api(kind, namespace).delete(name, &params).await.map(drop))
    }

    fn api(&self, kind: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, kind)
    }

    fn forced(&self) -> PatchParams {
        PatchParams::apply(self.manager).force()
    }
}

fn moot_is_fine(outcome: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        other => other,
    }
}
