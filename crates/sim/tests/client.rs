//! The client over real HTTP against a failing server, and the contents of its logs.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretSlice};
use slipway_sim::{Fault, FaultKind, Release, Served, Sim};
use slipway_slurm::name::NodeName;
use slipway_slurm::rest::call::{Call, Observer};
use slipway_slurm::rest::clock::Clock;
use slipway_slurm::rest::error::Class;
use slipway_slurm::rest::model::NodeUpdate;
use slipway_slurm::rest::token::{Signer, TokenSource};
use slipway_slurm::rest::transport::Http;
use slipway_slurm::rest::{Client, Limits, RestError};

const KEY: &[u8] = b"a key of the stand-in, 32 bytes!";

#[derive(Default)]
struct Calls(Mutex<Vec<(&'static str, &'static str)>>);

impl Observer for Calls {
    fn ended(&self, call: &Call) {
        self.0.lock().unwrap().push((call.kind.as_str(), call.outcome));
    }
}

struct Scene {
    sim: Sim,
    served: Served,
    signer: Arc<Signer>,
    calls: Arc<Calls>,
    client: Client,
}

async fn scene() -> Scene {
    #[allow(clippy::disallowed_methods, reason = "real sockets, real time")]
    let clock = Clock::new(Timestamp::now);
    let sim = Sim::new(Release::R2605, 2, KEY, clock.clone());
    let served = Served::start(sim.clone(), "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let signer = Arc::new(Signer::new("slurm", clock, || Ok(SecretSlice::from(KEY.to_vec()))));
    let calls = Arc::new(Calls::default());
    let http = Arc::new(Http::new(&served.url(), None).unwrap());
    let limits = Limits { total: Duration::from_millis(500), queue: Duration::from_millis(500), ..Limits::default() };
    let client = Client::new(http, Arc::clone(&signer) as _, Arc::clone(&calls) as _, limits);
    Scene { sim, served, signer, calls, client }
}

fn worker() -> NodeName {
    NodeName::parse("worker-0").unwrap()
}

#[tokio::test]
async fn every_fault_has_its_own_error() {
    let Scene { sim, client, served: _served, .. } = scene().await;
    client.version().await.unwrap();
    for (kind, reason) in [
        (FaultKind::ServerError, "Unavailable"),
        (FaultKind::ControllerGone, "Unavailable"),
        (FaultKind::ErrorsInside, "Refused"),
        (FaultKind::TornList, "Unreadable"),
        (FaultKind::RefuseTokens, "TokenRefused"),
        (FaultKind::Stall, "TimedOut"),
        (FaultKind::ResetAfterWrite, "Broken"),
    ] {
        sim.fail(Fault::new(kind));
        let error = client.nodes(None, |_| ()).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{kind:?}: {error}");
        sim.heal();
        client.nodes(None, |_| ()).await.unwrap();
    }
}

#[tokio::test]
async fn a_shut_door_is_unreachable_and_opens_again() {
    let Scene { sim, served, signer, .. } = scene().await;
    sim.fail(Fault::new(FaultKind::Refuse));
    let client = Client::new(Arc::new(Http::new(&served.url(), None).unwrap()), signer, Arc::new(()), Limits::default());
    let until = Instant::now() + Duration::from_secs(5);
    // The listener closes a moment after the command.
    let error = loop {
        match client.nodes(None, |_| ()).await.unwrap_err() {
            error @ RestError::Unreachable(_) => break error,
            other => assert!(Instant::now() < until, "{other:?}"),
        }
    };
    assert!(error.class() == Class::Transient && !error.may_have_been_applied());
    sim.heal();
    while client.nodes(None, |_| ()).await.is_err() {
        assert!(Instant::now() < until, "the door stays shut");
    }
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_may_have_been_applied_and_is_not_sent_twice() {
    let Scene { sim, client, served: _served, .. } = scene().await;
    client.version().await.unwrap();
    sim.fail(Fault::new(FaultKind::ResetAfterWrite).on("node/").times(1));
    let error = client.update_node(&worker(), &NodeUpdate::drain("x")).await.unwrap_err();
    assert!(error.may_have_been_applied(), "{error:?}");
    assert_eq!(sim.requests("POST node/"), 1);
    assert!(client.node(&worker()).await.unwrap().state.is_drained(), "it was");
}

#[tokio::test]
async fn a_refused_token_is_made_anew_once() {
    let Scene { sim, client, calls, served: _served, .. } = scene().await;
    client.nodes(None, |_| ()).await.unwrap();
    sim.turn(Duration::from_secs(5));
    sim.expire_tokens();
    // The signer's clock is behind the server's, so its new token is too old as well: there are two refusals at most.
    let before = sim.requests("GET nodes");
    let error = client.nodes(None, |_| ()).await.unwrap_err();
    assert!(matches!(error, RestError::TokenRefused { http: 511, .. }), "{error:?}");
    assert!(sim.requests("GET nodes") - before <= 2);
    assert_eq!(calls.0.lock().unwrap().last(), Some(&("list_nodes", "TokenRefused")));
}

#[tokio::test]
async fn another_release_behind_the_same_name_is_agreed_with_anew() {
    let Scene { served, signer, client, sim, .. } = scene().await;
    client.nodes(None, |_| ()).await.unwrap();
    let address = served.address;
    drop(served);
    #[allow(clippy::disallowed_methods, reason = "real sockets, real time")]
    let older = Sim::new(Release::R2505, 1, KEY, Clock::new(Timestamp::now));
    let until = Instant::now() + Duration::from_secs(5);
    let _served = loop {
        match Served::start(older.clone(), address).await {
            Ok(served) => break served,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::task::yield_now().await;
    };
    drop((sim, signer));
    while client.nodes(None, |_| ()).await.is_err() {
        assert!(Instant::now() < until, "no version was agreed on");
    }
    assert_eq!(client.version().await.unwrap().as_str(), "v0.0.43");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_token_and_no_key_shows_in_logs_errors_or_debug() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let Scene { sim, client, signer, served: _served, .. } = scene().await;
    let token = signer.token(None).unwrap().expose_secret().to_owned();
    let mut shown = Vec::new();
    for kind in [FaultKind::RefuseTokens, FaultKind::ServerError, FaultKind::ResetAfterWrite, FaultKind::Stall] {
        client.update_node(&worker(), &NodeUpdate::comment("x")).await.unwrap();
        sim.fail(Fault::new(kind));
        let error = client.update_node(&worker(), &NodeUpdate::comment("x")).await.unwrap_err();
        shown.push(format!("{error} {error:?} {client:?}"));
        sim.heal();
    }
    drop(guard);
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("API version selected"), "the log was captured: {logged}");
    for text in shown.iter().chain([&logged]) {
        assert!(!text.contains(&token) && !text.contains("a key of the stand-in"), "{text}");
    }
}
