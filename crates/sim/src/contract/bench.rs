//! The server under test, and helpers shared by the checks.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretSlice};
use serde_json::Value;
use slipway_slurm::name::NodeName;
use slipway_slurm::rest::clock::Clock;
use slipway_slurm::rest::errno::Errno;
use slipway_slurm::rest::list::Hosts;
use slipway_slurm::rest::model::{Job, Node, NodeState, NodeUpdate};
use slipway_slurm::rest::token::{FixedToken, Signer, TokenSource};
use slipway_slurm::rest::transport::Http;
use slipway_slurm::rest::{Client, Limits, RestError, Version};
use tokio::time::Instant;

/// Timeout of every wait. A real slurmctld pings a node again within some seconds, and its scheduler runs every few seconds.
const PATIENCE: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(150);

/// A server to test.
#[derive(Clone)]
pub struct Target {
    pub url: String,
    /// Raw bytes of the token key.
    pub key: Vec<u8>,
    pub clock: Clock,
    pub workers: [String; 2],
    pub partition: String,
}

impl Target {
    /// A client for the Slurm user, pinned to `version` or negotiating one.
    pub fn client(&self, version: Option<Version>) -> Result<Client, String> {
        self.client_with(Arc::new(self.signer("slurm", self.key.clone())), version)
    }

    /// The server's OpenAPI document, with all its versions.
    pub async fn openapi(&self) -> Result<Value, String> {
        let bench = Bench::new(self, Version::V45)?;
        let token = bench.token_header()?;
        let (status, _, document) = bench.fetch("GET", "/openapi/v3", &[token]).await?;
        holds(status == 200, || format!("/openapi/v3: HTTP {status}"))?;
        Ok(document)
    }

    pub(super) fn signer(&self, user: &str, key: Vec<u8>) -> Signer {
        Signer::new(user, self.clock.clone(), move || Ok(SecretSlice::from(key.clone())))
    }

    pub(super) fn client_with(&self, tokens: Arc<dyn TokenSource>, version: Option<Version>) -> Result<Client, String> {
        let limits = Limits { per_second: 50, ..Limits::default() };
        let client = Client::new(Arc::new(Http::new(&self.url, None)?), tokens, Arc::new(()), limits);
        Ok(match version {
            Some(version) => client.pinned(version),
            None => client,
        })
    }
}

/// A target in one version.
pub struct Bench {
    pub target: Target,
    pub version: Version,
    pub client: Client,
    raw: reqwest::Client,
}

impl Bench {
    pub fn new(target: &Target, version: Version) -> Result<Self, String> {
        let client = target.client(Some(version))?;
        let raw = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(Duration::from_secs(10)).build();
        Ok(Self { target: target.clone(), version, client, raw: raw.map_err(|error| error.to_string())? })
    }

    pub fn worker(&self, index: usize) -> Result<NodeName, String> {
        NodeName::parse(&self.target.workers[index]).map_err(|error| error.to_string())
    }

    pub fn both(&self) -> Result<Hosts, String> {
        let names = [self.worker(0)?, self.worker(1)?];
        Hosts::of(&names).ok_or_else(|| "there are no workers".to_owned())
    }

    pub async fn node(&self, index: usize) -> Result<Node, String> {
        self.client.node(&self.worker(index)?).await.map_err(|error| error.to_string())
    }

    /// Waits until `is` holds for a worker.
    pub async fn until_node(&self, index: usize, what: &str, is: impl Fn(&Node) -> bool) -> Result<Node, String> {
        let name = self.worker(index)?;
        eventually(what, async || match self.client.node(&name).await {
            Ok(node) if is(&node) => Ok(node),
            Ok(node) => Err(format!("`{name}` is {} ({})", node.state, node.reason)),
            Err(error) => Err(error.to_string()),
        })
        .await
    }

