//! A client that calls slurmrestd about ten times a second with each of its tokens, whatever the response.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::{Request, StatusCode};
use kube::Client;
use tokio::task::JoinHandle;

const EVERY: Duration = Duration::from_millis(100);
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Outcome of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Accepted,
    /// slurmctld refuses the token; slurmrestd responds with 511.
    Refused,
    /// No daemon judged the token.
    Failed,
}

/// One call of the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Index of the token.
    pub(crate) token: usize,
    pub(crate) sent: Instant,
    pub(crate) ended: Instant,
    pub(crate) outcome: Outcome,
}

/// Calls until it is dropped.
pub(crate) struct Stream {
    calls: Arc<Mutex<Vec<Call>>>,
    task: JoinHandle<()>,
}

impl Stream {
    pub(crate) fn start(client: Client, path: String, tokens: Vec<String>) -> Self {
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let book = calls.clone();
        let task = tokio::spawn(async move {
            let mut tick = tokio::time::interval(EVERY);
            loop {
                tick.tick().await;
                for (token, text) in tokens.iter().cloned().enumerate() {
                    let (client, path, book) = (client.clone(), path.clone(), book.clone());
                    // A call that hangs must not delay the others.
                    tokio::spawn(async move {
                        let sent = Instant::now();
                        let outcome = call(&client, &path, &text).await;
                        let call = Call { token, sent, ended: Instant::now(), outcome };
                        book.lock().unwrap_or_else(PoisonError::into_inner).push(call);
                    });
                }
            }
        });
        Self { calls, task }
    }

    /// All finished calls, in the order of their ends.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Requests data that slurmrestd returns only with a valid token.
pub(crate) async fn call(client: &Client, path: &str, token: &str) -> Outcome {
    let request = Request::get(path).header("X-SLURM-USER-NAME", "slurm").header("X-SLURM-USER-TOKEN", token).body(Vec::new().into());
    let Ok(request) = request else { return Outcome::Failed };
    let answer = tokio::time::timeout(ANSWER_WITHIN, client.send(request)).await;
    match answer.ok().and_then(Result::ok).map(|response| response.status()) {
        Some(StatusCode::OK) => Outcome::Accepted,
        Some(StatusCode::NETWORK_AUTHENTICATION_REQUIRED) => Outcome::Refused,
        _ => Outcome::Failed,
    }
}
