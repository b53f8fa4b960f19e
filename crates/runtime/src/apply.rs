//! Writes: server-side apply, status, create and delete of raw objects.

use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    core::ApiResource,
};
use serde_json::Value;

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

    /// Deletes an object if it is still the one with this UID; that it is gone, or another took its name, is success.
    pub async fn delete(&self, kind: &ApiResource, namespace: &str, name: &str, uid: &str) -> Result<(), kube::Error> {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.api(kind, namespace).delete(name, &params).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn api(&self, kind: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, kind)
    }

    fn forced(&self) -> PatchParams {
        PatchParams::apply(self.manager).force()
    }
}
