//! Reconciles a NodeSet that is being deleted. Manages the finalizer that delays the deletion.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use serde_json::json;
use slipway_api::{
    NodeSet,
    annotation::{JOBS_FINALIZER, RESERVATION_FINALIZER},
    label::Component,
    name,
};
use slipway_plan::{
    Action,
    nodeset::{JobPolicy, JobPolicyAnnotation, Remains, Slot, Worker, deletion},
};
use slipway_runtime::{apply::Id, events::Kind, metrics::Write, queue::Next};
use tokio::time::Instant;

use super::{
    LOOK_SOON,
    act::{Workers, act},
    adopt::observe_orphans,
    maintenance::{self, observe_maintenance},
    record::observe_needs,
    revision::observe_revisions,
    slurm::Cluster,
    stale_node::{confirm_gone, observe_stale_nodes},
    worker::observe_workers,
};
use crate::{
    slurm::jobs_naming,
    world::{context::Context, error::Error, status},
};

/// Finalizer that Kubernetes sets on an object whose dependents are to be kept.
const ORPHAN: &str = "orphan";
/// Interval for checking if jobs have ended: once their nodes are gone, the end of a job triggers no reconcile.
const LOOK_FOR_JOBS: Duration = Duration::from_secs(5);

/// Finalizers to remove when there is nothing left to wait for. `RESERVATION_FINALIZER` comes from the operator that we take over from: nothing else
/// would remove it, and its reservation is gone by then.
const OURS: [&str; 2] = [JOBS_FINALIZER, RESERVATION_FINALIZER];

/// True if the NodeSet has `JOBS_FINALIZER`.
pub(super) fn is_held(nodeset: &NodeSet) -> bool {
    nodeset.finalizers().iter().any(|finalizer| finalizer == JOBS_FINALIZER)
}

/// Sets the finalizer, so that deleting the NodeSet does not kill its workers' jobs. False if a concurrent write prevented it: then no worker may be
/// created yet.
pub(super) async fn hold(nodeset: &NodeSet, context: &Context) -> Result<bool, Error> {
    if is_held(nodeset) {
        return Ok(true);
    }
    let finalizers = nodeset.finalizers().iter().cloned().chain([JOBS_FINALIZER.to_owned()]).collect::<Vec<_>>();
    write_finalizers(nodeset, &finalizers, context).await
}

/// Reconciles a NodeSet that is being deleted.
pub(super) async fn pass(nodeset: &Arc<NodeSet>, context: &Context) -> Result<Next, Error> {
    if !nodeset.finalizers().iter().any(|finalizer| OURS.contains(&finalizer.as_str())) {
        return Ok(Next::OnChange); // Kubernetes deletes its pods
    }
    let (namespace, controller) = (nodeset.namespace().unwrap_or_default(), &nodeset.spec.controller_ref.name);
    let cluster = Cluster::new(&namespace, controller, context);
    let revisions = observe_revisions(nodeset, context);
    let (workers, _) = observe_workers(nodeset, &revisions, &cluster, context);
    super::count_lost_jobs(nodeset, &workers, context);
    let mut stale_nodes = observe_stale_nodes(nodeset, &workers, &cluster, context);
    let maintenance = observe_maintenance(nodeset, &cluster);
    observe_needs(&mut [], &mut stale_nodes, true, &maintenance.name, &cluster);
    let (now, uid) = (context.clock.now(), nodeset.uid().unwrap_or_default());
    let hostname = nodeset.spec.template.as_ref().and_then(|template| template.hostname());
    let partition = name::slurm_nodeset(&nodeset.name_any(), hostname);
    let annotation = JobPolicyAnnotation::read(nodeset.annotations());
    let remains = Remains {
        workers: &workers,
        stale_nodes: cluster.is_known().map(|()| stale_nodes.as_slice()),
        forgotten_at: context.memory.forgotten.get(&uid),
        jobs: observe_jobs(&namespace, controller, &partition, &workers, &stale_nodes, context),
        partition: &partition,
        maintenance: &maintenance,
        cluster_is_gone: cluster_is_gone(&namespace, controller, context),
        is_orphaning: nodeset.finalizers().iter().any(|finalizer| finalizer == ORPHAN),
        has_orphans: !observe_orphans(nodeset, context).is_empty(),
        job_policy: annotation
            .map_or(JobPolicy::Wait, |annotation| annotation.policy(nodeset.metadata.deletion_timestamp.as_ref().map(|time| time.0))),
        now,
    };
    let mut plan = deletion(&remains);
    if plan.actions.iter().any(|action| matches!(action, Action::Release { .. })) {
        return release(nodeset, context).await;
    }
    // Where no slurmctld is left, there is no one to ask again.
    let is_asked = cluster.is_known().is_ok() || !remains.cluster_is_gone;
    let is_unconfirmed = (is_asked && cluster.confirm(&mut plan.actions, &workers).await)
        | confirm_gone(&mut plan.actions, &stale_nodes, &workers, &namespace, context).await;
    let nothing = |_: &Slot, _: &str| Err(slipway_render::Invalid { field: "metadata".to_owned(), problem: "is being deleted".to_owned() });
    act(&plan.actions, &Workers { nodeset, namespace: &namespace, owner_uid: &uid, render: &nothing }, context).await?;
    plan.actions.iter().for_each(|action| cluster.tell(action));
    if plan.actions.iter().any(|action| matches!(action, Action::Forget { .. })) {
        context.memory.forgotten.insert(uid, now);
    }
    maintenance::announce(nodeset, &plan.actions, context);
    status::report(nodeset.as_ref(), &plan.report, |_| {}, context).await?;
    let look = if is_unconfirmed { LOOK_SOON } else { LOOK_FOR_JOBS };
    Ok(Next::After(plan.wake_after.map_or(look, |wake| wake.min(look))))
}

