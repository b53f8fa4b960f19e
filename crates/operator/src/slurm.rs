//! Sessions with Slurm clusters: for each Controller with a RestApi, one client and one task that maintains one shared snapshot.
//!
//! Nothing here blocks a reconcile. It uses the last snapshot, and the cluster's own task runs its commands. A hanging slurmrestd blocks only that
//! task.

pub(crate) mod active_controller;
mod address;
mod booking;
mod command;
mod hold;
mod question;
mod refusal;
mod session;
mod state;
mod token;
mod wanted;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{
    Stream,
    channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
};
use jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use slipway_api::{NodeSet, RestApi, SlurmController};
use slipway_plan::nodeset::{Refusal, Told};
use slipway_runtime::{clock::Clock, hub::Filled, metrics::Metrics};
use slipway_slurm::{rest::Client, snapshot::Snapshot};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

pub use address::Address;
pub use command::{Gone, SlurmCommand};
pub use hold::hold;
pub use question::{jobs_naming, needs, partitions_have_jobs, registered_nodes, workers_behind};
pub use state::state_words;
pub use wanted::Key;

use crate::world::step::keep_in_step;
use session::Session;
use wanted::Wanted;

/// Caches of clusters, and of the NodeSets that use them.
#[derive(Clone)]
pub struct Sources {
    pub controllers: Store<SlurmController>,
    pub restapis: Store<RestApi>,
    pub nodesets: Store<NodeSet>,
}

/// Dependencies of every session.
#[derive(Clone)]
pub struct Ground {
    pub client: kube::Client,
    pub clock: Arc<dyn Clock>,
    pub metrics: Metrics,
    pub address: Address,
}

/// Objects to reconcile after a change in a cluster.
pub struct Wakes {
    pub controllers: UnboundedReceiver<ObjectRef<SlurmController>>,
    pub nodesets: UnboundedReceiver<ObjectRef<NodeSet>>,
}

/// All Slurm clusters of one scope.
pub struct Clusters {
    sources: Sources,
    ground: Ground,
    sessions: Mutex<BTreeMap<Key, Session>>,
    controllers: UnboundedSender<ObjectRef<SlurmController>>,
    nodesets: UnboundedSender<ObjectRef<NodeSet>>,
}

impl Clusters {
    /// Reads nothing until [`Self::follow`] runs.
    pub fn new(sources: Sources, ground: Ground) -> (Arc<Self>, Wakes) {
        let ((controllers, controllers_woken), (nodesets, nodesets_woken)) = (unbounded(), unbounded());
        let clusters = Self { sources, ground, sessions: Mutex::default(), controllers, nodesets };
        (Arc::new(clusters), Wakes { controllers: controllers_woken, nodesets: nodesets_woken })
    }

    /// Starts and ends sessions as Controllers and RestApis are created and deleted, until `stop`. `changes` yields an item for any change; which one
    /// does not matter. `caches` are those of the sources.
    pub async fn follow<R>(self: Arc<Self>, changes: impl Stream<Item = R> + Send, caches: Vec<Filled>, stop: CancellationToken) {
        // A RestApi that now names another Controller does not show the previous one, so all are compared each time.
        keep_in_step(changes, caches, stop, || self.compare()).await;
        self.sessions().clear();
    }

    /// The last snapshot of the cluster, or `None` without a RestApi. Never waits.
    pub fn snapshot(&self, namespace: &str, controller: &str) -> Option<Arc<Snapshot>> {
        self.sessions().get(&Key::new(namespace, controller)).map(Session::snapshot)
    }

    /// Time when slurmctld last read its configuration, or why it is not known. Never waits.
    ///
    /// Stays valid however old the reading is: a configuration that was read stays read. Slurm reports it since 26.05 (v0.0.45).
    pub fn configured_at(&self, namespace: &str, controller: &str) -> Result<Timestamp, String> {
        let known = self.sessions().get(&Key::new(namespace, controller)).map(Session::configured_at);
        known.unwrap_or_else(|| {
            let (cause, advice) = no_session(namespace, controller);
            Err(format!("{cause}: {advice}"))
        })
    }

    /// Queues a command; identical ones in the queue are sent once. False if there is no session. Never waits.
    ///
    /// The effect shows in the snapshot and in [`Self::configured_at`].
    pub fn send(&self, namespace: &str, controller: &str, command: SlurmCommand) -> bool {
        self.sessions().get(&Key::new(namespace, controller)).is_some_and(|session| {
            session.send(command);
            true
        })
    }

