//! Executes actions on child objects and pods. Every action is idempotent, and every delete is bound to a UID. Actions of NodeSets on their workers
//! are in `nodeset/act.rs`.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use slipway_api::child::{Child, ChildKey, ChildKind};
use slipway_plan::{
    Action, Marks, PodId,
    drift::{Accepted, foreign_files},
};
use slipway_runtime::{apply::Id, metrics::Write};

use crate::world::{
    context::{Context, pods, resource},
    error::Error,
    memory::{Sent, is_recent},
    owner::owners_stay,
};

/// Executes `actions` in order and stops at the first failure. Labels and annotations of several pods are written concurrently.
pub(crate) async fn act(actions: &[Action], context: &Context) -> Result<(), Error> {
    let are_marks = |one: &Action, next: &Action| matches!((one, next), (Action::MarkPod { .. }, Action::MarkPod { .. }));
    for group in actions.chunk_by(are_marks) {
        let outcomes = join_all(group.iter().map(|action| execute(action, context))).await;
        outcomes.into_iter().collect::<Result<(), Error>>()?;
    }
    Ok(())
}

/// Executes one action on a child object or a pod. Other actions are not executed here: those on workers are in `nodeset/act.rs`, and commands to
/// Slurm are sent by the cluster's session.
pub(crate) async fn execute(action: &Action, context: &Context) -> Result<(), Error> {
    match action {
        Action::Apply(child) => apply(child, context).await,
        Action::Remove { key, uid } => remove(key, uid, context).await,
        Action::MarkPod { pod, marks } => mark(pod, marks, context).await,
        Action::DeletePod { pod, grace, why, .. } => {
            let PodId { namespace, name, uid } = pod;
            tracing::warn!(pod = %format!("{namespace}/{name}"), %why, "deleting");
            delete(Id { namespace, name, uid }, *grace, context).await
        }
        _ => Ok(()),
    }
}

async fn apply(child: &Child, context: &Context) -> Result<(), Error> {
    let key = &child.key;
    let before = context.stores.child(key);
    if !owners_stay(key, before.as_ref(), &child.body, context).await? {
        tracing::info!(object = %key, "not applied: its owner is being deleted");
        return Ok(());
    }
    if let Some(live) = &before {
        prune(key, live, &child.body, context).await?;
    }
    let answer = send(key, &child.body, context).await.map_err(Error::write(format!("apply {key}")))?;
    context.metrics.writes.get_or_create(&Write { verb: "apply", kind: key.kind.as_str() }).inc();
    let accepted = Accepted::new(&child.body, &answer, before.as_ref(), context.clock.now());
    context.memory.children.insert(key.clone(), accepted);
    tracing::info!(object = %key, "applied");
    Ok(())
}

async fn send(key: &ChildKey, body: &Value, context: &Context) -> Result<Value, kube::Error> {
    let apply = async || context.writer.apply(&resource(key.kind), &key.namespace, &key.name, body).await;
    match apply().await {
        Err(kube::Error::Api(status)) if status.code == 422 && key.kind == ChildKind::PodDisruptionBudget => {
            replace_limit(key, body, context).await?;
            apply().await
        }
        answer => answer,
    }
}

/// Removes files that someone else added to a ConfigMap of ours.
async fn prune(key: &ChildKey, live: &Value, desired: &Value, context: &Context) -> Result<(), Error> {
    let files = foreign_files(live, desired);
    if files.is_empty() {
        return Ok(());
    }
    let mut fields = json!({});
    for (field, file) in &files {
        fields[field][file] = Value::Null;
    }
    let object = Id { namespace: &key.namespace, name: &key.name, uid: live["metadata"]["uid"].as_str().unwrap_or_default() };
    context.writer.prune(&resource(key.kind), object, &fields).await.map_err(Error::write(format!("take files out of {key}")))?;
    context.metrics.writes.get_or_create(&Write { verb: "prune", kind: key.kind.as_str() }).inc();
    tracing::warn!(object = %key, ?files, "removed files that someone else added");
    Ok(())
}

/// Replaces the limit that another operator set on a budget. A budget may have only one limit, and an apply would keep theirs beside ours, which the
/// server refuses. One patch removes theirs and sets ours, so the budget is never without a limit.
async fn replace_limit(key: &ChildKey, body: &Value, context: &Context) -> Result<(), kube::Error> {
    let fields = json!({ "spec": { "maxUnavailable": null, "minAvailable": body["spec"]["minAvailable"] } });
    // The UID is unknown if the budget lacks the labels that our watch selects.
    let object = Id { namespace: &key.namespace, name: &key.name, uid: "" };
    context.writer.prune(&resource(key.kind), object, &fields).await?;
    context.metrics.writes.get_or_create(&Write { verb: "prune", kind: key.kind.as_str() }).inc();
    tracing::info!(object = %key, "replaced the limit that another operator set");
    Ok(())
}

async fn remove(key: &ChildKey, uid: &str, context: &Context) -> Result<(), Error> {
    let object = Id { namespace: &key.namespace, name: &key.name, uid };
    context.writer.delete(&resource(key.kind), object, None).await.map_err(Error::write(format!("delete {key}")))?;
    context.metrics.writes.get_or_create(&Write { verb: "delete", kind: key.kind.as_str() }).inc();
    // If it is wanted again, it must not count as a write that the cache does not show yet.
    context.memory.children.remove(key);
    tracing::info!(object = %key, "deleted");
    Ok(())
}

async fn mark(pod: &PodId, marks: &Marks, context: &Context) -> Result<(), Error> {
    let PodId { namespace, name, uid } = pod;
    let (labels, annotations) = (json!(marks.labels), json!(marks.annotations));
    let what = format!("mark pod `{namespace}/{name}`");
    let version = context.writer.mark(&pods(), Id { namespace, name, uid }, &labels, &annotations).await.map_err(Error::write(what))?;
    context.metrics.writes.get_or_create(&Write { verb: "mark", kind: "Pod" }).inc();
    let now = context.clock.now();
    let mut what = context.memory.marked.get(uid).filter(|sent| is_recent(sent.at, now)).map(|sent| sent.what).unwrap_or_default();
    what.labels.extend(marks.labels.clone());
    what.annotations.extend(marks.annotations.clone());
    context.memory.marked.insert(uid.clone(), Sent { what, version, at: now });
    context.memory.protected.remove(uid);
    tracing::info!(pod = %format!("{namespace}/{name}"), %labels, %annotations, "marked");
    Ok(())
}

pub(crate) async fn delete(pod: Id<'_>, grace: Option<Duration>, context: &Context) -> Result<(), Error> {
    let full_name = format!("{}/{}", pod.namespace, pod.name);
    context.writer.delete(&pods(), pod, grace).await.map_err(Error::write(format!("delete pod `{full_name}`")))?;
    context.metrics.writes.get_or_create(&Write { verb: "delete", kind: "Pod" }).inc();
    context.memory.deleted.insert(pod.uid.to_owned(), context.clock.now());
    tracing::info!(pod = %full_name, "deleted");
    Ok(())
}
