//! Scheduler and kubelets for thousands of worker pods that do not run. To Kubernetes and Slurm they look as if they did.
//!
//! A pod gets a host, registers with the stand-in for Slurm under its hostname, and becomes ready. For a deleted pod, the effect of its preStop hook
//! is applied, then it is removed. The only affinity considered is that to one node by name; other pods are assigned to the hosts in turn.

mod pod;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::sim::Sim;

/// Label selector of worker pods.
const WORKERS: &str = "app.kubernetes.io/name=slurmd";
/// Label of each host: the namespace whose pods it takes.
pub const HOST_LABEL: &str = "slipway-sim/namespace";
/// Maximum number of concurrent writes to the API server.
const AT_ONCE: usize = 32;
/// Delay before a failed step is retried.
const AGAIN: Duration = Duration::from_millis(200);

/// Behaviour of a pod that starts under a given name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conduct {
    /// Registers and becomes ready.
    #[default]
    Well,
    /// Registers and never becomes ready.
    NeverReady,
    /// Becomes ready and never registers with Slurm.
    Unregistered,
    /// Ends at once, with a failure.
    Fails,
    /// Gets no host.
    Unassigned,
}

/// Kubelets and scheduler of one namespace; they end when this is dropped.
pub struct Kubelet {
    inner: Arc<Inner>,
    task: JoinHandle<()>,
}

struct Inner {
    pods: Api<Pod>,
    sim: Sim,
    hosts: Vec<String>,
    next_host: AtomicUsize,
    rules: Mutex<Rules>,
    /// Existing pods, by name.
    seen: Mutex<BTreeMap<String, Arc<Pod>>>,
    /// Steps that were begun, by the pod's UID: the watch reports a pod several times in the meantime.
    begun: Mutex<HashSet<(String, Step)>>,
    /// Limits concurrent writes to the API server.
    at_once: Semaphore,
}

/// Behaviour that tests request.
#[derive(Debug, Default)]
struct Rules {
    by_name: BTreeMap<String, Conduct>,
    dead_hosts: BTreeSet<String>,
    die_silently: bool,
    start_takes: Duration,
}

/// A step in the life of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Bind,
    Start,
    End,
}

impl Kubelet {
    /// Creates `hosts` nodes for `namespace`, named `NAMESPACE-host-0` and so on, if they are missing, and handles its worker pods.
    pub async fn start(client: Client, namespace: &str, hosts: usize, sim: Sim) -> Result<Self, kube::Error> {
        let names: Vec<String> = (0..hosts).map(|index| format!("{namespace}-host-{index}")).collect();
        let nodes: Api<Node> = Api::all(client.clone());
        futures::stream::iter(&names).map(Ok).try_for_each_concurrent(AT_ONCE, |name| make_host(&nodes, namespace, name)).await?;
        let inner = Arc::new(Inner {
            pods: Api::namespaced(client, namespace),
            sim,
            hosts: names,
            next_host: AtomicUsize::new(0),
            rules: Mutex::default(),
            seen: Mutex::default(),
            begun: Mutex::default(),
            at_once: Semaphore::new(AT_ONCE),
        });
        let task = tokio::spawn(inner.clone().follow());
        Ok(Self { inner, task })
    }

    /// Names of its nodes.
    pub fn hosts(&self) -> &[String] {
        &self.inner.hosts
    }

    /// Sets the behaviour of pods that start under this name from now on.
    pub fn conduct(&self, pod: &str, conduct: Conduct) {
        locked(&self.inner.rules).by_name.insert(pod.to_owned(), conduct);
        self.look_again();
    }

    /// Sets the time that pods take to start from now on.
    pub fn start_takes(&self, time: Duration) {
        locked(&self.inner.rules).start_takes = time;
    }

    /// If true, pods that end do not report it to Slurm.
    pub fn die_silently(&self, silently: bool) {
        locked(&self.inner.rules).die_silently = silently;
    }

    /// Stops the kubelet of a host: its pods neither start nor end.
    pub fn stop_host(&self, host: &str) {
        locked(&self.inner.rules).dead_hosts.insert(host.to_owned());
    }

    pub fn start_host(&self, host: &str) {
        locked(&self.inner.rules).dead_hosts.remove(host);
        self.look_again();
    }

    /// Ends a pod's container with a failure, and its slurmd with it.
    pub async fn fail(&self, pod: &str) -> Result<(), kube::Error> {
        let found = self.inner.pods.get(pod).await?;
        self.inner.silence(&found);
        self.inner.show(&found, &pod::failed()).await
    }

