//! Carries actions out: each can be repeated, each delete is bound to a UID, creations start slowly.

use std::time::Duration;

use futures::future::join_all;
use kube::{Api, core::ApiResource};
use serde_json::{Value, json};
use slipway_api::child::{Child, ChildKey};
use slipway_plan::{
    Action, Marks, PodId,
    drift::{Accepted, foreign_files},
};
use slipway_runtime::{apply::Id, metrics::Write, view::PodView};

use crate::{
    context::{Context, resource},
    error::Error,
    memory::is_recent,
    owner::owners_stay,
};

/// The owner of worker pods, and how to make one.
pub(crate) struct Workers<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) owner_uid: &'a str,
    pub(crate) render: &'a (dyn Fn(u32) -> Result<Value, slipway_render::Invalid> + Sync),
}

/// Does everything in `actions`, in their order; stops at the first failure. `workers` is for kinds that have them.
pub(crate) async fn act(actions: &[Action], workers: Option<&Workers<'_>>, context: &Context) -> Result<(), Error> {
    let mut creations = Vec::new();
    for action in actions {
        match (action, workers) {
            (Action::Apply(child), _) => apply(child, context).await?,
            (Action::CreateWorker { ordinal, name }, Some(_)) => creations.push((*ordinal, name.as_str())),
            (Action::DeleteWorker { name, uid }, Some(workers)) => {
                delete(Id { namespace: workers.namespace, name, uid }, None, context).await?;
            }
            (Action::Remove { key, uid }, _) => remove(key, uid, context).await?,
            (Action::MarkPod { pod, marks }, _) => mark(pod, marks, context).await?,
            (Action::DeletePod { pod, grace, why }, _) => {
                let PodId { namespace, name, uid } = pod;
                tracing::warn!(pod = %format!("{namespace}/{name}"), %why, "deleting");
                delete(Id { namespace, name, uid }, *grace, context).await?;
            }
            // Slurm is told by the cluster's own task; and only NodeSets have workers.
            (
                Action::Reconfigure { .. }
                | Action::Drain { .. }
                | Action::Undrain { .. }
                | Action::Resume { .. }
                | Action::SetDown { .. }
                | Action::Describe { .. },
                _,
            )
            | (Action::ShowConditions { .. }, _)
            | (Action::CreateWorker { .. } | Action::DeleteWorker { .. }, None) => {}
        }
    }
    let Some(workers) = workers else { return Ok(()) };
    // 1, 2, 4, 8 ... side by side: where creation fails for all (a quota, a webhook), it fails for one first.
    let mut rest = creations.as_slice();
    let mut batch = 1;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(batch.min(rest.len()));
        let outcomes = join_all(now.iter().map(|(ordinal, name)| create(*ordinal, name, workers, context))).await;
        outcomes.into_iter().collect::<Result<(), Error>>()?;
        rest = later;
        batch *= 2;
    }
    Ok(())
}

async fn apply(child: &Child, context: &Context) -> Result<(), Error> {
    let key = &child.key;
    let before = context.stores.child(key);
    if !owners_stay(key, before.as_ref(), &child.body, context).await? {
        tracing::info!(object = %key, "left alone: its owner is being deleted");
        return Ok(());
    }
    if let Some(live) = &before {
        prune(key, live, &child.body, context).await?;
    }
    let answer = context
        .writer
        .apply(&resource(key.kind), &key.namespace, &key.name, &child.body)
        .await
        .map_err(Error::write(format!("apply {key}")))?;
    context.metrics.writes.get_or_create(&Write { verb: "apply", kind: key.kind.as_str() }).inc();
    let accepted = Accepted::new(&child.body, &answer, before.as_ref(), context.clock.now());
    context.memory.children.insert(key.clone(), accepted);
    tracing::info!(object = %key, "applied");
    Ok(())
}

/// Takes files away that somebody added to a ConfigMap of ours.
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
    tracing::warn!(object = %key, ?files, "took out files that somebody added");
    Ok(())
}

async fn create(ordinal: u32, name: &str, workers: &Workers<'_>, context: &Context) -> Result<(), Error> {
    let body = (workers.render)(ordinal).map_err(|invalid| Error::Render(format!("pod `{name}`"), invalid))?;
    match context.writer.create(&pods(), workers.namespace, body).await {
        Ok(()) => {
            context.metrics.writes.get_or_create(&Write { verb: "create", kind: "Pod" }).inc();
            tracing::info!(pod = %format!("{}/{name}", workers.namespace), "created");
        }
        // The cache was behind, or somebody else has a pod of this name.
        Err(kube::Error::Api(status)) if status.code == 409 => check_ours(name, workers, context).await?,
        Err(error) => return Err(Error::write(format!("create pod `{}/{name}`", workers.namespace))(error)),
    }
    context.memory.created.insert((workers.owner_uid.to_owned(), name.to_owned()), context.clock.now());
    Ok(())
}

async fn check_ours(name: &str, workers: &Workers<'_>, context: &Context) -> Result<(), Error> {
    let full_name = format!("{}/{name}", workers.namespace);
    let api: Api<PodView> = Api::namespaced(context.client.clone(), workers.namespace);
    let pod = api.get_opt(name).await.map_err(Error::read(format!("pod `{full_name}`")))?;
    let owners = pod.and_then(|pod| pod.metadata.owner_references).unwrap_or_default();
    if owners.iter().any(|owner| owner.uid == workers.owner_uid) { Ok(()) } else { Err(Error::ForeignPod(full_name)) }
}

async fn remove(key: &ChildKey, uid: &str, context: &Context) -> Result<(), Error> {
    let object = Id { namespace: &key.namespace, name: &key.name, uid };
    context.writer.delete(&resource(key.kind), object, None).await.map_err(Error::write(format!("delete {key}")))?;
    context.metrics.writes.get_or_create(&Write { verb: "delete", kind: key.kind.as_str() }).inc();
    tracing::info!(object = %key, "deleted");
    Ok(())
}

async fn mark(pod: &PodId, marks: &Marks, context: &Context) -> Result<(), Error> {
    let PodId { namespace, name, uid } = pod;
    let (labels, annotations) = (json!(marks.labels), json!(marks.annotations));
    let what = format!("mark pod `{namespace}/{name}`");
    context.writer.mark(&pods(), Id { namespace, name, uid }, &labels, &annotations).await.map_err(Error::write(what))?;
    context.metrics.writes.get_or_create(&Write { verb: "mark", kind: "Pod" }).inc();
    let now = context.clock.now();
    let mut sent = context.memory.marked.get(uid).filter(|(_, at)| is_recent(*at, now)).map(|(sent, _)| sent).unwrap_or_default();
    sent.labels.extend(marks.labels.clone());
    sent.annotations.extend(marks.annotations.clone());
    context.memory.marked.insert(uid.clone(), (sent, now));
    tracing::info!(pod = %format!("{namespace}/{name}"), %labels, %annotations, "marked");
    Ok(())
}

async fn delete(pod: Id<'_>, grace: Option<Duration>, context: &Context) -> Result<(), Error> {
    let full_name = format!("{}/{}", pod.namespace, pod.name);
    context.writer.delete(&pods(), pod, grace).await.map_err(Error::write(format!("delete pod `{full_name}`")))?;
    context.metrics.writes.get_or_create(&Write { verb: "delete", kind: "Pod" }).inc();
    context.memory.deleted.insert(pod.uid.to_owned(), context.clock.now());
    tracing::info!(pod = %full_name, "deleted");
    Ok(())
}

fn pods() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&())
}
