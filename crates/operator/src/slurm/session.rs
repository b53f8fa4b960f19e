//! Session with one cluster: a client, a snapshot, and the task that maintains both.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use slipway_plan::nodeset::{Refusal, Told};
use slipway_runtime::metrics::{Metrics, SlurmCall, SlurmCallKind};
use slipway_slurm::{
    rest::{
        Client, Limits, RestError,
        call::{Call, Observer},
        error::Class,
        transport::Http,
    },
    snapshot::{Handle, Keeper, Pace, Snapshot},
};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
    time::Instant,
};

use super::{
    Ground, Key, SlurmCommand, Wanted,
    booking::Bookings,
    command::{Reading, listed::Listed},
    question::FRESH,
    refusal::Refusals,
    token::{KeyPlace, Tokens},
};

/// Interval for querying when slurmctld read its configuration, in addition to changes of its nodes.
const CONFIGURATION: Duration = Duration::from_secs(30);
/// Polling interval and time limit for a reading of the queue. A later reading triggers reconciles by itself, or is requested again.
const LOOK_FOR_QUEUE: Duration = Duration::from_millis(50);
const WAIT_FOR_QUEUE: Duration = Duration::from_secs(10);

/// Session with one cluster. Its task ends when this is dropped.
pub(super) struct Session {
    wanted: Wanted,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    metrics: Metrics,
}

/// The state that reconciles and the session's task share.
struct Shared {
    key: Key,
    client: Arc<Client>,
    /// Turn of the one reconcile that waits for answers.
    turn: Arc<Semaphore>,
    handle: Handle,
    /// Time when slurmctld last read its configuration, or why it is not known.
    configured_at: Mutex<Result<Timestamp, String>>,
    configuration_soon: Notify,
    /// Commands to send, in order.
    commands: Mutex<VecDeque<SlurmCommand>>,
    /// Comments for nodes. Each is a separate call and there may be thousands, so all other commands go first.
    comments: Mutex<BTreeMap<String, String>>,
    command_queued: Notify,
    refusals: Refusals,
    bookings: Bookings,
    /// A decision needs a fresh queue.
    queue_wanted: Notify,
}

impl Session {
    /// Starts reading. Calls `wake` after every change.
    pub(super) fn start(key: &Key, wanted: Wanted, ground: &Ground, wake: impl Fn() + Send + Sync + 'static) -> Result<Self, String> {
        let Wanted { server, jwt_key, jwt_field, .. } = &wanted;
        let namespace = key.namespace.clone();
        let place = KeyPlace { client: ground.client.clone(), namespace, reference: jwt_key.clone(), field: jwt_field };
        let tokens = Arc::new(Tokens::new(place, ground.clock.clone()));
        let transport = Arc::new(Http::new(server, None)?);
        let observer = Arc::new(Counted(ground.metrics.clone()));
        let client = Arc::new(Client::new(transport, tokens.clone(), observer, Limits::default()));
        let (keeper, handle) = Keeper::new(client.clone(), Pace::default());
        let shared = Arc::new(Shared {
            key: key.clone(),
            client,
            turn: Arc::new(Semaphore::new(1)),
            handle,
            configured_at: Mutex::new(Err("Slurm was not queried yet".to_owned())),
            configuration_soon: Notify::new(),
            commands: Mutex::default(),
            comments: Mutex::default(),
            command_queued: Notify::new(),
            refusals: Refusals::default(),
            bookings: Bookings::default(),
            queue_wanted: Notify::new(),
        });
        let work = shared.clone();
        // One task for all parts: none of them ends by itself, and if one panics, the whole session is restarted.
        let task = tokio::spawn(async move {
            let read = async {
                tokens.tried().await;
                keeper.run().await;
            };
            tokio::select! {
                () = read => {}
                () = tokens.keep_fresh(|| work.read_soon()) => {}
                () = work.tell_changes(&wake) => {}
                () = work.read_configuration(&wake) => {}
                () = work.run_commands(&wake) => {}
                () = work.read_queue(&wake) => {}
            }
        });
        ground.metrics.slurm_clusters.inc();
        Ok(Self { wanted, shared, task, metrics: ground.metrics.clone() })
    }

