//! Whether the owners of a child stay, asked of the API server where the cache may be behind.

use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;
use slipway_api::{API_VERSION, GROUP, child::ChildKey};

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
        let version = API_VERSION.rsplit('/').next().unwrap_or_default();
        let kind = GroupVersionKind::gvk(GROUP, version, text("kind"));
        let resource = ApiResource::from_gvk_with_plural(&kind, &format!("{}s", text("kind").to_lowercase()));
        let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &key.namespace, &resource);
        // By a list of one, as the right to list is there anyway.
        let found = api.list(&ListParams::default().fields(&format!("metadata.name={}", text("name")))).await;
        let found = found.map_err(Error::read(format!("{} `{}/{}`", text("kind"), key.namespace, text("name"))))?;
        let stays = |object: &DynamicObject| object.uid().as_deref() == Some(text("uid")) && object.metadata.deletion_timestamp.is_none();
        if !found.items.iter().any(stays) {
            return Ok(false);
        }
    }
    Ok(true)
}