    /// Attributes of a node that Slurm recently refused. Never waits.
    pub fn refusals(&self, namespace: &str, controller: &str, node: &str) -> Vec<Refusal> {
        self.sessions().get(&Key::new(namespace, controller)).map(|session| session.refusals(node)).unwrap_or_default()
    }

    /// The last command about a reservation, and its result. Never waits.
    pub fn booked(&self, namespace: &str, controller: &str, reservation: &str) -> Option<Told> {
        self.sessions().get(&Key::new(namespace, controller)).and_then(|session| session.booked(reservation))
    }

    /// Requests a reading of nodes and queue unless they are fresh, before a decision that must not miss a recent job. Triggers reconciles of the
    /// cluster's objects when it is done.
    pub fn read_soon(&self, namespace: &str, controller: &str) {
        if let Some(session) = self.sessions().get(&Key::new(namespace, controller)) {
            session.read_soon();
        }
    }

    /// Requests a reading of nodes and reservations, before a decision that must not miss one of these.
    pub fn read_reservations_soon(&self, namespace: &str, controller: &str) {
        if let Some(session) = self.sessions().get(&Key::new(namespace, controller)) {
            session.read_reservations_soon();
        }
    }

    /// Requests a query of when slurmctld and each slurmd read their configuration.
    pub fn read_configuration_soon(&self, namespace: &str, controller: &str) {
        if let Some(session) = self.sessions().get(&Key::new(namespace, controller)) {
            session.read_configuration_soon();
        }
    }

    /// The cluster's client, for writes. Its calls have a time limit, but the caller waits for them.
    pub fn client(&self, namespace: &str, controller: &str) -> Option<Arc<Client>> {
        self.sessions().get(&Key::new(namespace, controller)).map(Session::client)
    }

    /// The cluster's client for a reconcile that waits for its answers, or `None` while another one does.
    pub fn client_in_turn(&self, namespace: &str, controller: &str) -> Option<(Arc<Client>, OwnedSemaphorePermit)> {
        self.sessions().get(&Key::new(namespace, controller)).and_then(Session::client_in_turn)
    }

    /// Compares sessions with the wanted ones. A changed session is restarted, and its state is unknown at first.
    fn compare(&self) {
        let wanted = wanted::wanted(&self.sources, &self.ground.address);
        let mut sessions = self.sessions();
        let ended: Vec<Key> = sessions
            .iter()
            .filter(|(key, session)| wanted.get(*key) != Some(session.wanted()) || session.has_ended())
            .map(|(key, _)| key.clone())
            .collect();
        for key in ended {
            sessions.remove(&key);
            tracing::info!(controller = %key, "Stopping slurmrestd client");
            self.waker(&key)();
        }
        for (key, wanted) in wanted {
            if sessions.contains_key(&key) {
                continue;
            }
            let server = wanted.server.clone();
            match Session::start(&key, wanted, &self.ground, self.waker(&key)) {
                Ok(session) => {
                    tracing::info!(controller = %key, %server, "Starting slurmrestd client");
                    sessions.insert(key, session);
                }
                Err(why) => tracing::error!(controller = %key, %server, %why, "Cannot start slurmrestd client"),
            }
        }
    }

    /// Triggers reconciles of the Controller and its NodeSets.
    fn waker(&self, key: &Key) -> impl Fn() + Send + Sync + 'static {
        let (key, store) = (key.clone(), self.sources.nodesets.clone());
        let (controllers, nodesets) = (self.controllers.clone(), self.nodesets.clone());
        move || {
            // The receiver is gone only while the process shuts down.
            let _ = controllers.unbounded_send(ObjectRef::new(&key.controller).within(&key.namespace));
            let of_it = store.state_filter(|nodeset| {
                nodeset.metadata.namespace.as_ref() == Some(&key.namespace) && nodeset.spec.controller_ref.name == key.controller
            });
            for nodeset in of_it {
                let _ = nodesets.unbounded_send(ObjectRef::from_obj(nodeset.as_ref()));
            }
        }
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<Key, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cause and advice if there is no session.
pub(crate) fn no_session(namespace: &str, controller: &str) -> (String, String) {
    let cause = format!("no RestApi in namespace `{namespace}` names Controller `{controller}`");
    (cause, "create one, so that the operator can ask Slurm".to_owned())
}
