//! The most frequent writes of scenarios to the API server: manifests, patches and deletions.

use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, ValidationDirective};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use serde_json::Value;
use slipway_bed::failure::{Context, Failure};

use crate::ask::{ApiServer, NOT_FOUND, wait_for};

/// Field manager of a user who applies by hand.
const FIELD_MANAGER: &str = "kubectl";
/// Time for which a refusal for the moment is not final.
const REFUSED_AFTER: Duration = Duration::from_secs(3);

impl ApiServer {
    /// Applies every document of a manifest as `kubectl apply --server-side` does; those without a namespace go to this one.
    pub fn apply(&self, manifest: &str, namespace: Option<&str>) -> Result<(), Failure> {
        let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(manifest).context(|| format!("this is no manifest: {manifest}"))?;
        let (client, namespace) = (self.client()?, namespace.unwrap_or("default").to_owned());
        wait_for(async move {
            for object in objects {
                apply(&client, object, &namespace).await?;
            }
            Ok(())
        })?
    }

    /// Posts an object to a path, such as that of a pod's eviction. The client repeats what the server refuses for the moment; after a while that is a
    /// refusal.
    pub fn create(&self, path: &str, object: &Value) -> Result<(), Failure> {
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(object.to_string().into_bytes())
            .context(|| format!("{path} is no path"))?;
        let client = self.client()?;
        let outcome = wait_for(async move { tokio::time::timeout(REFUSED_AFTER, client.request::<Value>(request)).await })?;
        outcome.context(|| format!("{path} is refused for now"))?.map(drop).context(|| format!("could not create {path}"))
    }

    /// Changes the object at a path with a JSON merge patch.
    pub fn merge(&self, path: &str, patch: &Value) -> Result<(), Failure> {
        let request = http::Request::patch(path)
            .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
            .body(patch.to_string().into_bytes())
            .context(|| format!("{path} is no path"))?;
        self.send(request)?.context(|| format!("could not change {path}"))
    }

    /// Deletes the object at a path, or all objects of a list, without waiting. An object that is already gone is no error.
    pub fn delete(&self, path: &str, grace_seconds: Option<u32>) -> Result<(), Failure> {
        let params = DeleteParams { grace_period_seconds: grace_seconds, ..DeleteParams::default() };
        let body = serde_json::to_vec(&params).context(|| "could not write the options of a deletion".to_owned())?;
        let request = http::Request::delete(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .context(|| format!("{path} is no path"))?;
        match self.send(request)? {
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(()),
            outcome => outcome.context(|| format!("could not delete {path}")),
        }
    }

    fn send(&self, request: http::Request<Vec<u8>>) -> Result<Result<(), kube::Error>, Failure> {
        let client = self.client()?;
        wait_for(async move { client.request::<Value>(request).await.map(drop) })
    }
}

async fn apply(client: &Client, object: DynamicObject, namespace: &str) -> Result<(), Failure> {
    let types = object.types.clone().unwrap_or_default();
    let name = object.metadata.name.clone().unwrap_or_default();
    let described = format!("{} `{name}`", types.kind);
    let kind = GroupVersionKind::try_from(&types).map_err(|error| Failure::new(format!("{described}: {error}")))?;
    let (resource, capabilities) = pinned_kind(client, &kind).await.context(|| format!("{described}: its kind is not known"))?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), object.metadata.namespace.as_deref().unwrap_or(namespace), &resource),
    };
    let params = PatchParams { field_validation: Some(ValidationDirective::Strict), ..PatchParams::apply(FIELD_MANAGER) };
    api.patch(&name, &params, &Patch::Apply(&object)).await.map(drop).context(|| format!("could not apply {described}"))
}
