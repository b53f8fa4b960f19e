//! Executes actions. Every action is idempotent, every delete is bound to a UID, and creations start in small batches.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use jiff::Timestamp;
use kube::{Api, ResourceExt, core::ApiResource};
use serde_json::{Value, json};
use slipway_api::{
    NodeSet,
    child::{Child, ChildKey, ChildKind},
    slurm_node::is_our_condition,
};
use slipway_plan::{
    Action, Marks, PodId,
    drift::{Accepted, foreign_files},
    nodeset::{Slot, claimant},
};
use slipway_render::nodeset as render;
use slipway_runtime::{apply::Id, metrics::Write, view::PodView};

use crate::{
    context::{Context, resource},
    error::Error,
    memory::{Created, PodCondition, Sent, is_recent},
    nodeset::{
        adopt::adopt,
        claim::{create_claims, hand_over, keep, restore_claims},
        revision,
        shown::shown_since,
    },
    owner::owners_stay,
};

/// Pods written to concurrently.
const PODS_AT_ONCE: usize = 32;

/// Owner of worker pods, with the function that renders one.
pub(crate) struct Workers<'a> {
    pub(crate) nodeset: &'a NodeSet,
    pub(crate) namespace: &'a str,
    pub(crate) owner_uid: &'a str,
    /// Renders the pod for a slot, with this hostname.
    pub(crate) render: &'a (dyn Fn(&Slot, &str) -> Result<Value, slipway_render::Invalid> + Sync),
}

/// A worker pod to create.
struct New<'a> {
    slot: &'a Slot,
    name: &'a str,
    hostname: &'a str,
}

impl Workers<'_> {
    fn claims(&self, pod: &str, claimant: &str) -> Result<Vec<Value>, Error> {
        render::claims(self.nodeset, claimant).map_err(|invalid| Error::Render(format!("the claims of pod `{pod}`"), invalid))
    }
}

/// Executes `actions` in order, creations last. Stops at the first failure. `workers` is set for kinds that have them.
pub(crate) async fn act(actions: &[Action], workers: Option<&Workers<'_>>, context: &Context) -> Result<(), Error> {
    let mut creations = Vec::new();
    for group in actions.chunk_by(are_done_side_by_side) {
        let action = match (group, workers) {
            ([action], _) => action,
            ([Action::DeleteWorker { .. }, ..], Some(workers)) => {
                delete_workers(group, workers, context).await?;
                continue;
            }
            _ => {
                write_on_pods(group, context).await?;
                continue;
            }
        };
        match (action, workers) {
            (Action::Apply(child), _) => apply(child, context).await?,
            (Action::CreateWorker { slot, name, hostname }, Some(_)) => creations.push(New { slot, name, hostname }),
            (Action::DeleteWorker { name, uid }, Some(workers)) => {
                delete(Id { namespace: workers.namespace, name, uid }, None, context).await?;
            }
            (Action::AdoptWorker { name, uid }, Some(workers)) => {
                adopt(workers.nodeset, Id { namespace: workers.namespace, name, uid }, context).await?;
            }
            (Action::HandOver { name, uid, claims }, Some(workers)) => {
                hand_over(workers.nodeset, Id { namespace: workers.namespace, name, uid }, claims, context).await?;
            }
            (Action::KeepClaim { claim, from, with_nodeset }, Some(workers)) => {
                keep(workers.nodeset, claim, from.as_deref(), *with_nodeset, context).await?;
            }
            (Action::RestoreClaims { name, claimant }, Some(workers)) => {
                restore_claims(workers.namespace, workers.claims(name, claimant)?, context).await?;
            }
            (Action::StoreRevision { name, hash, number, data }, Some(workers)) => {
                revision::store(workers.nodeset, name, hash, *number, data, context).await?;
            }
            (Action::RenumberRevision { name, uid, number }, Some(workers)) => {
                revision::renumber(workers.namespace, name, uid, *number, context).await?;
            }
            (Action::DropRevision { name, uid }, Some(workers)) => revision::drop_revision(workers.namespace, name, uid, context).await?,
            (Action::Remove { key, uid }, _) => remove(key, uid, context).await?,
            (Action::MarkPod { .. } | Action::ShowConditions { .. }, _) => write_on_pods(group, context).await?,
            (Action::DeletePod { pod, grace, why }, _) => {
                let PodId { namespace, name, uid } = pod;
                tracing::warn!(pod = %format!("{namespace}/{name}"), %why, "deleting");
                delete(Id { namespace, name, uid }, *grace, context).await?;
            }
            // Slurm commands are sent by the cluster's own task, and only NodeSets have workers.
            (
                Action::Reconfigure { .. }
                | Action::Drain { .. }
                | Action::Undrain { .. }
                | Action::Resume { .. }
                | Action::SetDown { .. }
                | Action::Describe { .. }
                | Action::SetAttribute { .. }
                | Action::Forget { .. }
                | Action::Reserve { .. }
                | Action::Unreserve { .. }
                | Action::Release,
                _,
            )
            | (
                Action::CreateWorker { .. }
                | Action::DeleteWorker { .. }
                | Action::AdoptWorker { .. }
                | Action::HandOver { .. }
                | Action::KeepClaim { .. }
                | Action::RestoreClaims { .. }
                | Action::StoreRevision { .. }
                | Action::RenumberRevision { .. }
                | Action::DropRevision { .. },
                None,
            ) => {}
        }
    }
    let Some(workers) = workers else { return Ok(()) };
    // Batches of 1, 2, 4, 8 ...: if all creations would fail (a quota, a webhook), only one request fails first.
    let mut rest = creations.as_slice();
    let mut batch = 1;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(batch.min(rest.len()));
        let outcomes = join_all(now.iter().map(|new| create(new, workers, context))).await;
        outcomes.into_iter().collect::<Result<(), Error>>()?;
        rest = later;
        batch *= 2;
    }
    Ok(())
}

