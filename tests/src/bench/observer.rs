//! When pods show something, by a watch of the harness itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use tokio::task::JoinHandle;

/// Label of a worker that cannot be evicted.
const PROTECT: &str = "nodeset.slinky.slurm.net/pod-protect";
/// Conditions of a worker with a job.
const BUSY: [&str; 2] = ["SlurmNodeStateAllocated", "SlurmNodeStateMixed"];

/// Watches the workers of a namespace until dropped.
pub(super) struct Observer {
    /// Time since which each pod shows a job and is protected.
    busy: Arc<Mutex<BTreeMap<String, Instant>>>,
    task: JoinHandle<()>,
}

impl Observer {
    pub(super) fn start(client: Client, namespace: &str) -> Self {
        let busy: Arc<Mutex<BTreeMap<String, Instant>>> = Arc::default();
        let (pods, seen): (Api<Pod>, _) = (Api::namespaced(client, namespace), Arc::clone(&busy));
        let task = tokio::spawn(async move {
            let events = watcher(pods, watcher::Config::default()).default_backoff().applied_objects();
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                let Ok(pod) = event else { continue };
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                if is_busy(&pod) {
                    seen.entry(pod.name_any()).or_insert_with(Instant::now);
                } else {
                    seen.remove(&pod.name_any());
                }
            }
        });
        Self { busy, task }
    }

    /// Time from `moment` until the pod showed a job, or `None` if it does not yet.
    pub(super) fn shown_after(&self, pod: &str, moment: Instant) -> Option<Duration> {
        let busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.get(pod).map(|shown| shown.saturating_duration_since(moment))
    }

    /// Number of pods that show a job.
    pub(super) fn busy(&self) -> usize {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn is_busy(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let is_shown = conditions.iter().any(|condition| condition.status == "True" && BUSY.contains(&condition.type_.as_str()));
    is_shown && pod.labels().get(PROTECT).is_some_and(|value| value == "true")
}