    pub(super) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// True if the task ended without being aborted by us.
    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.handle.latest()
    }

    pub(super) fn configured_at(&self) -> Result<Timestamp, String> {
        locked(&self.shared.configured_at).clone()
    }

    pub(super) fn refusals(&self, node: &str) -> Vec<Refusal> {
        self.shared.refusals.of(node)
    }

    pub(super) fn booked(&self, reservation: &str) -> Option<Told> {
        self.shared.bookings.of(reservation)
    }

    pub(super) fn client(&self) -> Arc<Client> {
        self.shared.client.clone()
    }

    pub(super) fn client_in_turn(&self) -> Option<(Arc<Client>, OwnedSemaphorePermit)> {
        let turn = self.shared.turn.clone().try_acquire_owned().ok()?;
        Some((self.shared.client.clone(), turn))
    }

    pub(super) fn read_soon(&self) {
        let (now, snapshot) = (Instant::now(), self.shared.handle.latest());
        let is_old = |age: Option<Duration>| age.is_none_or(|age| age > FRESH);
        if is_old(snapshot.queue_age(now)) || is_old(snapshot.reservations_age(now)) {
            self.shared.queue_wanted.notify_one();
        }
    }

    pub(super) fn read_reservations_soon(&self) {
        self.shared.handle.read_reservations_soon();
    }

    pub(super) fn read_configuration_soon(&self) {
        self.shared.handle.read_all_soon();
        self.shared.configuration_soon.notify_one();
    }

    /// Queues a command, unless it is already queued.
    pub(super) fn send(&self, command: SlurmCommand) {
        if let SlurmCommand::Describe(comments) = command {
            locked(&self.shared.comments).extend(comments);
        } else {
            if let SlurmCommand::Reserve(name, booking) = &command {
                self.shared.bookings.begin(name, booking.as_ref());
            }
            let mut commands = locked(&self.shared.commands);
            if !commands.contains(&command) {
                commands.push_back(command);
            }
        }
        self.shared.command_queued.notify_one();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
        self.metrics.slurm_clusters.dec();
    }
}

impl Shared {
    fn read_soon(&self) {
        self.handle.read_soon();
        self.configuration_soon.notify_one();
    }

    fn queue_age(&self) -> Option<Duration> {
        self.handle.latest().queue_age(Instant::now())
    }

    /// Reads the queue on request and then triggers reconciles, even if it is unchanged.
    async fn read_queue(&self, wake: &(dyn Fn() + Send + Sync)) {
        loop {
            self.queue_wanted.notified().await;
            let asked_at = Instant::now();
            self.handle.read_queue_soon();
            let read = async {
                while self.queue_age().is_none_or(|age| age > asked_at.elapsed()) {
                    tokio::time::sleep(LOOK_FOR_QUEUE).await;
                }
            };
            if tokio::time::timeout(WAIT_FOR_QUEUE, read).await.is_ok() {
                wake();
            }
        }
    }

    /// Triggers reconciles on every change in the cluster.
    async fn tell_changes(&self, wake: &(dyn Fn() + Send + Sync)) {
        let mut handle = self.handle.clone();
        let mut seen = handle.latest();
        while let Ok(snapshot) = handle.changed().await {
            // When slurmctld reads its configuration, it makes its nodes read it too, and they report a new start time. Other changes of nodes do not
            // matter here.
            if !std::ptr::eq(seen.nodes(), snapshot.nodes()) && last_start(&seen) != last_start(&snapshot) {
                self.configuration_soon.notify_one();
            }
            seen = snapshot;
            wake();
        }
    }

