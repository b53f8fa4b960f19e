//! Sessions with Slurm clusters: for each Controller that has a RestApi one client and one task that keeps one snapshot for everybody.
//!
//! Nothing here makes a pass wait. A pass looks at what was last read, and what it commands is carried out by the cluster's own task; a
//! slurmrestd that hangs holds up that task and no other.

mod address;
mod booking;
mod hold;
mod session;
mod question;
mod refusal;
mod state;
mod token;
mod wanted;
mod command;

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
pub use hold::hold;
pub use question::{jobs_naming, needs, partitions_have_jobs, registered_nodes, workers_behind};
pub use state::state_words;
pub use wanted::Key;
pub use command::SlurmCommand;

use crate::step::keep_in_step;
use session::Session;
use wanted::Wanted;

/// The caches that tell which clusters there are, and who wants to know about them.
#[derive(Clone)]
pub struct Sources {
    pub controllers: Store<SlurmController>,
    pub restapis: Store<RestApi>,
    pub nodesets: Store<NodeSet>,
}

/// What every session needs.
#[derive(Clone)]
pub struct Ground {
    pub client: kube::Client,
    pub clock: Arc<dyn Clock>,
    pub metrics: Metrics,
    pub address: Address,
}

/// Who is woken when something about a cluster has changed.
pub struct Wakes {
    pub controllers: UnboundedReceiver<ObjectRef<SlurmController>>,
    pub nodesets: UnboundedReceiver<ObjectRef<NodeSet>>,
}

/// Every Slurm cluster of one scope.
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

    /// Makes and ends sessions as Controllers and RestApis come and go, until `stop`. `changes` names whatever changed; which it was does not
    /// matter. `caches` are those of the sources.
    pub async fn follow<R>(self: Arc<Self>, changes: impl Stream<Item = R> + Send, caches: Vec<Filled>, stop: CancellationToken) {
        // A RestApi that now names another Controller tells nothing of the one it named before, so all are compared each time.
        keep_in_step(changes, caches, stop, || self.compare()).await;
        self.sessions().clear();
    }

    /// The cluster as last seen; `None` where there is no RestApi. Never waits.
    pub fn snapshot(&self, namespace: &str, controller: &str) -> Option<Arc<Snapshot>> {
        self.sessions().get(&Key::new(namespace, controller)).map(Session::snapshot)
    }

    /// When slurmctld last read its configuration, or why that is not known. Never waits.
    ///
    /// Once known it stays true however old the reading is: slurmctld does not unread. Slurm tells it since 26.05 (v0.0.45).
    pub fn configured_at(&self, namespace: &str, controller: &str) -> Result<Timestamp, String> {
        let known = self.sessions().get(&Key::new(namespace, controller)).map(Session::configured_at);
        known.unwrap_or_else(|| {
            let (cause, advice) = no_session(namespace, controller);
            Err(format!("{cause}: {advice}"))
        })
    }

    /// Has Slurm told something soon, once for all who command the same meanwhile. False where there is no session. Never waits.
    ///
    /// What comes of it shows in the snapshot and in [`Self::configured_at`].
    pub fn send(&self, namespace: &str, controller: &str, command: SlurmCommand) -> bool {
        self.sessions().get(&Key::new(namespace, controller)).is_some_and(|session| {
            session.send(command);
            true
        })
    }

    /// What Slurm did not take about a node a while ago. Never waits.
    pub fn refusals(&self, namespace: &str, controller: &str, node: &str) -> Vec<Refusal> {
        self.sessions().get(&Key::new(namespace, controller)).map(|session| session.refusals(node)).unwrap_or_default()
    }

    /// What Slurm was last told about a reservation, and what came of it. Never waits.
    pub fn booked(&self, namespace: &str, controller: &str, reservation: &str) -> Option<Told> {
        self.sessions().get(&Key::new(namespace, controller)).and_then(|session| session.booked(reservation))
    }

    /// Has nodes and queue read soon unless they just were, before a decision that must not miss a job that came a moment ago. Whoever looks at
    /// the cluster is woken when that is done.
    pub fn read_soon(&self, namespace: &str, controller: &str) {
        if let Some(session) = self.sessions().get(&Key::new(namespace, controller)) {
            session.read_soon();
        }
    }

    /// Has nodes and reservations read soon, before a decision that must not miss one of these.
    pub fn read_reservations_soon(&self, namespace: &str, controller: &str) {
        if let Some(session) = self.sessions().get(&Key::new(namespace, controller)) {
            session.read_reservations_soon();
        }
    }

    /// Has Slurm asked soon when slurmctld and each slurmd read their configuration.
    pub fn read_configuration_soon(&self, namespace: &str, controller: &str) {
        if let Some(session) = self.sessions().get(&Key::new(namespace, controller)) {
            session.read_configuration_soon();
        }
    }

    /// The cluster's client, for writes. Its calls are bounded, but they are waits.
    pub fn client(&self, namespace: &str, controller: &str) -> Option<Arc<Client>> {
        self.sessions().get(&Key::new(namespace, controller)).map(Session::client)
    }

    /// The cluster's client for a pass that waits for its answers, unless another one does.
    pub fn client_in_turn(&self, namespace: &str, controller: &str) -> Option<(Arc<Client>, OwnedSemaphorePermit)> {
        self.sessions().get(&Key::new(namespace, controller)).and_then(Session::client_in_turn)
    }

    /// Compares the sessions with what is wanted. One that is to be another begins anew and knows nothing at first.
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

    /// Wakes the Controller and its NodeSets.
    fn waker(&self, key: &Key) -> impl Fn() + Send + Sync + 'static {
        let (key, store) = (key.clone(), self.sources.nodesets.clone());
        let (controllers, nodesets) = (self.controllers.clone(), self.nodesets.clone());
        move || {
            // Where nobody reads any more, the process is ending.
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

/// Why nothing is known where there is no session, and what to do about it.
pub(crate) fn no_session(namespace: &str, controller: &str) -> (String, String) {
    let cause = format!("no RestApi in namespace `{namespace}` names Controller `{controller}`");
    (cause, "create one, so that the operator can ask Slurm".to_owned())
}
