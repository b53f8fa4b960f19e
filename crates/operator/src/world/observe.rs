//! Reads shared by several kinds. A missing object is a value, not an error.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{ConfigMap, PersistentVolumeClaim},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client};
use serde::Serialize;
use slipway_api::{ConfigMapKeyRef, LocalRef, SecretKeyRef};
use slipway_plan::{
    Wait,
    finding::{Finding, Kind, References, findings},
    missing,
};
use slipway_render::controller::ConfigFiles;

use crate::world::{context::Context, error::Error, secret::Content};

/// The hash of the Secret named by `reference` of `asker`, or a `Wait` that names what is missing.
pub(crate) async fn observe_key(
    context: &Context,
    asker: &ObjectMeta,
    namespace: &str,
    reference: Option<&SecretKeyRef>,
    field: &str,
) -> Result<Result<String, Wait>, Error> {
    Ok(observe_secret(context, asker, namespace, reference, field).await?.map(|content| content.hash))
}

/// The Secret named by `reference` of `asker`, if it has the named key, or a `Wait` that names what is missing.
pub(crate) async fn observe_secret(
    context: &Context,
    asker: &ObjectMeta,
    namespace: &str,
    reference: Option<&SecretKeyRef>,
    field: &str,
) -> Result<Result<Content, Wait>, Error> {
    let Some(SecretKeyRef { name, key, .. }) = reference.filter(|reference| !reference.name.is_empty()) else {
        return Ok(Err(missing::no_reference(field)));
    };
    let found = context.secrets.get(&context.client, asker, (namespace, name, key)).await;
    let found = found.map_err(Error::read(format!("Secret `{namespace}/{name}`")))?;
    Ok(match found {
        None => Err(missing::no_secret(namespace, name, field)),
        Some(content) if !content.values.contains_key(key) => Err(missing::no_key(namespace, name, key, field)),
        Some(content) => Ok(content),
    })
}

/// The files in the user's ConfigMaps, or a `Wait` that names what is missing.
pub(crate) async fn observe_files(
    context: &Context,
    namespace: &str,
    references: Option<&[LocalRef]>,
    field: &str,
) -> Result<Result<Vec<ConfigFiles>, Wait>, Error> {
    let mut files = Vec::new();
    for LocalRef { name } in references.unwrap_or_default() {
        if name.is_empty() {
            return Ok(Err(missing::no_reference(field)));
        }
        let Some(content) = observe_config_map(context, namespace, name).await? else {
            return Ok(Err(missing::no_config_map(namespace, name, field)));
        };
        files.push(ConfigFiles { name: name.clone(), files: content });
    }
    Ok(Ok(files))
}

/// The value of one key of a ConfigMap, or a `Wait` that names what is missing.
pub(crate) async fn observe_config_key(
    context: &Context,
    namespace: &str,
    reference: &ConfigMapKeyRef,
    field: &str,
) -> Result<Result<String, Wait>, Error> {
    let ConfigMapKeyRef { name, key, .. } = reference;
    if name.is_empty() {
        return Ok(Err(missing::no_reference(field)));
    }
    let Some(mut content) = observe_config_map(context, namespace, name).await? else {
        return Ok(Err(missing::no_config_map(namespace, name, field)));
    };
    let text = content.remove(key).and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(text.ok_or_else(|| missing::no_config_key(namespace, name, key, field)))
}

/// The content of a ConfigMap, or `None` if it does not exist. The user's are read by name, because there may be thousands of others.
async fn observe_config_map(context: &Context, namespace: &str, name: &str) -> Result<Option<BTreeMap<String, Vec<u8>>>, Error> {
    let config_maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), namespace);
    let found = config_maps.get_opt(name).await.map_err(Error::read(format!("ConfigMap `{namespace}/{name}`")))?;
    Ok(found.map(|config_map| {
        let texts = config_map.data.unwrap_or_default().into_iter().map(|(file, text)| (file, text.into_bytes()));
        let bytes = config_map.binary_data.unwrap_or_default().into_iter().map(|(file, bytes)| (file, bytes.0));
        texts.chain(bytes).collect()
    }))
}

/// The access modes of a claim, or `None` if it does not exist.
pub(crate) async fn observe_claim(client: &Client, namespace: &str, name: &str) -> Result<Option<Vec<String>>, kube::Error> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    Ok(claims.get_opt(name).await?.map(|claim| claim.spec.and_then(|spec| spec.access_modes).unwrap_or_default()))
}

/// The storage class of a claim without a volume, empty if it names none; `None` if the claim does not exist or is bound.
pub(crate) async fn observe_unbound_claim(context: &Context, namespace: &str, name: &str) -> Result<Option<String>, Error> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(context.client.clone(), namespace);
    let found = claims.get_opt(name).await.map_err(Error::read(format!("claim `{namespace}/{name}`")))?;
    let unbound = found.and_then(|claim| claim.spec).filter(|spec| spec.volume_name.as_deref().unwrap_or_default().is_empty());
    Ok(unbound.map(|spec| spec.storage_class_name.unwrap_or_default()))
}

/// The findings about an object of a kind whose findings depend on no other object.
pub(crate) fn findings_of(kind: Kind, object: &impl Serialize) -> Vec<Finding> {
    findings(kind, &serde_json::to_value(object).unwrap_or_default(), &References::default())
}
