//! A proxy in front of the real slurmrestd: it passes answers on unchanged, or with one of the simulator's faults.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::serve::Listener;
use bytes::Bytes;
use futures::stream;
use kube::Client;
use kube::client::Body as KubeBody;
use serde_json::{Value, json};
use slipway_bed::bed::Bed;
use slipway_bed::failure::{Context, Failure};
use slipway_bed::layout::CONTROL_PLANE;
use slipway_sim::FaultKind;
use slipway_tests::cluster::Cluster;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const MAX_BODY: usize = 16 << 20;
/// Lists that a fault can change.
const LISTS: [&str; 2] = ["nodes", "jobs"];

/// A proxy between the operator and the slurmrestd of one cluster, until it is dropped. It has a thread of its own, so that a scenario that waits for
/// a program does not block it.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Path to slurmrestd through the API server, which reaches it whatever happens here.
    upstream: String,
    stop: CancellationToken,
    state: Mutex<Wrong>,
    is_open: watch::Sender<bool>,
}

/// The current fault, and the data that it needs.
#[derive(Default)]
struct Wrong {
    fault: Option<FaultKind>,
    /// Last complete answer for each list.
    known: BTreeMap<String, Bytes>,
    /// Answers of `known` at the start of the fault, returned by a stale list.
    stale: BTreeMap<String, Bytes>,
    /// Requests that the fault has hit.
    hits: usize,
}

/// An answer of slurmrestd.
struct Answer {
    status: u16,
    is_json: bool,
    body: Bytes,
}

