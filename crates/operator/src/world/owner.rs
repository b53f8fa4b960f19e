//! Owners of objects: the controller of a pod, and checks with the API server, as the cache may be stale, that owners are not terminating.

use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;
use slipway_api::{API_VERSION, GROUP, child::ChildKey};
use slipway_runtime::{apply::Id, view::PodView};

use crate::world::{context::Context, error::Error, memory::is_recent};

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

/// True if the NodeSet with this UID controls the pod or has just adopted it.
pub(crate) fn is_ours(pod: &PodView, uid: &str, context: &Context) -> bool {
    match controller(pod) {
        Some(controller) => controller == uid,
        None => adopter(pod, context).is_some_and(|adopter| adopter == uid),
    }
}

/// UID of the pod's controller.
pub(crate) fn controller(pod: &PodView) -> Option<&str> {
    pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

/// The NodeSet that has just adopted the pod; the cache may not show it yet.
pub(crate) fn adopter(pod: &PodView, context: &Context) -> Option<String> {
    let (adopter, at) = context.memory.adopted.get(&pod.uid()?)?;
    is_recent(at, context.clock.now()).then_some(adopter)
}