    /// Waits until `is` holds for a job.
    pub async fn until_job(&self, id: u64, what: &str, is: impl Fn(&Job) -> bool) -> Result<Job, String> {
        eventually(what, async || match self.client.job(id).await {
            Ok(job) if is(&job) => Ok(job),
            Ok(job) => Err(format!("job {id} is {} ({})", job.job_state, job.state_reason)),
            Err(error) => Err(error.to_string()),
        })
        .await
    }

    /// Sends a raw request and returns status, content type and body.
    pub async fn raw(&self, method: &str, path: &str, headers: &[(&str, String)]) -> Result<(u16, String, Value), String> {
        self.fetch(method, &format!("/slurm/{}/{path}", self.version), headers).await
    }

    async fn fetch(&self, method: &str, path: &str, headers: &[(&str, String)]) -> Result<(u16, String, Value), String> {
        let method = http::Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
        let mut request = self.raw.request(method, format!("{}{path}", self.target.url));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let response = request.send().await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
        let body = response.bytes().await.map_err(|error| error.to_string())?;
        Ok((status, kind, serde_json::from_slice(&body).unwrap_or_default()))
    }

    pub fn token_header(&self) -> Result<(&'static str, String), String> {
        let token = self.target.signer("slurm", self.target.key.clone()).token(None).map_err(|error| error.to_string())?;
        Ok(("x-slurm-user-token", token.expose_secret().to_owned()))
    }

    pub fn fixed(&self, token: &str) -> Result<Client, String> {
        self.target.client_with(Arc::new(FixedToken::new(token)), Some(self.version))
    }

    /// Cleans up after a check and waits until both workers are usable.
    pub async fn tidy(&self) -> Result<(), String> {
        eventually("the cluster to be tidy", async || {
            let told = |error: RestError| error.to_string();
            let mut jobs = Vec::new();
            self.client.jobs(None, |job| jobs.push(job)).await.map_err(told)?;
            for job in jobs.iter().filter(|job| !job.job_state.is_terminal()) {
                self.client.cancel(job.job_id).await.map_err(told)?;
            }
            for index in 0..2 {
                let node = self.node(index).await?;
                if node.state.has(&NodeState::Drain) {
                    self.client.update_node(&self.worker(index)?, &NodeUpdate::undrain()).await.map_err(told)?;
                }
                if !node.state.is_usable() || node.state.is_busy() {
                    return Err(format!("`{}` is {}", node.name, node.state));
                }
            }
            Ok(())
        })
        .await
    }

    /// The current time by the target's clock.
    pub fn now(&self) -> Timestamp {
        self.target.clock.now()
    }
}

/// Polls until the answer is `Ok`; reports the last `Err` on timeout.
pub(super) async fn eventually<T, F: Future<Output = Result<T, String>>>(what: &str, ask: impl Fn() -> F) -> Result<T, String> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(missing) if Instant::now() > until => return Err(format!("waited {} s for {what}: {missing}", PATIENCE.as_secs())),
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

/// Fails with `otherwise` unless the statement is true.
pub(super) fn holds(is: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if is { Ok(()) } else { Err(otherwise()) }
}

/// Fails unless the answer is a refusal with this error number.
pub(super) fn refused<T: std::fmt::Debug>(answer: Result<T, RestError>, number: Errno) -> Result<(), String> {
    match answer {
        Err(RestError::Refused { number: given, .. }) if given == number => Ok(()),
        other => Err(format!("expected a refusal with {number}, got {other:?}")),
    }
}

/// Fails unless the answer is "not found".
pub(super) fn not_found<T: std::fmt::Debug>(answer: Result<T, RestError>) -> Result<(), String> {
    match answer {
        Err(RestError::NotFound { .. }) => Ok(()),
        other => Err(format!("expected that there is none, got {other:?}")),
    }
}

/// The answer, with a failure as text.
pub(super) fn fine<T>(answer: Result<T, RestError>) -> Result<T, String> {
    answer.map_err(|error| error.to_string())
}
