//! Finds the active one of several slurmctlds. One task per such Controller probes each slurmctld every two seconds.

mod probe;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    Stream,
    channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
    future::join_all,
};
use kube::{
    ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
use slipway_api::{
    SlurmController, image,
    label::{self, Component},
    name,
};
use slipway_plan::active_controller::{Role, Roles};
use slipway_runtime::{clock::Clock, hub::Filled, view::PodView};
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use crate::{slurm::Key, world::step::keep_in_step};
use probe::Probe;

/// Interval between probes.
const ROUND: Duration = Duration::from_secs(2);

/// Watches every Controller with several slurmctlds in one scope.
pub(crate) struct ActiveControllers {
    controllers: Store<SlurmController>,
    ground: Arc<Ground>,
    watches: Mutex<BTreeMap<Key, Watch>>,
    woken: UnboundedSender<ObjectRef<SlurmController>>,
}

/// Dependencies of every watch.
struct Ground {
    pods: Store<PodView>,
    clock: Arc<dyn Clock>,
    probe: Probe,
}

/// Watch of one Controller. Its task ends when this is dropped.
struct Watch {
    wanted: Wanted,
    roles: Arc<Mutex<Roles>>,
    task: JoinHandle<()>,
}

/// Parameters of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    uid: Option<String>,
    pods: i32,
}

impl ActiveControllers {
    /// Probes nothing until [`Self::follow`] runs. The receiver yields Controllers whose roles have changed.
    pub(crate) fn new(
        controllers: Store<SlurmController>,
        pods: Store<PodView>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<Self>, UnboundedReceiver<ObjectRef<SlurmController>>), String> {
        let port = u16::try_from(image::SLURMCTLD_PORT).map_err(|error| error.to_string())?;
        Self::on_port(port, controllers, pods, clock)
    }

    fn on_port(
        port: u16,
        controllers: Store<SlurmController>,
        pods: Store<PodView>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<Self>, UnboundedReceiver<ObjectRef<SlurmController>>), String> {
        let (woken, wakes) = unbounded();
        let ground = Arc::new(Ground { pods, clock, probe: Probe::new(port)? });
        Ok((Arc::new(Self { controllers, ground, watches: Mutex::default(), woken }), wakes))
    }

    /// Starts and ends watches as Controllers are created, changed and deleted, until `stop`. `caches` are those of Controllers and pods: a pod that
    /// is missing when a watch starts counts as new.
    pub(crate) async fn follow<R>(self: Arc<Self>, changes: impl Stream<Item = R> + Send, caches: Vec<Filled>, stop: CancellationToken) {
        keep_in_step(changes, caches, stop, || self.compare()).await;
        self.watches().clear();
    }

    /// Last role of each slurmctld; empty if there is only one, or before the first probe. Never waits.
    pub(crate) fn roles(&self, namespace: &str, controller: &str) -> Roles {
        let watches = self.watches();
        watches.get(&Key::new(namespace, controller)).map(|watch| locked(&watch.roles).clone()).unwrap_or_default()
    }

    fn compare(&self) {
        let wanted = wanted(&self.controllers);
        let mut watches = self.watches();
        watches.retain(|key, watch| wanted.get(key) == Some(&watch.wanted) && !watch.task.is_finished());
        for (key, wanted) in wanted {
            watches.entry(key).or_insert_with_key(|key| Watch::start(key, wanted, &self.ground, &self.woken));
        }
    }

    fn watches(&self) -> MutexGuard<'_, BTreeMap<Key, Watch>> {
        locked(&self.watches)
    }
}

/// Controllers with several slurmctlds.
fn wanted(controllers: &Store<SlurmController>) -> BTreeMap<Key, Wanted> {
    let several = controllers.state().into_iter().filter_map(|controller| {
        let ha = controller.spec.ha.as_ref().filter(|ha| ha.enabled && !controller.spec.external)?;
        let key = Key::new(controller.metadata.namespace.as_deref()?, controller.metadata.name.as_deref()?);
        Some((key, Wanted { uid: controller.uid(), pods: 1 + ha.backups }))
    });
    several.collect()
}

impl Watch {
    fn start(key: &Key, wanted: Wanted, ground: &Arc<Ground>, woken: &UnboundedSender<ObjectRef<SlurmController>>) -> Self {
        let roles = Arc::new(Mutex::new(Roles::default()));
        let (published, key, pods, ground, woken) = (roles.clone(), key.clone(), wanted.pods, ground.clone(), woken.clone());
        let task = tokio::spawn(async move {
            let mut rounds = interval(ROUND);
            rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                rounds.tick().await;
                let heard = ground.ask_all(&key, pods).await;
                let is_news = {
                    let mut roles = locked(&published);
                    let next = roles.heard(&heard, ground.clock.now());
                    std::mem::replace(&mut *roles, next.clone()) != next
                };
                if is_news {
                    // The receiver is gone only while the process shuts down.
                    let _ = woken.unbounded_send(ObjectRef::new(&key.controller).within(&key.namespace));
                }
            }
        });
        Self { wanted, roles, task }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ground {
    /// Probes all pods concurrently: pod, UID and role of those that exist.
    async fn ask_all(&self, key: &Key, pods: i32) -> Vec<(String, String, Role)> {
        let pods = (0..pods).filter_map(|index| {
            // By name: filtering ten thousand workers by label every two seconds would cost more than the probe.
            let pod = self.pods.get(&ObjectRef::new(&name::controller_pod(&key.controller, index)).within(&key.namespace))?;
            is_slurmctld(&pod, &key.controller).then_some(pod)
        });
        let asked = pods.map(|pod| async move {
            let address = pod.status.pod_ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok());
            let role = match address {
                Some(address) if !pod.is_ended() => self.probe.ask(address).await,
                _ => Role::Absent,
            };
            (pod.name_any(), pod.uid().unwrap_or_default(), role)
        });
        join_all(asked).await
    }
}

/// True if the pod is one of this Controller's, by its labels.
fn is_slurmctld(pod: &PodView, controller: &str) -> bool {
    let labels = pod.labels();
    let is = |key: &str, value: &str| labels.get(key).is_some_and(|given| given == value);
    is(label::NAME, Component::Controller.daemon()) && is(label::INSTANCE, controller)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