    /// Queries when slurmctld last read its configuration.
    async fn read_configuration(&self, wake: &(dyn Fn() + Send + Sync)) {
        loop {
            tokio::select! {
                () = self.configuration_soon.notified() => {}
                () = tokio::time::sleep(CONFIGURATION) => {}
            }
            let read = match self.client.conf().await {
                Ok(conf) => conf.booted_at.moment().ok_or_else(|| "Slurm does not report when slurmctld read its configuration".to_owned()),
                // Older versions report since when their counters run, but these also restart at midnight, so that proves nothing.
                Err(RestError::Unsupported { version, .. }) => {
                    Err(format!("Slurm tells when slurmctld read its configuration only since 26.05, and this one speaks {version}"))
                }
                Err(error) => {
                    let mut known = locked(&self.configured_at);
                    if known.is_err() {
                        *known = Err(error.to_string());
                    }
                    continue;
                }
            };
            let is_news = std::mem::replace(&mut *locked(&self.configured_at), read.clone()) != read;
            if is_news {
                self.refusals.clear();
                // It may be another slurmctld, whose changes are not those since our last read.
                self.handle.read_all_soon();
                wake();
            }
        }
    }

    /// Runs queued commands. A failed one is not retried: the next reconcile sees that nothing changed, or reads what Slurm refused.
    async fn run_commands(&self, wake: &(dyn Fn() + Send + Sync)) {
        let mut listed = Listed::default();
        loop {
            let next = locked(&self.commands).front().cloned();
            let Some(command) = next else {
                listed = Listed::default();
                let comment = locked(&self.comments).pop_first();
                match comment {
                    Some((node, comment)) => self.describe(node, comment).await,
                    None => self.command_queued.notified().await,
                }
                continue;
            };
            let outcome = command.carry_out(&self.client, &mut listed).await;
            if let SlurmCommand::Reserve(name, booking) = &command {
                self.bookings.end(name, booking.as_ref(), outcome.as_ref().copied());
            }
            match outcome {
                Ok(()) => tracing::info!(controller = %self.key, %command, "Slurm request succeeded"),
                Err(error) => {
                    tracing::warn!(controller = %self.key, %command, %error, "Slurm request failed");
                    if let SlurmCommand::SetAttribute(nodes, attribute) = &command
                        && error.class() == Class::External
                    {
                        self.refusals.note(nodes, attribute, &error.to_string());
                        wake();
                    }
                    if let SlurmCommand::Reserve(..) = &command {
                        wake();
                    }
                }
            }
            // Removed only now, so that the same command is not queued again meanwhile.
            let is_followed = {
                let mut commands = locked(&self.commands);
                commands.pop_front();
                command.is_one_of_many() && commands.front().is_some_and(SlurmCommand::is_one_of_many)
            };
            if is_followed {
                // One reading shows the effect of all.
                continue;
            }
            match command.reading() {
                Reading::Configuration => self.read_soon(),
                Reading::Reservations => self.handle.read_reservations_soon(),
                Reading::AllNodes => self.handle.read_all_soon(),
                Reading::ChangedNodes => self.handle.read_soon(),
            }
        }
    }

    async fn describe(&self, node: String, comment: String) {
        let command = SlurmCommand::Describe(BTreeMap::from([(node.clone(), comment)]));
        match command.carry_out(&self.client, &mut Listed::default()).await {
            Ok(()) => tracing::debug!(controller = %self.key, node, "Slurm node comment updated"),
            Err(error) => tracing::warn!(controller = %self.key, node, %error, "Slurm node comment not updated"),
        }
        // One reading shows all comments.
        if locked(&self.comments).is_empty() {
            self.read_soon();
        }
    }
}

/// Latest time at which a slurmd started or read its configuration.
fn last_start(snapshot: &Snapshot) -> Option<Timestamp> {
    snapshot.nodes().iter().filter_map(|node| node.slurmd_start_time.moment()).max()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records every call in the metrics.
struct Counted(Metrics);

impl Observer for Counted {
    fn ended(&self, call: &Call) {
        let (kind, outcome) = (call.kind.as_str(), call.outcome);
        let of_kind = SlurmCallKind { kind };
        self.0.slurm_calls.get_or_create(&SlurmCall { kind, outcome }).inc();
        self.0.slurm_call_seconds.get_or_create(&of_kind).observe(call.took.as_secs_f64());
        self.0.slurm_answer_bytes.get_or_create(&of_kind).inc_by(call.bytes);
    }
}
