//! The stand-in over HTTP, and in process for tests that advance the clock.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::serve::Listener;
use bytes::Bytes;
use futures::stream;
use secrecy::ExposeSecret;
use slipway_slurm::rest::transport::{self, Later, Transport, Trouble};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::command;
use crate::sim::{Incoming, Outcome, Sim};

/// Maximum size of a request body.
const MAX_BODY: usize = 16 << 20;

/// A listening stand-in; it stops when this is dropped.
pub struct Served {
    pub address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Served {
    /// Listens on `address`; port 0 picks a free one.
    pub async fn start(sim: Sim, address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let door = Door { address, listener: Some(listener), open: sim.listening() };
        let router = Router::new().fallback(over_http).with_state(sim);
        let task = tokio::spawn(async move {
            // Ends only with the task.
            let _ = axum::serve(door, router).await;
        });
        Ok(Self { address, task })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A listener that can be closed; connections are then refused.
struct Door {
    address: SocketAddr,
    listener: Option<TcpListener>,
    open: watch::Receiver<bool>,
}

impl Listener for Door {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let is_open = *self.open.borrow_and_update();
            if !is_open {
                self.listener = None;
            } else if self.listener.is_none() {
                self.listener = TcpListener::bind(self.address).await.ok();
            }
            let Some(listener) = &self.listener else {
                if self.open.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                continue;
            };
            tokio::select! {
                accepted = listener.accept() => if let Ok(accepted) = accepted { return accepted },
                changed = self.open.changed() => if changed.is_err() { std::future::pending::<()>().await },
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}

async fn over_http(State(sim): State<Sim>, request: Request) -> Response {
    let mut incoming = head(&request);
    let Ok(body) = axum::body::to_bytes(request.into_body(), MAX_BODY).await else { return cut() };
    incoming.body = body;
    if let Some(answer) = command::obey(&sim, &incoming) {
        return respond(answer);
    }
    match sim.handle(&incoming) {
        Outcome::Answer(answer) => respond(answer),
        Outcome::Cut | Outcome::Refuse => cut(),
        Outcome::Stall => std::future::pending().await,
    }
}

/// A request without its body.
fn head(request: &Request) -> Incoming {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Incoming {
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        token: header("x-slurm-user-token"),
        bearer: header("authorization"),
        body: Bytes::new(),
    }
}

fn respond(answer: crate::answer::Answer) -> Response {
    let kind = if answer.is_json { "application/json" } else { "text/plain" };
    let mut response = Response::builder().status(answer.status);
    if answer.status != 304 {
        response = response.header("content-type", kind);
    }
    if answer.status >= 400 {
        response = response.header("connection", "close");
    }
    response.body(Body::from(answer.body)).unwrap_or_default()
}

/// A response whose body fails, so that the server has to cut the connection.
fn cut() -> Response {
    let broken = stream::once(async { Err::<Bytes, _>(std::io::Error::from(std::io::ErrorKind::ConnectionReset)) });
    Response::new(Body::from_stream(broken))
}

/// The stand-in without a network.
pub struct InProcess(pub Sim);

impl Transport for InProcess {
    fn send(&self, request: transport::Request) -> Later<'_, Result<transport::Response, Trouble>> {
        Box::pin(async move {
            let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
            let incoming = Incoming {
                method: request.method.to_string(),
                path: path.to_owned(),
                query: query.to_owned(),
                token: Some(request.token.expose_secret().to_owned()),
                bearer: None,
                body: request.body.unwrap_or_default(),
            };
            match self.0.handle(&incoming) {
                Outcome::Answer(answer) => {
                    let body = Box::new(Whole(Some(answer.body)));
                    Ok(transport::Response { status: answer.status, is_json: answer.is_json, body })
                }
                Outcome::Cut => Err(Trouble::Broken("connection reset".to_owned())),
                Outcome::Refuse => Err(Trouble::Unreachable("connection refused".to_owned())),
                Outcome::Stall => std::future::pending().await,
            }
        })
    }
}

impl InProcess {
    pub fn shared(sim: &Sim) -> Arc<dyn Transport> {
        Arc::new(Self(sim.clone()))
    }
}

/// A body in one chunk.
struct Whole(Option<Bytes>);

impl transport::Body for Whole {
    fn next(&mut self) -> Later<'_, Result<Option<Bytes>, Trouble>> {
        let piece = self.0.take();
        Box::pin(async move { Ok(piece) })
    }
}
