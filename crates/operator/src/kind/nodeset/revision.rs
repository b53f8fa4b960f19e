//! Stored revisions of a NodeSet's template.

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{ResourceExt, core::ApiResource};
use serde_json::{Value, json};
use slipway_api::{NodeSet, label, label::Component, name, owner};
use slipway_plan::nodeset::{Revision, Revisions};
use slipway_render::nodeset::revision as render;
use slipway_runtime::{apply::Id, metrics::Write};

use crate::world::{context::Context, error::Error, memory::is_recent};

/// The current template and its stored revisions.
pub(super) fn observe_revisions(nodeset: &NodeSet, context: &Context) -> Revisions {
    let data = render::data(nodeset);
    let uid = nodeset.uid().unwrap_or_default();
    let seen = context.stores.revisions.state_filter(|view| {
        let owners = view.metadata.owner_references.iter().flatten();
        view.metadata.namespace == nodeset.metadata.namespace
            && owners.into_iter().any(|owner| owner.uid == uid && owner.controller == Some(true))
    });
    let mut stored: Vec<Revision> = seen
        .iter()
        .filter(|view| view.metadata.deletion_timestamp.is_none() && !is_dropped(&view.uid().unwrap_or_default(), context))
        .map(|view| Revision {
            name: view.name_any(),
            uid: view.uid().unwrap_or_default(),
            hash: hash_of(nodeset, &view.name_any(), view.labels().get(label::TEMPLATE_HASH)),
            number: view.revision,
            meaning: render::meaning(&view.data),
        })
        .collect();
    // A revision that we just stored and that the cache does not show yet.
    let now = context.clock.now();
    let key = key(nodeset);
    if let Some((just, at)) = context.memory.stored.get(&key) {
        let is_dropped = is_dropped(&just.name, context);
        if is_recent(at, now) && !is_dropped && stored.iter().all(|known| known.name != just.name) {
            stored.push(just);
        }
    }
    stored.sort_by(|one, other| one.name.cmp(&other.name));
    let keep = usize::try_from(nodeset.spec.revision_history_limit).unwrap_or(0);
    Revisions { meaning: render::meaning(&data), data, stored, keep }
}

/// True if we just dropped the revision with this UID, or with this name if the cache had not shown it yet.
fn is_dropped(uid_or_name: &str, context: &Context) -> bool {
    context.memory.deleted.get(&uid_or_name.to_owned()).is_some_and(|at| is_recent(at, context.clock.now()))
}

/// Hash from the label, else from the name.
fn hash_of(nodeset: &NodeSet, revision: &str, label: Option<&String>) -> String {
    let of_name = || revision.strip_prefix(&name::worker_revision(&nodeset.name_any(), "")).unwrap_or_default().to_owned();
    label.cloned().unwrap_or_else(of_name)
}

/// Stores a template. An existing revision with that name is equivalent: the name is derived from the content.
pub(crate) async fn store(nodeset: &NodeSet, name: &str, hash: &str, number: i64, data: &Value, context: &Context) -> Result<(), Error> {
    let namespace = nodeset.namespace().unwrap_or_default();
    let mut labels: serde_json::Map<String, Value> =
        Component::Worker.selector(&nodeset.name_any()).into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    labels.insert(label::TEMPLATE_HASH.to_owned(), hash.into());
    let body = json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision",
        "metadata": { "name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner::controller_of(nodeset)] },
        "revision": number,
        "data": data,
    });
    match context.writer.create(&resource(), &namespace, body).await {
        Ok(()) => context.metrics.writes.get_or_create(&Write { verb: "create", kind: "ControllerRevision" }).inc(),
        Err(kube::Error::Api(status)) if status.code == 409 => 0,
        Err(error) => return Err(Error::write(format!("store revision `{namespace}/{name}`"))(error)),
    };
    let stored = Revision { name: name.to_owned(), uid: String::new(), hash: hash.to_owned(), number, meaning: render::meaning(data) };
    context.memory.stored.insert(key(nodeset), (stored, context.clock.now()));
    tracing::info!(revision = %format!("{namespace}/{name}"), number, "stored");
    Ok(())
}

/// Changes the number of a stored revision.
pub(crate) async fn renumber(namespace: &str, name: &str, uid: &str, number: i64, context: &Context) -> Result<(), Error> {
    let what = format!("renumber revision `{namespace}/{name}`");
    let patch = json!({ "revision": number });
    context.writer.prune(&resource(), Id { namespace, name, uid }, &patch).await.map_err(Error::write(what))?;
    context.metrics.writes.get_or_create(&Write { verb: "patch", kind: "ControllerRevision" }).inc();
    Ok(())
}

/// Deletes a former revision.
pub(crate) async fn drop_revision(namespace: &str, name: &str, uid: &str, context: &Context) -> Result<(), Error> {
    let what = format!("drop revision `{namespace}/{name}`");
    context.writer.delete(&resource(), Id { namespace, name, uid }, None).await.map_err(Error::write(what))?;
    context.metrics.writes.get_or_create(&Write { verb: "delete", kind: "ControllerRevision" }).inc();
    for key in [uid, name] {
        context.memory.deleted.insert(key.to_owned(), context.clock.now());
    }
    tracing::info!(revision = %format!("{namespace}/{name}"), "dropped");
    Ok(())
}

fn key(nodeset: &NodeSet) -> String {
    nodeset.uid().unwrap_or_default()
}

fn resource() -> ApiResource {
    ApiResource::erase::<ControllerRevision>(&())
}
