//! Reads that several kinds share. A missing object is a value, not an error.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use slipway_api::{LocalRef, SecretKeyRef, digest};
use slipway_plan::{Wait, unmet};
use slipway_render::controller::ConfigFiles;

use crate::{context::Context, error::Error, secret::SecretDigest};

/// The hash of the Secret that `reference` names, or what is missing.
///
/// Secrets are read by name and never watched: the operator needs no right to list them. Changes are seen at the next look.
pub(crate) async fn observe_key(
    context: &Context,
    namespace: &str,
    reference: Option<&SecretKeyRef>,
    field: &str,
) -> Result<Result<String, Wait>, Error> {
    let Some(SecretKeyRef { name, key, .. }) = reference.filter(|reference| !reference.name.is_empty()) else {
        return Ok(Err(unmet::no_reference(field)));
    };
    let secrets: Api<SecretDigest> = Api::namespaced(context.client.clone(), namespace);
    let found = secrets.get_opt(name).await.map_err(Error::read(format!("Secret `{namespace}/{name}`")))?;
    Ok(match found {
        None => Err(unmet::no_secret(namespace, name, field)),
        Some(secret) if !secret.content.keys.contains(key) => Err(unmet::no_key(namespace, name, key, field)),
        Some(secret) => Ok(secret.content.hash),
    })
}

/// The user's configuration files, or what is missing.
pub(crate) async fn observe_config_files(
    context: &Context,
    namespace: &str,
    references: &[LocalRef],
    field: &str,
) -> Result<Result<Vec<ConfigFiles>, Wait>, Error> {
    let config_maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), namespace);
    let mut files = Vec::with_capacity(references.len());
    for LocalRef { name } in references {
        if name.is_empty() {
            return Ok(Err(unmet::no_reference(field)));
        }
        let found = config_maps.get_opt(name).await.map_err(Error::read(format!("ConfigMap `{namespace}/{name}`")))?;
        let Some(config_map) = found else { return Ok(Err(unmet::no_config_map(namespace, name, field))) };
        let mut content: BTreeMap<String, Vec<u8>> =
            config_map.data.unwrap_or_default().into_iter().map(|(file, text)| (file, text.into_bytes())).collect();
        content.extend(config_map.binary_data.unwrap_or_default().into_iter().map(|(file, bytes)| (file, bytes.0)));
        let hash = digest::of_map(&content);
        files.push(ConfigFiles { name: name.clone(), files: content.into_keys().collect(), hash });
    }
    Ok(Ok(files))
}