fn are_done_side_by_side(one: &Action, next: &Action) -> bool {
    let are_deletions = matches!((one, next), (Action::DeleteWorker { .. }, Action::DeleteWorker { .. }));
    are_deletions || (is_written_on_a_pod(one) && is_written_on_a_pod(next))
}

/// Deletes workers concurrently: one after the other, a thousand would exceed the deadline of a reconcile.
async fn delete_workers(actions: &[Action], workers: &Workers<'_>, context: &Context) -> Result<(), Error> {
    let delete = async |action: &Action| match action {
        Action::DeleteWorker { name, uid } => delete(Id { namespace: workers.namespace, name, uid }, None, context).await,
        _ => Ok(()),
    };
    for some in actions.chunks(PODS_AT_ONCE) {
        join_all(some.iter().map(delete)).await.into_iter().collect::<Result<(), Error>>()?;
    }
    Ok(())
}

/// True if the action changes only labels, annotations or conditions of a pod.
pub(crate) fn is_written_on_a_pod(action: &Action) -> bool {
    matches!(action, Action::MarkPod { .. } | Action::ShowConditions { .. })
}

/// Writes to pods concurrently, as there may be thousands. A failure does not stop the others.
async fn write_on_pods(actions: &[Action], context: &Context) -> Result<(), Error> {
    let write = async |action: &Action| match action {
        Action::MarkPod { pod, marks } => mark(pod, marks, context).await,
        Action::ShowConditions { pod, conditions } => show(pod, conditions, context).await,
        _ => Ok(()),
    };
    let mut outcomes = Vec::new();
    for some in actions.chunks(PODS_AT_ONCE) {
        outcomes.extend(join_all(some.iter().map(write)).await);
    }
    outcomes.into_iter().collect()
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
    tracing::warn!(object = %key, ?files, "took out files that somebody added");
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

async fn create(new: &New<'_>, workers: &Workers<'_>, context: &Context) -> Result<(), Error> {
    let New { slot, name, hostname } = new;
    let claimant = claimant(slot, name, hostname, &workers.nodeset.name_any());
    if !create_claims(workers.namespace, workers.claims(name, &claimant)?, context).await? {
        tracing::info!(pod = %format!("{}/{name}", workers.namespace), "not created: a claim of it is being deleted");
        return Ok(());
    }
    let body = (workers.render)(slot, hostname).map_err(|invalid| Error::Render(format!("pod `{name}`"), invalid))?;
    match context.writer.create(&pods(), workers.namespace, body).await {
        Ok(()) => {
            context.metrics.writes.get_or_create(&Write { verb: "create", kind: "Pod" }).inc();
            tracing::info!(pod = %format!("{}/{name}", workers.namespace), "created");
        }
        // The cache was stale, or a pod of this name belongs to someone else.
        Err(kube::Error::Api(status)) if status.code == 409 => check_ours(name, workers, context).await?,
        Err(error) => return Err(Error::write(format!("create pod `{}/{name}`", workers.namespace))(error)),
    }
    let created = Created { slot: (*slot).clone(), hostname: (*hostname).to_owned(), at: context.clock.now() };
    context.memory.created.insert((workers.owner_uid.to_owned(), (*name).to_owned()), created);
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

async fn show(pod: &PodId, conditions: &BTreeMap<String, String>, context: &Context) -> Result<(), Error> {
    let PodId { namespace, name, uid } = pod;
    let (now, known) = (context.clock.now(), shown_since(pod, context));
    // The API server stores whole seconds.
    let begun = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let what: BTreeMap<String, PodCondition> = conditions
        .iter()
        .map(|(type_, message)| {
            let since = known.get(type_).copied().unwrap_or(begun);
            (type_.clone(), PodCondition { message: message.clone(), since })
        })
        .collect();
    let body: Vec<Value> = what.iter().map(|(type_, condition)| condition.body(type_)).collect();
    let object = Id { namespace, name, uid };
    let version = context
        .writer
        .show_conditions(&pods(), object, &body, is_our_condition)
        .await
        .map_err(Error::write(format!("show Slurm's state on pod `{namespace}/{name}`")))?;
    context.metrics.writes.get_or_create(&Write { verb: "conditions", kind: "Pod" }).inc();
    context.memory.conditions.insert(uid.clone(), Sent { what, version, at: now });
    tracing::debug!(pod = %format!("{namespace}/{name}"), ?conditions, "shown");
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

pub(crate) fn pods() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&())
}