impl Proxy {
    /// Listens on the port of the cluster's RestApi.
    pub(crate) fn start(bed: &Bed, namespace: &str, controller: &str, port: u16) -> Result<Self, Failure> {
        let upstream = format!("/api/v1/namespaces/{namespace}/services/{controller}-restapi:{port}/proxy");
        let shared = Shared { upstream, stop: CancellationToken::new(), state: Mutex::default(), is_open: watch::Sender::new(true) };
        let shared = Arc::new(shared);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context(|| "could not make a runtime for the proxy".to_owned())?;
        let door = Door { port, listen: Box::new(bed.listener(port)), listener: None, is_open: shared.is_open.subscribe() };
        let (served, kubeconfig) = (shared.clone(), bed.kubeconfig());
        let thread = std::thread::spawn(move || runtime.block_on(serve(served, door, &kubeconfig)));
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Makes answers wrong from now on.
    pub(crate) fn fail(&self, fault: FaultKind) {
        let mut state = self.shared.state();
        let stale = state.known.clone();
        *state = Wrong { fault: Some(fault), known: std::mem::take(&mut state.known), stale, hits: 0 };
        self.shared.is_open.send_replace(fault != FaultKind::Refuse);
    }

    /// Number of wrong answers so far.
    pub(crate) fn hits(&self) -> usize {
        self.shared.state().hits
    }

    /// Makes answers right from now on; returns the number of wrong ones. Refused connections are not counted.
    pub(crate) fn heal(&self) -> usize {
        let mut state = self.shared.state();
        state.fault = None;
        self.shared.is_open.send_replace(true);
        state.hits
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        // A thread that panicked has reported it on the test's output.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn serve(shared: Arc<Shared>, door: Door, kubeconfig: &Path) {
    let client = slipway_bed::client::from_kubeconfig(kubeconfig).await;
    let Ok(client) = client else { return };
    let router = Router::new().fallback(answer).with_state((shared.clone(), client));
    tokio::select! {
        () = shared.stop.cancelled() => {}
        _ = async { axum::serve(door, router).await } => {}
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Wrong> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The real answer.
    async fn forward(&self, client: &Client, request: http::request::Parts, body: Bytes) -> Option<Answer> {
        let path = request.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        let mut onward = http::Request::builder().method(request.method).uri(format!("{}{path}", self.upstream));
        for (name, value) in &request.headers {
            if name.as_str().starts_with("x-slurm") || matches!(name.as_str(), "content-type" | "accept") {
                onward = onward.header(name, value);
            }
        }
        let response = client.send(onward.body(KubeBody::from(body.to_vec())).ok()?).await.ok()?;
        let status = response.status().as_u16();
        let is_json = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).is_some_and(|kind| kind.contains("json"));
        let body = response.into_body().collect_bytes().await.ok()?;
        Some(Answer { status, is_json, body })
    }
}

/// A listener that can be closed: connections are then refused.
struct Door {
    port: u16,
    listen: Box<dyn Fn() -> Result<std::net::TcpListener, Failure> + Send>,
    listener: Option<TcpListener>,
    is_open: watch::Receiver<bool>,
}

impl Door {
    fn open(&self) -> Option<TcpListener> {
        let listener = (self.listen)().ok()?;
        listener.set_nonblocking(true).ok()?;
        TcpListener::from_std(listener).ok()
    }
}

impl Listener for Door {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let is_open = *self.is_open.borrow_and_update();
            if !is_open {
                self.listener = None;
            } else if self.listener.is_none() {
                self.listener = self.open();
            }
            tokio::select! {
                accepted = async { match &self.listener {
                    Some(listener) => listener.accept().await.ok(),
                    None => std::future::pending().await,
                } } => if let Some(accepted) = accepted { return accepted },
                changed = self.is_open.changed() => if changed.is_err() { std::future::pending::<()>().await },
                () = tokio::time::sleep(Duration::from_millis(200)), if is_open && self.listener.is_none() => {}
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok((CONTROL_PLANE, self.port).into())
    }
}

async fn answer(State((shared, client)): State<(Arc<Shared>, Client)>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, MAX_BODY).await else { return cut() };
    let below = head.uri.path().trim_matches('/').splitn(3, '/').nth(2).unwrap_or_default().to_owned();
    let is_gated = head.uri.query().is_some_and(|query| query.contains("update_time="));
    let list = LISTS.into_iter().find(|list| *list == below && head.method == "GET");
    let fault = shared.state().fault;
    let is_hit = match fault {
        None => false,
        Some(FaultKind::EmptyList | FaultKind::HalfList | FaultKind::StaleList | FaultKind::TornList | FaultKind::ErrorsInside) => {
            list.is_some()
        }
        Some(FaultKind::LyingGate) => list.is_some() && is_gated,
        // slurmrestd answers this one even without a valid token.
        Some(FaultKind::RefuseTokens) => below != "ping",
        Some(_) => true,
    };
    if is_hit {
        shared.state().hits += 1;
    }
    match fault.filter(|_| is_hit) {
        Some(FaultKind::Refuse) => return cut(),
        Some(FaultKind::Stall) => std::future::pending().await,
        Some(FaultKind::ServerError) => return plain(500, "Unspecified error"),
        Some(FaultKind::ControllerGone) => {
            return refusal(504, 5004, "Socket timed out on send/recv operation", "Unable to contact slurm controller");
        }
        Some(FaultKind::RefuseTokens) => return refusal(511, 1007, "Protocol authentication error", "Failure to query"),
        Some(FaultKind::LyingGate) if list == Some("nodes") => return plain(304, ""),
        _ => {}
    }
    let Some(mut real) = shared.forward(&client, head, body).await else { return cut() };
    if let Some(list) = list
        && real.status == 200
    {
        let value: Value = serde_json::from_slice(&real.body).unwrap_or_default();
        // A list that only reports that nothing changed is no list.
        let is_whole = value["warnings"].as_array().is_none_or(Vec::is_empty);
        if is_whole && fault.is_none() {
            shared.state().known.insert(list.to_owned(), real.body.clone());
        }
        if let Some(fault) = fault.filter(|_| is_hit && (is_whole || matches!(list, "jobs"))) {
            let stale = shared.state().stale.get(list).cloned();
            real.body = falsify(fault, list, value, stale).unwrap_or(real.body);
        }
    }
    if is_hit && fault == Some(FaultKind::ResetAfterWrite) { cut() } else { respond(real) }
}

/// The list with this fault, or `None` if the fault does not change lists.
fn falsify(fault: FaultKind, list: &str, mut value: Value, stale: Option<Bytes>) -> Option<Bytes> {
    let elements = value[list].as_array_mut()?;
    match fault {
        FaultKind::EmptyList | FaultKind::LyingGate => elements.clear(),
        FaultKind::HalfList => elements.truncate(elements.len() / 2),
        FaultKind::StaleList => return stale,
        FaultKind::ErrorsInside => {
            value["errors"] =
                json!([{ "error_number": 0, "error": "No error", "description": format!("Failure to query {list}"), "source": "proxy" }]);
        }
        FaultKind::TornList => {
            let text = value.to_string();
            return Some(Bytes::copy_from_slice(&text.as_bytes()[..text.len() / 2]));
        }
        _ => return None,
    }
    Some(Bytes::from(value.to_string()))
}

fn respond(answer: Answer) -> Response {
    let mut response = Response::builder().status(answer.status);
    if answer.status != 304 {
        response = response.header("content-type", if answer.is_json { "application/json" } else { "text/plain" });
    }
    response.body(Body::from(answer.body)).unwrap_or_default()
}

fn plain(status: u16, text: &'static str) -> Response {
    respond(Answer { status, is_json: false, body: Bytes::from_static(text.as_bytes()) })
}

fn refusal(status: u16, number: i64, error: &str, description: &str) -> Response {
    let error = json!({ "error_number": number, "error": error, "description": description, "source": "proxy" });
    respond(Answer { status, is_json: true, body: Bytes::from(json!({ "errors": [error], "warnings": [] }).to_string()) })
}

/// A body that fails: the server can only cut the connection.
fn cut() -> Response {
    let broken = stream::once(async { Err::<Bytes, _>(std::io::Error::from(std::io::ErrorKind::ConnectionReset)) });
    Response::new(Body::from_stream(broken))
}

/// Sends the operator through such proxies instead of to the RestApis' Services.
pub(crate) fn send_operator_through(cluster: &Cluster) -> Result<(), Failure> {
    let flag = format!("--slurm-url-template=http://{CONTROL_PLANE}:{{port}}");
    let patch = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "operator", "args": [flag] }] } } } });
    let args = ["patch", "deployment", "slipway", "--namespace=slipway-system", "--type=strategic", "--patch", &patch.to_string()];
    cluster.kubectl().args(args).output()?;
    let args = ["rollout", "status", "deployment/slipway", "--namespace=slipway-system", "--timeout=10m"];
    cluster.kubectl().args(args).output().map(drop)
}
