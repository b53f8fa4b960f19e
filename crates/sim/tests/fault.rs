//! The snapshot while the server fails in every possible way, in virtual time: each answer is right or unknown, never wrong.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod scene;

use std::time::Duration;

use scene::{Scene, name, pass};
use slipway_sim::{Fault, FaultKind};
use slipway_slurm::rest::RestError;
use slipway_slurm::rest::model::NodeUpdate;
use slipway_slurm::snapshot::{Answer, Deadline, Why};
use tokio::time::Instant;

/// More workers than are read one by one when they are missing.
const WORKERS: u32 = 40;
/// Maximum age of the state that an answer describes: it must be true now or have been true within this time.
const MEMORY: Duration = Duration::from_secs(35);

/// Actual state, from the stand-in itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Truth {
    is_registered: bool,
    is_busy: bool,
    is_drained: bool,
}

fn truth(scene: &Scene, node: &str) -> Truth {
    scene.sim.world(|world| {
        let Some(record) = world.nodes.get(node) else { return Truth { is_registered: false, is_busy: false, is_drained: false } };
        let is_busy = record.is_busy(world.now);
        Truth { is_registered: true, is_busy, is_drained: record.is_draining && !is_busy }
    })
}

/// Watches for `seconds` seconds; every answer must have been true at some moment of the last [`MEMORY`].
async fn watch(scene: &Scene, what: &str, seconds: u64, history: &mut Vec<(Instant, Vec<Truth>)>) {
    let names: Vec<String> = (0..WORKERS).map(|index| format!("worker-{index}")).collect();
    for _ in 0..seconds * 2 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = Instant::now();
        history.push((now, names.iter().map(|node| truth(scene, node)).collect()));
        history.retain(|(at, _)| now - *at <= MEMORY);
        let snapshot = scene.handle.latest();
        for (index, node) in names.iter().enumerate() {
            let was = |is: fn(&Truth) -> bool, answer: &Answer| match answer {
                Answer::Unknown(_) => true,
                given => history.iter().any(|(_, truths)| is(&truths[index]) == given.is_yes()),
            };
            let (registered, busy) = (snapshot.is_registered(node, now), snapshot.is_busy(node, now));
            let drained = snapshot.is_drained(node, now);
            assert!(was(|truth| truth.is_registered, &registered), "{what}: `{node}` registered: {registered:?}");
            assert!(was(|truth| truth.is_busy, &busy), "{what}: `{node}` busy: {busy:?}");
            assert!(was(|truth| truth.is_drained, &drained), "{what}: `{node}` drained: {drained:?}");
            if snapshot.job_deadline(node, now) == Deadline::Free {
                assert!(history.iter().any(|(_, truths)| !truths[index].is_busy), "{what}: `{node}` is said to be free");
            }
        }
    }
}

/// A cluster with two jobs, a drained node and a draining one, watched for a while.
async fn lively() -> (Scene, Vec<(Instant, Vec<Truth>)>) {
    let scene = Scene::of(WORKERS);
    pass(5).await;
    scene.submit("worker-1", 3_600);
    scene.submit("worker-2", 60);
    pass(5).await;
    scene.sim.world(|world| {
        let drain = serde_json::json!({"state": ["DRAIN"], "reason": "x"});
        world.update_nodes(&["worker-[2-3]".to_owned()], &drain, "slurm").unwrap();
    });
    let mut history = Vec::new();
    watch(&scene, "before", 10, &mut history).await;
    (scene, history)
}

