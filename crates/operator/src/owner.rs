//! Whether the owners of a child stay, asked of the API server where the cache may be behind.

use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;
use slipway_api::{API_VERSION, GROUP, child::ChildKey};
use slipway_runtime::apply::Id;

use crate::{context::Context, error::Error};

/// Whether every owner that `desired` names and `live` lacks is still there and not about to go. A child that is not there lacks all.
///
/// With a resource its children are deleted, or its name is taken off them. Two watches may tell of that in any order: where the child's comes first,
/// making it anew, or putting the name back, would undo what somebody is just doing.
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

/// Whether a resource of ours is still the one with this UID, and not about to go.
pub(crate) async fn stays(kind: &str, object: Id<'_>, context: &Context) -> Result<bool, Error> {
    let Id { namespace, name, uid } = object;
    let version = API_VERSION.rsplit('/').next().unwrap_or_default();
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, version, kind), &format!("{}s", kind.to_lowercase()));
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), namespace, &resource);
    // By a list of one, as the right to list is there anyway.
    let found = api.list(&ListParams::default().fields(&format!("metadata.name={name}"))).await;
    let found = found.map_err(Error::read(format!("{kind} `{namespace}/{name}`")))?;
    Ok(found.items.iter().any(|object| object.uid().as_deref() == Some(uid) && object.metadata.deletion_timestamp.is_none()))
}
