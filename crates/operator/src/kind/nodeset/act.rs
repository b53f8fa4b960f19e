//! Executes the actions of a NodeSet: on its workers, their claims and revisions. Creations start in small batches.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::{Api, ResourceExt};
use serde_json::Value;
use slipway_api::{NodeSet, slurm_node::is_our_condition};
use slipway_plan::{
    Action, PodId,
    nodeset::{Slot, claimant},
};
use slipway_render::nodeset as render;
use slipway_runtime::{apply::Id, metrics::Write, view::PodView};

use super::{
    adopt::adopt,
    claim::{create_claims, hand_over, keep, restore_claims},
    revision,
    shown::shown_since,
};
use crate::world::{
    act::{delete, execute},
    context::{Context, pods},
    error::Error,
    memory::{Created, PodCondition, Sent, is_recent},
};

/// Pods written to concurrently.
const PODS_AT_ONCE: usize = 32;
/// Pods created or deleted until the outcome is looked at.
const MAX_BATCH: usize = 128;

/// Owner of worker pods, with the function that renders one.
pub(super) struct Workers<'a> {
    pub(super) nodeset: &'a NodeSet,
    pub(super) namespace: &'a str,
    pub(super) owner_uid: &'a str,
    /// Renders the pod for a slot, with this hostname.
    pub(super) render: &'a (dyn Fn(&Slot, &str) -> Result<Value, slipway_render::Invalid> + Sync),
}

/// A worker pod to create.
struct New<'a> {
    slot: &'a Slot,
    name: &'a str,
    hostname: &'a str,
}

impl<'a> New<'a> {
    fn of(action: &'a Action) -> Option<Self> {
        match action {
            Action::CreateWorker { slot, name, hostname } => Some(Self { slot, name, hostname }),
            _ => None,
        }
    }
}

impl Workers<'_> {
    fn claims(&self, pod: &str, claimant: &str) -> Result<Vec<Value>, Error> {
        render::claims(self.nodeset, claimant).map_err(|invalid| Error::Render(format!("the claims of pod `{pod}`"), invalid))
    }
}

/// Executes the actions of a NodeSet in order, without creations of workers. Stops at the first failure.
pub(super) async fn act(actions: &[Action], workers: &Workers<'_>, context: &Context) -> Result<(), Error> {
    for group in actions.chunk_by(are_done_side_by_side) {
        let action = match group {
            [action] => action,
            [Action::DeleteWorker { .. }, ..] => {
                delete_workers(group, workers, context).await?;
                continue;
            }
            _ => {
                write_on_pods(group, context).await?;
                continue;
            }
        };
        let (nodeset, namespace) = (workers.nodeset, workers.namespace);
        match action {
            Action::CreateWorker { .. } => {}
            Action::DeleteWorker { name, uid, .. } => delete(Id { namespace, name, uid }, None, context).await?,
            Action::AdoptWorker { name, uid } => adopt(nodeset, Id { namespace, name, uid }, context).await?,
            Action::HandOver { name, uid, claims } => hand_over(nodeset, Id { namespace, name, uid }, claims, context).await?,
            Action::KeepClaim { claim, from, with_nodeset } => keep(nodeset, claim, from.as_deref(), *with_nodeset, context).await?,
            Action::RestoreClaims { name, claimant } => restore_claims(namespace, workers.claims(name, claimant)?, context).await?,
            Action::StoreRevision { name, hash, number, data } => revision::store(nodeset, name, hash, *number, data, context).await?,
            Action::RenumberRevision { name, uid, number } => revision::renumber(namespace, name, uid, *number, context).await?,
            Action::DropRevision { name, uid } => revision::drop_revision(namespace, name, uid, context).await?,
            Action::ShowConditions { .. } => write_on_pods(group, context).await?,
            other => execute(other, context).await?,
        }
    }
    Ok(())
}

/// Creates the planned workers. Stops at the first failure.
pub(super) async fn create_workers(actions: &[Action], workers: &Workers<'_>, context: &Context) -> Result<(), Error> {
    let creations: Vec<New<'_>> = actions.iter().filter_map(New::of).collect();
    let (mut rest, batches, uid, now) = (creations.as_slice(), &context.memory.batches, workers.owner_uid.to_owned(), context.clock.now());
    // Batches of 1, 2, 4, 8 ...: if all creations would fail (a quota, a webhook), only one request fails first. The next reconcile goes on from there.
    let mut batch = batches.get(&uid).filter(|(_, at)| is_recent(*at, now)).map_or(1, |(batch, _)| batch);
    while !rest.is_empty() {
        let (some, later) = rest.split_at(batch.min(rest.len()));
        let outcomes = side_by_side(some.iter().map(|new| create(new, workers, context)).collect()).await;
        if let Err(error) = outcomes.into_iter().collect::<Result<(), Error>>() {
            batches.remove(&uid);
            return Err(error);
        }
        rest = later;
        batch = (batch * 2).min(MAX_BATCH);
        batches.insert(uid.clone(), (batch, context.clock.now()));
    }
    Ok(())
}

/// Awaits all of them, [`PODS_AT_ONCE`] at a time.
async fn side_by_side<T>(writes: Vec<impl Future<Output = T>>) -> Vec<T> {
    stream::iter(writes).buffer_unordered(PODS_AT_ONCE).collect().await
}

fn are_done_side_by_side(one: &Action, next: &Action) -> bool {
    let are_deletions = matches!((one, next), (Action::DeleteWorker { .. }, Action::DeleteWorker { .. }));
    are_deletions || (is_written_on_a_pod(one) && is_written_on_a_pod(next))
}

/// Deletes workers concurrently: one after the other, a thousand would exceed the deadline of a reconcile.
async fn delete_workers(actions: &[Action], workers: &Workers<'_>, context: &Context) -> Result<(), Error> {
    let delete = async |action: &Action| match action {
        Action::DeleteWorker { name, uid, .. } => delete(Id { namespace: workers.namespace, name, uid }, None, context).await,
        _ => Ok(()),
    };
    for some in actions.chunks(MAX_BATCH) {
        side_by_side(some.iter().map(delete).collect()).await.into_iter().collect::<Result<(), Error>>()?;
    }
    Ok(())
}

/// True if the action changes only labels, annotations or conditions of a pod.
pub(super) fn is_written_on_a_pod(action: &Action) -> bool {
    matches!(action, Action::MarkPod { .. } | Action::ShowConditions { .. })
}

/// Writes to pods concurrently, as there may be thousands. A failure does not stop the others.
pub(super) async fn write_on_pods(actions: &[Action], context: &Context) -> Result<(), Error> {
    let write = async |action: &Action| match action {
        Action::ShowConditions { pod, conditions } => show(pod, conditions, context).await,
        other => execute(other, context).await,
    };
    side_by_side(actions.iter().map(write).collect()).await.into_iter().collect()
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
