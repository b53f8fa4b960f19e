//! The stand-in keeps the contract in every version it serves, as the real server does.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use jiff::Timestamp;
use slipway_sim::contract::{Target, agreed_version, broken_promises, only};
use slipway_sim::{Fault, FaultKind, Release, Served, Sim};
use slipway_slurm::rest::Version;
use slipway_slurm::rest::clock::Clock;

const KEY: &[u8] = b"a key of the stand-in, 32 bytes!";

async fn stand_in(release: Release) -> (Sim, Served, Target) {
    #[allow(clippy::disallowed_methods, reason = "the stand-in runs by the real clock here")]
    let clock = Clock::new(Timestamp::now);
    let sim = Sim::new(release, 2, KEY, clock.clone());
    let served = Served::start(sim.clone(), "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let workers = ["worker-0".to_owned(), "worker-1".to_owned()];
    let target = Target { url: served.url(), key: KEY.to_vec(), clock, workers, partition: "worker".to_owned() };
    (sim, served, target)
}

async fn keeps_the_contract(version: Version) {
    let (_sim, _served, target) = stand_in(Release::R2605).await;
    let broken = broken_promises(&target, version).await.unwrap();
    assert!(broken.is_empty(), "broken promises:\n{}", broken.join("\n"));
}

#[tokio::test]
async fn the_stand_in_keeps_the_contract_in_v42() {
    keeps_the_contract(Version::V42).await;
}

#[tokio::test]
async fn the_stand_in_keeps_the_contract_in_v43() {
    keeps_the_contract(Version::V43).await;
}

#[tokio::test]
async fn the_stand_in_keeps_the_contract_in_v44() {
    keeps_the_contract(Version::V44).await;
}

#[tokio::test]
async fn the_stand_in_keeps_the_contract_in_v45() {
    keeps_the_contract(Version::V45).await;
}

#[tokio::test]
async fn each_release_agrees_on_its_newest_version() {
    for (release, version) in
        [(Release::R2411, Version::V42), (Release::R2505, Version::V43), (Release::R2511, Version::V44), (Release::R2605, Version::V45)]
    {
        let (_sim, _served, target) = stand_in(release).await;
        assert_eq!(agreed_version(&target).await.unwrap(), version);
    }
}

/// Older releases answer refusals with a 500 and word other answers differently; the client must not notice.
#[tokio::test]
async fn an_older_release_keeps_the_contract_in_its_own_words() {
    let (_sim, _served, target) = stand_in(Release::R2505).await;
    let broken = broken_promises(&target, Version::V43).await.unwrap();
    assert!(broken.is_empty(), "broken promises:\n{}", broken.join("\n"));
}

#[tokio::test]
async fn the_suite_notices_a_server_whose_gates_lie() {
    let (sim, _served, target) = stand_in(Release::R2605).await;
    sim.fail(Fault::new(FaultKind::LyingGate));
    let broken = only(&target, Version::V45, "no_change_slips_through_a_gate").await.unwrap();
    assert!(broken.len() == 1 && broken[0].contains("the gate of nodes hides"), "{broken:?}");
}
