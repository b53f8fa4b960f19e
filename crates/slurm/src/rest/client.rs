//! Client of one cluster: bounds, counts and checks every call. The calls are in `endpoint`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use secrecy::ExposeSecret;
use tokio::time::Instant;

use super::answer::{Answer, Reader};
use super::breaker::Breaker;
use super::budget::Budget;
use super::call::{Call, CallKind, Observer};
use super::cluster::Cluster;
use super::error::RestError;
use super::token::TokenSource;
use super::transport::{Request, Transport, Trouble};
use super::version::Version;

/// Call limits of one cluster.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the wait for a free slot to the last byte of the response.
    pub total: Duration,
    /// The same for the queue: 50,000 jobs are 250 MB.
    pub queue: Duration,
    pub at_once: u32,
    pub per_second: u32,
    pub burst: u32,
    /// The same for calls about single records, which cost slurmctld little.
    pub records_per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        // Ten per second are 0.1 % of what slurmctld can serve. The burst allows a hundred single node reads at once after a restart.
        Self {
            total: Duration::from_secs(10),
            queue: Duration::from_secs(30),
            at_once: 4,
            per_second: 10,
            burst: 100,
            records_per_second: 200,
        }
    }
}

/// Client of one cluster's slurmrestd.
pub struct Client {
    transport: Arc<dyn Transport>,
    tokens: Arc<dyn TokenSource>,
    observer: Arc<dyn Observer>,
    budget: Budget,
    /// Of calls about single records.
    records: Budget,
    breaker: Breaker,
    limits: Limits,
    /// The negotiated version, if any.
    version: Mutex<Option<Version>>,
    pinned: bool,
    /// The cluster that the server answers for.
    cluster: Cluster,
}

/// Receives the elements of a list.
pub(super) type Take<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<(), serde_json::Error> + Send);

/// A call to make.
pub(super) struct Ask<'a> {
    pub kind: CallKind,
    pub method: Method,
    /// Below the version.
    pub path: &'a str,
    pub body: Option<Bytes>,
    /// Key of the list in the response.
    pub wanted: &'static str,
}

impl Client {
    pub fn new(transport: Arc<dyn Transport>, tokens: Arc<dyn TokenSource>, observer: Arc<dyn Observer>, limits: Limits) -> Self {
        let budget = Budget::new(limits.at_once, limits.per_second, limits.burst);
        let records = Budget::new(limits.at_once, limits.records_per_second, limits.burst);
        let (breaker, version, cluster) = (Breaker::default(), Mutex::new(None), Cluster::default());
        Self { transport, tokens, observer, budget, records, breaker, limits, version, pinned: false, cluster }
    }

    /// Uses this version and no other.
    #[must_use]
    pub fn pinned(mut self, version: Version) -> Self {
        self.version = Mutex::new(Some(version));
        self.pinned = true;
        self
    }

    /// The newest version that the server serves. Negotiated once, and again after the server stops serving it.
    pub async fn version(&self) -> Result<Version, RestError> {
        let known = *self.version.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(version) = known {
            return Ok(version);
        }
        for version in Version::NEWEST_FIRST {
            let ask = Ask { kind: CallKind::Ping, method: Method::GET, path: "ping/", body: None, wanted: "pings" };
            match self.call(version, ask, &mut |_| Ok(())).await {
                Err(RestError::UnknownUrl { .. }) => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    *self.version.lock().unwrap_or_else(PoisonError::into_inner) = Some(version);
                    tracing::info!(%version, "slurmrestd API version selected");
                    return Ok(version);
                }
            }
        }
        Err(RestError::NoVersion)
    }

    /// Makes a call in the negotiated version.
    pub(super) async fn ask(&self, ask: Ask<'_>, take: Take<'_>) -> Result<Answer, RestError> {
        let version = self.version().await?;
        let answer = self.call(version, ask, take).await;
        if matches!(answer, Err(RestError::UnknownUrl { .. })) && !self.pinned {
            // Another release serves now: negotiate again at the next call.
            *self.version.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        answer
    }

    /// Makes one call within its limits and counts it.
    async fn call(&self, version: Version, ask: Ask<'_>, take: Take<'_>) -> Result<Answer, RestError> {
        let started = Instant::now();
        let kind = ask.kind;
        let answer = match self.breaker.admit(started) {
            Err(paused) => Err(paused),
            Ok(leave) => {
                let has_turn = AtomicBool::new(false);
                let total = if kind == CallKind::ListJobs { self.limits.queue } else { self.limits.total };
                let bounded = tokio::time::timeout(total, self.call_with_token(version, ask, take, &has_turn)).await;
                let answer = bounded.unwrap_or_else(|_| {
                    Err(if has_turn.load(Ordering::SeqCst) { RestError::TimedOut(total) } else { RestError::NoTurn(total) })
                });
                leave.ended(&answer, Instant::now());
                answer
            }
        };
        let (outcome, bytes) = match &answer {
            Ok(answer) if answer.http == 304 => ("unchanged", answer.bytes),
            Ok(answer) => ("ok", answer.bytes),
            Err(error) => (error.reason(), 0),
        };
        self.observer.ended(&Call { kind, outcome, took: started.elapsed(), bytes });
        answer
    }

    /// Renews a refused token once, in case the key was changed. That is safe, because a refused call was not executed.
    async fn call_with_token(&self, version: Version, ask: Ask<'_>, take: Take<'_>, has_turn: &AtomicBool) -> Result<Answer, RestError> {
        let budget = if ask.kind.is_about_one_record() { &self.records } else { &self.budget };
        let _place = budget.admit().await;
        has_turn.store(true, Ordering::SeqCst);
        let path = format!("/slurm/{version}/{}", ask.path);
        let token = self.tokens.token(None)?;
        let request = |token| Request { method: ask.method.clone(), path: path.clone(), token, body: ask.body.clone() };
        let first = self.exchange(request(Arc::clone(&token)), ask.wanted, take).await;
        if !matches!(first, Err(RestError::TokenRefused { .. })) {
            return first;
        }
        let newer = self.tokens.token(Some(&token))?;
        if newer.expose_secret() == token.expose_secret() {
            return first;
        }
        self.exchange(request(newer), ask.wanted, take).await
    }

    async fn exchange(&self, request: Request, wanted: &'static str, take: Take<'_>) -> Result<Answer, RestError> {
        let path = request.path.clone();
        let mut response = self.transport.send(request).await.map_err(trouble)?;
        let mut reader = Reader::new(response.status, response.is_json, wanted);
        while let Some(chunk) = response.body.next().await.map_err(trouble)? {
            reader.feed(&chunk, take).map_err(|error| RestError::Unreadable(error.to_string()))?;
        }
        let answer = reader.finish(&path)?;
        self.cluster.check(&answer.envelope.meta.slurm.cluster)?;
        Ok(answer)
    }
}

fn trouble(trouble: Trouble) -> RestError {
    match trouble {
        Trouble::Unreachable(why) => RestError::Unreachable(why),
        Trouble::Broken(why) => RestError::Broken(why),
    }
}

/// Omits tokens.
impl std::fmt::Debug for Client {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Client").field("version", &self.version).field("limits", &self.limits).finish_non_exhaustive()
    }
}
