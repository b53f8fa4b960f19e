//! Checks with the API server, as the cache may be stale, that a child's owners are not terminating.

use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;
use slipway_api::{API_VERSION, GROUP, child::ChildKey};
use slipway_runtime::apply::Id;

use crate::{context::Context, error::Error};

/// True if every owner that `desired` names and `live` lacks still exists and is not terminating. A child that does not exist lacks all owners.
///
/// When a resource is deleted, its children are deleted or lose their owner reference. The two watches may report this in any order. If the child's
/// comes first, recreating the child or restoring the reference would undo the deletion.
pub(crate) async fn owners_stay(key: &ChildKey, live: Option<&Value>, desired: &Value, context: &Context) -> Result<bool, Error> {
    let owners = |object: &Value| object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let known = live.map(owners).unwrap_or_default();
    for owner in owners(desired).iter().filter(|owner| known.iter().all(|known| known["uid"] != owner["uid"])) {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        if !stays(text("kind"), Id { namespace: &key.namespace, name: text("name"), uid: text("uid") }, context).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if a resource of ours still has this UID and is not terminating.
pub(crate) async fn stays(kind: &str, object: Id<'_>, context: &Context) -> Result<bool, Error> {
    let Id { namespace, name, uid } = object;
    let version = API_VERSION.rsplit('/').next().unwrap_or_default();
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, version, kind), &format!("{}s", kind.to_lowercase()));
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), namespace, &resource);
    // Lists one object, as the right to list exists anyway.
    let found = api.list(&ListParams::default().fields(&format!("metadata.name={name}"))).await;
    let found = found.map_err(Error::read(format!("{kind} `{namespace}/{name}`")))?;
    Ok(found.items.iter().any(|object| object.uid().as_deref() == Some(uid) && object.metadata.deletion_timestamp.is_none()))
}
