//! Number of a cluster's workers that are protected from eviction.
//!
//! A disruption budget that counts fewer busy pods than there are permits an eviction, and jobs are killed. So the number is raised before a pod gets
//! the label, and lowered only once the label is seen to be gone. All NodeSets of a Controller share the budget, so they take turns.

use std::sync::Arc;

use kube::ResourceExt;
use slipway_api::label;
use slipway_plan::nodeset::{Worker, plan_protection};
use slipway_runtime::view::PodView;
use tokio::sync::OwnedMutexGuard;

use super::shown::is_protected;
use crate::world::{
    context::Context,
    memory::{Memory, is_recent},
};

/// A NodeSet's turn to count and to write the number. Others wait until this is dropped.
pub(super) struct Turn {
    pub(super) protected: usize,
    _turn: OwnedMutexGuard<()>,
}

impl Turn {
    /// Waits for the turn and counts pods that have or may have the label, and those of `workers` that get it in this reconcile.
    pub(super) async fn begin(namespace: &str, controller: &str, workers: &[Worker], protects: bool, context: &Context) -> Self {
        let lock = context.memory.budgets.get_or_default(&format!("{namespace}/{controller}"));
        let turn = Arc::clone(&lock).lock_owned().await;
        let now = context.clock.now();
        for worker in plan_protection(workers, protects) {
            context.memory.protected.insert(worker.uid.clone(), now);
        }
        let is_counted = |pod: &PodView| {
            let is_its =
                pod.metadata.namespace.as_deref() == Some(namespace) && pod.labels().get(label::CLUSTER).is_some_and(|of| of == controller);
            is_its && may_be_protected(pod, context)
        };
        Self { protected: context.stores.pods.state_filter(is_counted).len(), _turn: turn }
    }
}

/// True if the pod has the label, in the cache or by a recent write, or is about to get it.
fn may_be_protected(pod: &PodView, context: &Context) -> bool {
    let Memory { marked, protected, .. } = &context.memory;
    let (uid, now) = (pod.uid().unwrap_or_default(), context.clock.now());
    let is_written = || {
        let marks = marked.unseen(&uid, pod.resource_version().as_deref(), now);
        marks.is_some_and(|marks| marks.labels.get(label::POD_PROTECT).is_some_and(Option::is_some))
    };
    is_protected(pod.labels()) || protected.get(&uid).is_some_and(|since| is_recent(since, now)) || is_written()
}
