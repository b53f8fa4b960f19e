//! A scheduler and kubelets for thousands of worker pods that do not run: what Kubernetes and Slurm see of them is as if they did.
//!
//! A pod gets a host, registers with the stand-in for Slurm under its hostname, and is ready. One that is deleted runs its preStop hook as its
//! preStop hook would, and is gone. Of affinity only that to one node by name is looked at: other pods go to the hosts in turn.

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

/// Selects the pods of workers.
const WORKERS: &str = "app.kubernetes.io/name=slurmd";
/// A label of each host: the namespace whose pods it takes.
pub const HOST_LABEL: &str = "slipway-sim/namespace";
/// Writes to the API server at a time.
const AT_ONCE: usize = 32;
/// After this time what failed is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// How a pod behaves that starts under a certain name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conduct {
    /// It registers and is ready.
    #[default]
    Well,
    /// It registers and is never ready.
    NeverReady,
    /// It is ready, and Slurm never hears of it.
    Unregistered,
    /// It ends at once, with a failure.
    Fails,
    /// It gets no host.
    Unassigned,
}

/// The kubelets of one namespace, and its scheduler; they end when this is dropped.
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
    /// The pods that are there, by name.
    seen: Mutex<BTreeMap<String, Arc<Pod>>>,
    /// What was begun, by the pod's UID: the watch tells of a pod several times meanwhile.
    begun: Mutex<HashSet<(String, Step)>>,
    /// Turns at the API server.
    at_once: Semaphore,
}

/// What tests ask for.
#[derive(Debug, Default)]
struct Rules {
    by_name: BTreeMap<String, Conduct>,
    dead_hosts: BTreeSet<String>,
    die_silently: bool,
    start_takes: Duration,
}

/// What there is to do about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Bind,
    Start,
    End,
}

impl Kubelet {
    /// Makes so many nodes for `namespace`, `NAMESPACE-host-0` and so on, where they are missing, and looks after its worker pods.
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

    /// The names of its nodes.
    pub fn hosts(&self) -> &[String] {
        &self.inner.hosts
    }

    /// Pods that start under this name from now on behave so.
    pub fn conduct(&self, pod: &str, conduct: Conduct) {
        locked(&self.inner.rules).by_name.insert(pod.to_owned(), conduct);
        self.look_again();
    }

    /// Pods that start from now on take this long.
    pub fn start_takes(&self, time: Duration) {
        locked(&self.inner.rules).start_takes = time;
    }

    /// Whether pods that end tell Slurm so.
    pub fn die_silently(&self, silently: bool) {
        locked(&self.inner.rules).die_silently = silently;
    }

    /// A host's kubelet stops: its pods neither start nor end.
    pub fn stop_host(&self, host: &str) {
        locked(&self.inner.rules).dead_hosts.insert(host.to_owned());
    }

    pub fn start_host(&self, host: &str) {
        locked(&self.inner.rules).dead_hosts.remove(host);
        self.look_again();
    }

    /// A pod's container ends with a failure, and its slurmd with it.
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
                // The watch begins anew by itself.
                Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => {}
            }
        }
    }

    /// Begins what there is to do about a pod, once.
    fn see(self: Arc<Self>, pod: Arc<Pod>) {
        let Some(step) = self.next_step(&pod) else { return };
        let key = (pod.uid().unwrap_or_default(), step);
        if !locked(&self.begun).insert(key) {
            return;
        }
        tokio::spawn(async move {
            while let Err(error) = self.take(step, &pod).await {
                // Gone, or another one has its name by now.
                if matches!(&error, kube::Error::Api(status) if status.code == 404 || status.code == 409) {
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
            // What came up meanwhile, such as a deletion while it started, is in the next event.
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

    /// Merges into a pod's status; conditions of others stay.
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
            // A record that exists keeps what it has.
            if let Some((node, memory)) = world.nodes.get_mut(&name).filter(|_| is_new).zip(pod::memory(pod)) {
                node.memory = memory;
            }
        });
    }

    /// What the preStop hook does. A node whose slurmd never came has no record, and nothing happens.
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
            self.silence(pod); // taken away by force
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

/// A node that is ready, without the taint that the server gives to new ones.
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