#[tokio::test(start_paused = true)]
async fn answers_are_right_or_unknown_under_every_fault() {
    for kind in [
        FaultKind::Refuse,
        FaultKind::ServerError,
        FaultKind::ControllerGone,
        FaultKind::ErrorsInside,
        FaultKind::EmptyList,
        FaultKind::HalfList,
        FaultKind::TornList,
        FaultKind::Stall,
        FaultKind::ResetAfterWrite,
        FaultKind::RefuseTokens,
    ] {
        let (scene, mut history) = lively().await;
        scene.sim.fail(Fault::new(kind));
        watch(&scene, &format!("{kind:?}"), 20, &mut history).await;
        // While none of it can be read: a job ends, another starts, a node is deleted.
        scene.submit("worker-5", 600);
        scene.sim.world(|world| world.delete_node("worker-7")).unwrap();
        watch(&scene, &format!("{kind:?}"), 90, &mut history).await;
        scene.sim.heal();
        watch(&scene, &format!("after {kind:?}"), 15, &mut history).await;
        let (snapshot, now) = (scene.handle.latest(), Instant::now());
        assert!(snapshot.is_complete(now) && snapshot.trouble().is_empty(), "{kind:?}: {}", snapshot.trouble());
        assert!(snapshot.is_busy("worker-5", now).is_yes() && snapshot.is_drained("worker-2", now).is_yes(), "{kind:?}");
        assert!(snapshot.is_registered("worker-7", now).is_no(), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_or_half_list_is_not_a_cluster_without_nodes_or_jobs() {
    for kind in [FaultKind::EmptyList, FaultKind::HalfList] {
        let (scene, mut history) = lively().await;
        scene.sim.fail(Fault::new(kind).on("nodes"));
        scene.sim.world(|world| world.changed.nodes = world.now + 10_000);
        watch(&scene, &format!("{kind:?}"), 120, &mut history).await;
        let (snapshot, now) = (scene.handle.latest(), Instant::now());
        assert!(!snapshot.is_complete(now));
        let last = snapshot.is_registered("worker-9", now);
        assert!(matches!(last, Answer::Unknown(Why::Partial { .. })), "{kind:?}: {last:?}");
    }
}

/// A stale list cannot be told from a true one while it lasts. But single reads are not stale, and soon afterwards every answer is right.
#[tokio::test(start_paused = true)]
async fn a_stale_list_is_left_behind_as_soon_as_it_ends() {
    let (scene, mut history) = lively().await;
    scene.sim.fail(Fault::new(FaultKind::StaleList));
    scene.submit("worker-5", 600);
    pass(20).await;
    assert!(scene.client.node(&name("worker-5")).await.unwrap().state.is_busy());
    scene.sim.heal();
    // The gate has the time of the stale list and reports no change; the table is read once more after a while.
    pass(25).await;
    history.clear();
    watch(&scene, "after the stale list", 30, &mut history).await;
    assert!(scene.handle.latest().is_busy("worker-5", Instant::now()).is_yes());
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_seen_by_the_next_reading() {
    let (scene, mut history) = lively().await;
    scene.sim.fail(Fault::new(FaultKind::ResetAfterWrite).on("node/").times(1));
    let lost = scene.client.update_node(&name("worker-9"), &NodeUpdate::drain("x")).await.unwrap_err();
    assert!(lost.may_have_been_applied(), "{lost}");
    scene.handle.read_soon();
    watch(&scene, "reset after a write", 3, &mut history).await;
    assert!(scene.handle.latest().is_drained("worker-9", Instant::now()).is_yes());
}

#[tokio::test(start_paused = true)]
async fn a_mass_flip_and_a_restart_that_forgets_are_seen_as_they_are() {
    let (scene, mut history) = lively().await;
    scene.sim.flip(true, "the switch died");
    watch(&scene, "all down", 60, &mut history).await;
    scene.sim.flip(false, "");
    watch(&scene, "all up", 60, &mut history).await;
    scene.sim.world(slipway_sim::world::World::forget);
    pass(10).await;
    let answer = scene.handle.latest().is_registered("worker-1", Instant::now());
    assert!(matches!(answer, Answer::Unknown(Why::Partial { .. })), "not believed at once: {answer:?}");
    watch(&scene, "forgotten", 60, &mut history).await;
    assert!(scene.handle.latest().is_registered("worker-1", Instant::now()).is_no());
    scene.sim.world(|world| world.register("worker-1", 2, &["worker".to_owned()]));
    watch(&scene, "registered anew", 10, &mut history).await;
    assert!(scene.handle.latest().is_registered("worker-1", Instant::now()).is_yes());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_left_alone_and_back_in_use_within_ten_seconds() {
    for (kind, sent_in_five_minutes) in [(FaultKind::Refuse, 70), (FaultKind::Stall, 45)] {
        let scene = Scene::of(3);
        pass(10).await;
        scene.sim.fail(Fault::new(kind));
        pass(120).await;
        let before = scene.sim.requests("");
        let started = Instant::now();
        let (mut paused, mut slowest) = (0, Duration::ZERO);
        while started.elapsed() < Duration::from_mins(5) {
            let asked = Instant::now();
            let error = scene.client.update_node(&name("worker-0"), &NodeUpdate::drain("x")).await.unwrap_err();
            paused += u32::from(matches!(error, RestError::Paused { .. }));
            if matches!(error, RestError::Paused { .. }) {
                slowest = slowest.max(asked.elapsed());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let sent = scene.sim.requests("") - before;
        assert!((20..=sent_in_five_minutes).contains(&sent), "{kind:?}: {sent} requests in five minutes");
        assert!(paused > 100 && slowest.is_zero(), "{kind:?}: {paused} failed at once, the slowest after {slowest:?}");
        scene.sim.heal();
        let healed = Instant::now();
        while scene.client.update_node(&name("worker-0"), &NodeUpdate::comment("x")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(healed.elapsed() <= Duration::from_millis(10_500), "{kind:?}: in use after {:?}", healed.elapsed());
        pass(11).await;
        assert!(scene.handle.latest().is_complete(Instant::now()), "{kind:?}: the keeper reads again");
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_calls_of_our_own_are_no_failure_of_the_server() {
    let scene = Scene::of(3);
    pass(5).await;
    let calls: Vec<_> = (0..400)
        .map(|_| {
            let client = std::sync::Arc::clone(&scene.client);
            tokio::spawn(async move { client.reservations(None, drop).await.map(drop) })
        })
        .collect();
    let mut crowded = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(()) => {}
            Err(RestError::NoTurn(_)) => crowded += 1,
            Err(other) => assert_eq!(other.reason(), "NoTurn", "{other}"),
        }
    }
    assert!(crowded > 100, "{crowded} had no turn");
    pass(30).await;
    scene.client.node(&name("worker-0")).await.unwrap();
}
