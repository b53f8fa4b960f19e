//! Adopts worker pods without a controller.
//!
//! Pods are never released: a pod that the NodeSet controls is its worker whatever labels it has, because jobs may run there and no other pod can
//! have its name.

use kube::ResourceExt;
use slipway_api::{
    NodeSet,
    label::{self, Component},
    name, owner,
};
use slipway_plan::{Action, nodeset::Orphan};
use slipway_runtime::{apply::Id, metrics::Write, view::PodView};

use super::worker::slot;
use crate::world::{
    context::{Context, pods},
    error::Error,
    owner::{adopter, controller, stays},
};

/// Pods without a controller that have the NodeSet's labels and the name of one of its workers.
pub(super) fn observe_orphans(nodeset: &NodeSet, context: &Context) -> Vec<Orphan> {
    let (namespace, name) = (nodeset.namespace().unwrap_or_default(), nodeset.name_any());
    let pods = context.stores.pods_of(&namespace, Component::Worker, &name);
    let free = pods.iter().filter(|pod| controller(pod).is_none() && adopter(pod, context).is_none());
    let mut orphans: Vec<Orphan> = free
        .filter_map(|pod| {
            Some(Orphan {
                name: pod.name_any(),
                uid: pod.uid()?,
                slot: slot(&name, pod).filter(|slot| slot.ordinal().is_some() || is_named_for(pod, &name))?,
                cluster: pod.labels().get(label::CLUSTER).cloned(),
                is_going: pod.is_going(),
            })
        })
        .collect();
    orphans.sort_by(|one, other| one.name.cmp(&other.name));
    orphans
}

/// True if the pod has the name prefix of DaemonSet workers. The name itself does not show the slot.
fn is_named_for(pod: &PodView, nodeset: &str) -> bool {
    pod.metadata.generate_name.as_deref() == Some(name::worker_generate_name(nodeset).as_str())
}

/// Drops actions that would set the NodeSet as an owner, if it is being deleted and the cache does not show that yet.
///
/// Deleting a NodeSet without its dependents removes it from their owner references. Adding it back would make Kubernetes delete all of them.
pub(super) async fn without_owning_if_going(nodeset: &NodeSet, actions: &mut Vec<Action>, context: &Context) -> Result<(), Error> {
    let owns = |action: &Action| matches!(action, Action::AdoptWorker { .. } | Action::KeepClaim { with_nodeset: true, .. });
    if !actions.iter().any(owns) {
        return Ok(());
    }
    let (namespace, name, uid) = (nodeset.namespace().unwrap_or_default(), nodeset.name_any(), nodeset.uid().unwrap_or_default());
    if !stays("NodeSet", Id { namespace: &namespace, name: &name, uid: &uid }, context).await? {
        tracing::info!(nodeset = %format!("{namespace}/{name}"), "adopts nothing: it is being deleted");
        actions.retain(|action| !owns(action));
    }
    Ok(())
}

/// Makes the NodeSet the controller of a pod.
pub(crate) async fn adopt(nodeset: &NodeSet, pod: Id<'_>, context: &Context) -> Result<(), Error> {
    let full_name = format!("{}/{}", pod.namespace, pod.name);
    let reference = owner::controller_of(nodeset);
    let answer = context.writer.own(&pods(), pod, Some(&reference), &[]).await.map_err(Error::write(format!("adopt pod `{full_name}`")))?;
    if answer.is_some() {
        context.metrics.writes.get_or_create(&Write { verb: "adopt", kind: "Pod" }).inc();
        context.memory.adopted.insert(pod.uid.to_owned(), (reference.uid, context.clock.now()));
        tracing::info!(pod = %full_name, "adopted");
    }
    Ok(())
}
