//! Carries actions out: each can be repeated, each delete is bound to a UID, creations start slowly.

use futures::future::join_all;
use kube::{Api, core::ApiResource};
use serde_json::Value;
use slipway_api::child::Child;
use slipway_plan::{Action, drift::Accepted};
use slipway_runtime::{metrics::Write, view::PodView};

use crate::{context::Context, context::resource, error::Error};

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
            (Action::DeleteWorker { name, uid }, Some(workers)) => delete(name, uid, workers, context).await?,
            (Action::CreateWorker { .. } | Action::DeleteWorker { .. }, None) => {}
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

async fn delete(name: &str, uid: &str, workers: &Workers<'_>, context: &Context) -> Result<(), Error> {
    let full_name = format!("{}/{name}", workers.namespace);
    context.writer.delete(&pods(), workers.namespace, name, uid).await.map_err(Error::write(format!("delete pod `{full_name}`")))?;
    context.metrics.writes.get_or_create(&Write { verb: "delete", kind: "Pod" }).inc();
    context.memory.deleted.insert(uid.to_owned(), context.clock.now());
    tracing::info!(pod = %full_name, "deleted");
    Ok(())
}

fn pods() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&())
}
