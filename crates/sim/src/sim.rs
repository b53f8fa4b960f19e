//! The stand-in: a world, a clock, a key and faults behind one handle.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use slipway_slurm::rest::Version;
use slipway_slurm::rest::clock::Clock;
use tokio::sync::watch;

use crate::answer::Answer;
use crate::fault::{Fault, FaultKind};
use crate::release::Release;
use crate::template::{self, Shapes};
use crate::world::World;

/// A request, over HTTP or in process.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    pub method: String,
    pub path: String,
    pub query: String,
    /// Value of `X-SLURM-USER-TOKEN`.
    pub token: Option<String>,
    /// Value of `Authorization`.
    pub bearer: Option<String>,
    pub body: Bytes,
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Answer(Answer),
    /// The connection is cut.
    Cut,
    /// The connection is refused.
    Refuse,
    /// No answer ever comes.
    Stall,
}

/// Handle to a stand-in; clones refer to the same one.
#[derive(Clone)]
pub struct Sim {
    inner: Arc<Inner>,
}

struct Inner {
    release: Release,
    shapes: BTreeMap<Version, Shapes>,
    key: Vec<u8>,
    /// Name of the cluster that it answers for.
    cluster: Mutex<String>,
    clock: Clock,
    /// Seconds by which the clock was advanced.
    turned: AtomicI64,
    state: Mutex<State>,
    listening: watch::Sender<bool>,
}

/// Mutable state.
pub(crate) struct State {
    pub world: World,
    pub faults: Vec<Fault>,
    /// The world as it was when the stale list began.
    pub stale: Option<World>,
    /// Tokens issued before this time are refused.
    pub tokens_from: i64,
    /// Request counts by method and path below the version.
    pub seen: BTreeMap<String, u64>,
    /// Bytes of all answers.
    pub sent: u64,
    /// Lists sent with their elements, by name.
    pub whole: BTreeMap<&'static str, u64>,
}

#[derive(Deserialize)]
struct Claims {
    sun: String,
    exp: i64,
    #[serde(default)]
    iat: i64,
}

impl Sim {
    /// A cluster of `workers` workers that accepts tokens signed with `key`.
    pub fn new(release: Release, workers: u32, key: &[u8], clock: Clock) -> Self {
        let now = seconds(&clock, 0);
        let state = State {
            world: World::of_workers(workers, now),
            faults: Vec::new(),
            stale: None,
            tokens_from: i64::MIN,
            seen: BTreeMap::new(),
            sent: 0,
            whole: BTreeMap::new(),
        };
        let inner = Inner {
            release,
            shapes: template::all(),
            key: key.to_vec(),
            cluster: Mutex::new("demo".to_owned()),
            clock,
            turned: AtomicI64::new(0),
            state: Mutex::new(state),
            listening: watch::Sender::new(true),
        };
        Self { inner: Arc::new(inner) }
    }

    /// A cluster without workers that keeps the time of this machine.
    #[allow(clippy::disallowed_methods, reason = "the one place of this crate that asks for the time")]
    pub fn on_this_machine(key: &[u8]) -> Self {
        Self::new(Release::R2605, 0, key, Clock::new(jiff::Timestamp::now))
    }

    pub fn release(&self) -> Release {
        self.inner.release
    }

    pub(crate) fn cluster(&self) -> String {
        self.inner.cluster.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers for another cluster from now on.
    pub fn rename(&self, cluster: &str) {
        cluster.clone_into(&mut self.inner.cluster.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn shapes(&self, version: Version) -> Option<&Shapes> {
        self.inner.shapes.get(&version)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.inner.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = seconds(&self.inner.clock, self.inner.turned.load(Ordering::SeqCst));
        state.world.advance_to(now);
        state
    }

    /// Reads the world, or changes it without a request.
    pub fn world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.state().world)
    }

    /// Advances the clock.
    pub fn turn(&self, by: Duration) {
        self.inner.turned.fetch_add(i64::try_from(by.as_secs()).unwrap_or(i64::MAX), Ordering::SeqCst);
        drop(self.state());
    }

    /// Activates a fault.
    pub fn fail(&self, fault: Fault) {
        let mut state = self.state();
        if fault.kind == FaultKind::StaleList {
            state.stale = Some(state.world.clone());
        }
        self.inner.listening.send_if_modified(|listening| fault.kind == FaultKind::Refuse && std::mem::replace(listening, false));
        state.faults.push(fault);
    }

    /// Removes all faults.
    pub fn heal(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.stale = None;
        self.inner.listening.send_if_modified(|listening| !std::mem::replace(listening, true));
    }

    /// Makes the server refuse all tokens signed until now.
    pub fn expire_tokens(&self) {
        let mut state = self.state();
        state.tokens_from = i64::try_from(state.world.now).unwrap_or(i64::MAX);
    }

    /// Sets every node DOWN or up at once, as when a switch dies.
    pub fn flip(&self, is_down: bool, reason: &str) {
        let mut state = self.state();
        let now = state.world.now;
        for node in state.world.nodes.values_mut() {
            node.is_down = is_down;
            reason.clone_into(&mut node.reason);
            node.reason_at = now;
        }
        let names: Vec<String> = if is_down { state.world.nodes.keys().cloned().collect() } else { Vec::new() };
        for name in names {
            state.world.requeue_jobs_of(&name);
        }
        state.world.changed.nodes = now;
    }

    /// Number of requests so far whose method and path start with `start`.
    pub fn requests(&self, start: &str) -> u64 {
        self.state().seen.iter().filter(|(path, _)| path.starts_with(start)).map(|(_, count)| count).sum()
    }

    /// Bytes of all answers so far.
    pub fn bytes_sent(&self) -> u64 {
        self.state().sent
    }

    /// Number of times that a whole list was sent so far, such as `nodes`.
    pub fn whole_lists(&self, list: &str) -> u64 {
        self.state().whole.get(list).copied().unwrap_or_default()
    }

    /// True while connections are accepted; changes can be awaited.
    pub(crate) fn listening(&self) -> watch::Receiver<bool> {
        self.inner.listening.subscribe()
    }

    /// The user of a valid token, or `None`.
    pub(crate) fn user_of(&self, token: &str, state: &State) -> Option<String> {
        let mut checks = Validation::new(Algorithm::HS256);
        checks.validate_exp = false; // checked below, by our own clock
        let key = DecodingKey::from_secret(&self.inner.key);
        let claims = jsonwebtoken::decode::<Claims>(token, &key, &checks).ok()?.claims;
        let now = i64::try_from(state.world.now).unwrap_or(i64::MAX);
        // A token's `iat` is half a minute in the past, to allow for clock skew.
        let is_old = claims.iat + 30 < state.tokens_from;
        (claims.exp > now && !is_old).then_some(claims.sun)
    }
}

fn seconds(clock: &Clock, turned: i64) -> u64 {
    u64::try_from(clock.now().as_second() + turned).unwrap_or_default()
}
