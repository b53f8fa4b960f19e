//! A cluster and its keeper in virtual time: no sockets, no wall clock.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretSlice;
use slipway_sim::server::InProcess;
use slipway_sim::{Release, Sim};
use slipway_slurm::name::NodeName;
use slipway_slurm::rest::call::{Call, Observer};
use slipway_slurm::rest::clock::Clock;
use slipway_slurm::rest::token::Signer;
use slipway_slurm::rest::transport::{Later, Request, Response, Transport, Trouble};
use slipway_slurm::rest::{Client, Limits};
use slipway_slurm::snapshot::{Answer, Handle, Keeper, Pace};
use tokio::time::Instant;

const KEY: &[u8] = b"a key of the stand-in, 32 bytes!";

#[derive(Default)]
pub(crate) struct Counter(pub(crate) AtomicU64);

impl Observer for Counter {
    fn ended(&self, _: &Call) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) struct Scene {
    pub(crate) sim: Sim,
    pub(crate) client: Arc<Client>,
    pub(crate) handle: Handle,
    pub(crate) calls: Arc<Counter>,
}

/// The stand-in with a slow list, like those of a big cluster: a part of its path, and its duration.
struct Slow(Arc<dyn Transport>, (&'static str, Duration));

impl Transport for Slow {
    fn send(&self, request: Request) -> Later<'_, Result<Response, Trouble>> {
        Box::pin(async move {
            let (list, duration) = self.1;
            if request.path.contains(list) {
                tokio::time::sleep(duration).await;
            }
            self.0.send(request).await
        })
    }
}

pub(crate) fn name(text: &str) -> NodeName {
    NodeName::parse(text).unwrap()
}

pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

impl Scene {
    /// A cluster of `workers` workers, with a clock that follows tokio's.
    pub(crate) fn of(workers: u32) -> Self {
        Self::with_slow(workers, ("/nodes/", Duration::ZERO))
    }

    /// Like [`Self::of`], with one list that takes its time.
    pub(crate) fn with_slow(workers: u32, list: (&'static str, Duration)) -> Self {
        let start = Instant::now();
        let clock = Clock::new(move || Timestamp::from_second(1_800_000_000).unwrap() + start.elapsed());
        let sim = Sim::new(Release::R2605, workers, KEY, clock.clone());
        let calls = Arc::new(Counter::default());
        let signer = Signer::new("slurm", clock, || Ok(SecretSlice::from(KEY.to_vec())));
        let observer = Arc::clone(&calls) as Arc<dyn Observer>;
        let transport = Arc::new(Slow(InProcess::shared(&sim), list));
        let client = Arc::new(Client::new(transport, Arc::new(signer), observer, Limits::default()));
        let (keeper, handle) = Keeper::new(Arc::clone(&client), Pace::default());
        tokio::spawn(keeper.run());
        Self { sim, client, handle, calls }
    }

    pub(crate) fn is_busy(&self, node: &str) -> Answer {
        self.handle.latest().is_busy(node, Instant::now())
    }

    pub(crate) fn is_drained(&self, node: &str) -> Answer {
        self.handle.latest().is_drained(node, Instant::now())
    }

    pub(crate) fn is_registered(&self, node: &str) -> Answer {
        self.handle.latest().is_registered(node, Instant::now())
    }

    pub(crate) fn submit(&self, node: &str, seconds: u64) -> u64 {
        let job = serde_json::json!({"script": format!("#!/bin/sh\nsleep {seconds}\n"), "required_nodes": [node], "time_limit": 5});
        self.sim.world(|world| world.submit(&job)).unwrap().0
    }
}