/// True if its Controller is missing or terminating, and no slurmctld is left that could start a job. One outside of Kubernetes is.
fn cluster_is_gone(namespace: &str, controller: &str, context: &Context) -> bool {
    let is_going = context
        .stores
        .controller(namespace, controller)
        .is_none_or(|cluster| cluster.metadata.deletion_timestamp.is_some() && !cluster.spec.external);
    is_going && context.stores.pods_of(namespace, Component::Controller, controller).is_empty()
}

/// Unfinished jobs that name the partition or one of the nodes.
fn observe_jobs(
    namespace: &str,
    controller: &str,
    partition: &str,
    workers: &[Worker],
    stale_nodes: &[slipway_plan::nodeset::StaleNode],
    context: &Context,
) -> Result<Vec<String>, String> {
    if !workers.is_empty() {
        return Ok(Vec::new()); // only needed once the last worker is gone
    }
    context.clusters.read_soon(namespace, controller);
    // A reservation that names a node prevents its deletion. A deleted one is back if slurmctld restarted before it saved the deletion.
    context.clusters.read_reservations_soon(namespace, controller);
    let nodes: Vec<&str> = stale_nodes.iter().map(|stale_node| stale_node.node.as_str()).collect();
    let snapshot = context.clusters.snapshot(namespace, controller);
    jobs_naming(snapshot.as_deref(), partition, &nodes, Instant::now())
}

async fn release(nodeset: &NodeSet, context: &Context) -> Result<Next, Error> {
    let left = nodeset.finalizers().iter().filter(|finalizer| !OURS.contains(&finalizer.as_str())).cloned().collect::<Vec<_>>();
    if !write_finalizers(nodeset, &left, context).await? {
        return Ok(Next::After(LOOK_SOON));
    }
    context.say(
        nodeset,
        Kind::Normal,
        "Released",
        "Delete",
        "Slurm has no job and no record of it any more: the NodeSet is deleted, then its lines in slurm.conf",
    );
    Ok(Next::OnChange)
}

async fn write_finalizers(nodeset: &NodeSet, finalizers: &[String], context: &Context) -> Result<bool, Error> {
    let (namespace, name, uid) = (nodeset.namespace().unwrap_or_default(), nodeset.name_any(), nodeset.uid().unwrap_or_default());
    let object = Id { namespace: &namespace, name: &name, uid: &uid };
    let version = nodeset.resource_version().unwrap_or_default();
    let what = format!("write the finalizers of NodeSet `{namespace}/{name}`");
    let resource = kube::core::ApiResource::erase::<NodeSet>(&());
    let is_written = context.writer.finalizers(&resource, object, &version, &json!(finalizers)).await.map_err(Error::write(what))?;
    context.metrics.writes.get_or_create(&Write { verb: "finalizers", kind: "NodeSet" }).inc();
    Ok(is_written)
}