    fn look_again(&self) {
        let seen: Vec<_> = locked(&self.inner.seen).values().cloned().collect();
        for pod in seen {
            self.inner.clone().see(pod);
        }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Inner {
    async fn follow(self: Arc<Self>) {
        let config = watcher::Config::default().labels(WORKERS);
        let events = watcher(self.pods.clone(), config).default_backoff();
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                    let pod = Arc::new(pod);
                    locked(&self.seen).insert(pod.name_any(), pod.clone());
                    self.clone().see(pod);
                }
                Ok(watcher::Event::Delete(pod)) => self.forget(&pod),
                // The watch restarts by itself.
                Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => {}
            }
        }
    }

    /// Begins the next step for a pod, once.
    fn see(self: Arc<Self>, pod: Arc<Pod>) {
        let Some(step) = self.next_step(&pod) else { return };
        let key = (pod.uid().unwrap_or_default(), step);
        if !locked(&self.begun).insert(key) {
            return;
        }
        tokio::spawn(async move {
            while let Err(error) = self.take(step, &pod).await {
                // The pod is gone, or another one has its name now.
                if matches!(&error, kube::Error::Api(status) if status.code == 404 || status.code == 409) {
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
            // Later changes, such as a deletion during the start, come with the next event.
        });
    }

    fn next_step(&self, pod: &Pod) -> Option<Step> {
        let rules = locked(&self.rules);
        let host = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
        match host {
            Some(host) if rules.dead_hosts.contains(host) => None,
            _ if pod.metadata.deletion_timestamp.is_some() => Some(Step::End),
            None if rules.of(pod) == Conduct::Unassigned => None,
            None => Some(Step::Bind),
            Some(_) if phase == "Pending" => Some(Step::Start),
            Some(_) => None,
        }
    }

    async fn take(&self, step: Step, pod: &Pod) -> Result<(), kube::Error> {
        let (conduct, start_takes) = {
            let rules = locked(&self.rules);
            (rules.of(pod), rules.start_takes)
        };
        match step {
            Step::Bind => self.bind(pod).await,
            Step::Start => {
                tokio::time::sleep(start_takes).await;
                if matches!(conduct, Conduct::Well | Conduct::NeverReady) {
                    self.register(pod);
                }
                let status = match conduct {
                    Conduct::Well | Conduct::Unregistered | Conduct::Unassigned => pod::running(pod, true, self.now()),
                    Conduct::NeverReady => pod::running(pod, false, self.now()),
                    Conduct::Fails => pod::failed(),
                };
                self.show(pod, &status).await
            }
            Step::End => {
                self.run_pre_stop(pod);
                let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
                let params = DeleteParams { grace_period_seconds: Some(0), preconditions: Some(preconditions), ..DeleteParams::default() };
                let _turn = self.at_once.acquire().await;
                self.pods.delete(&pod.name_any(), &params).await.map(drop)
            }
        }
    }

    async fn bind(&self, pod: &Pod) -> Result<(), kube::Error> {
        let host = if let Some(host) = pod::only_node(pod) {
            Some(host)
        } else {
            let turn = self.next_host.fetch_add(1, Ordering::Relaxed);
            self.hosts.get(turn % self.hosts.len().max(1)).cloned()
        };
        let Some(host) = host else { return Ok(()) };
        let name = pod.name_any();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name, "uid": pod.uid() },
            "target": { "apiVersion": "v1", "kind": "Node", "name": host },
        });
        let _turn = self.at_once.acquire().await;
        let bound: Result<kube::core::response::Status, _> =
            self.pods.create_subresource("binding", &name, &PostParams::default(), &binding).await;
        bound.map(drop)
    }

    /// Patches a pod's status; conditions set by others stay.
    async fn show(&self, pod: &Pod, status: &serde_json::Value) -> Result<(), kube::Error> {
        let body = json!({ "metadata": { "uid": pod.uid() }, "status": status });
        let _turn = self.at_once.acquire().await;
        self.pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(&body)).await.map(drop)
    }

    fn register(&self, pod: &Pod) {
        let (name, cpus, features) = (pod::hostname(pod), pod::cpus(pod), pod::features(pod));
        self.sim.world(|world| {
            let is_new = !world.nodes.contains_key(&name);
            world.register(&name, cpus, &features);
            // An existing record keeps its values.
            if let Some((node, memory)) = world.nodes.get_mut(&name).filter(|_| is_new).zip(pod::memory(pod)) {
                node.memory = memory;
            }
        });
    }

    /// Applies the effect of the preStop hook. A node whose slurmd never registered has no record, and nothing happens.
    fn run_pre_stop(&self, pod: &Pod) {
        if !locked(&self.rules).die_silently {
            let name = pod::hostname(pod);
            self.sim.world(|world| {
                let before = world.nodes.get(&name).map(|node| node.reason.clone()).unwrap_or_default();
                let body = json!({ "state": ["DOWN"], "reason": pod::termination_reason(&before) });
                let _ = world.update_nodes(&[name], &body, "slurm");
            });
        }
        self.silence(pod);
    }

    fn silence(&self, pod: &Pod) {
        self.sim.world(|world| {
            if let Some(node) = world.nodes.get_mut(&pod::hostname(pod)) {
                node.is_dead = true;
            }
        });
    }

    fn forget(&self, pod: &Pod) {
        let uid = pod.uid();
        let mut seen = locked(&self.seen);
        let name = pod.name_any();
        let is_last = seen.get(&name).is_some_and(|last| last.uid() == uid);
        if is_last {
            seen.remove(&name);
        }
        drop(seen);
        let uid = uid.unwrap_or_default();
        let has_ended = locked(&self.begun).contains(&(uid.clone(), Step::End));
        if is_last && !has_ended {
            self.silence(pod); // force-deleted
        }
        locked(&self.begun).retain(|(of, _)| *of != uid);
    }

    fn now(&self) -> i64 {
        self.sim.world(|world| i64::try_from(world.now).unwrap_or_default())
    }
}

impl Rules {
    fn of(&self, pod: &Pod) -> Conduct {
        pod.metadata.name.as_ref().and_then(|name| self.by_name.get(name)).copied().unwrap_or_default()
    }
}

/// Creates a ready node, without the taint that the API server adds to new nodes.
async fn make_host(nodes: &Api<Node>, namespace: &str, name: &str) -> Result<(), kube::Error> {
    let room = json!({ "cpu": "64", "memory": "256Gi", "pods": "1000" });
    let node = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, HOST_LABEL: namespace } },
        "status": { "capacity": room, "allocatable": room, "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }] },
    }))
    .map_err(kube::Error::SerdeError)?;
    match nodes.create(&PostParams::default(), &node).await {
        Err(kube::Error::Api(status)) if status.code == 409 => return Ok(()),
        made => made.map(drop)?,
    }
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(json!({ "spec": { "taints": null } }))).await.map(drop)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
