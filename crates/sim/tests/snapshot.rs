//! The snapshot keeper against the stand-in, in virtual time.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod scene;

use std::sync::atomic::Ordering;
use std::time::Duration;

use scene::{Scene, name, pass};
use slipway_sim::{Fault, FaultKind};
use slipway_slurm::rest::list::Hosts;
use slipway_slurm::rest::model::NodeUpdate;
use slipway_slurm::snapshot::{Answer, Deadline, Why};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_quiet_cluster_costs_at_most_thirty_small_calls_a_minute() {
    let scene = Scene::of(10);
    pass(60).await;
    let (before, lists) = (scene.calls.0.load(Ordering::SeqCst), scene.sim.requests("GET nodes"));
    pass(600).await;
    let calls = scene.calls.0.load(Ordering::SeqCst) - before;
    assert!(calls <= 300, "{calls} calls in ten minutes");
    assert!(scene.sim.requests("GET nodes") - lists >= 200, "it does look");
    assert!(scene.handle.latest().is_complete(Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn changes_are_seen_within_seconds_and_quiet_polls_wake_nobody() {
    let mut scene = Scene::of(10);
    pass(10).await;
    let before = scene.handle.changed().await.unwrap();
    let quiet = tokio::time::timeout(Duration::from_secs(20), scene.handle.changed()).await;
    assert!(quiet.is_err(), "a quiet poll woke somebody");
    scene.client.update_nodes(&Hosts::of(&[name("worker-3"), name("worker-7")]).unwrap(), &NodeUpdate::drain("x")).await.unwrap();
    let started = Instant::now();
    let after = scene.handle.changed().await.unwrap();
    assert!(started.elapsed() <= Duration::from_secs(3));
    assert_eq!(after.nodes().changes_since(before.nodes()), ["worker-3", "worker-7"]);
    assert!(scene.is_drained("worker-3").is_yes() && scene.is_drained("worker-4").is_no());
}

#[tokio::test(start_paused = true)]
async fn a_wish_makes_the_reading_come_at_once() {
    let mut scene = Scene::of(3);
    pass(4).await;
    scene.handle.changed().await.unwrap();
    scene.client.update_node(&name("worker-0"), &NodeUpdate::drain("x")).await.unwrap();
    let started = Instant::now();
    scene.handle.read_soon();
    scene.handle.changed().await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_job_is_seen_from_its_start_to_its_end() {
    let scene = Scene::of(3);
    pass(10).await;
    scene.submit("worker-1", 100);
    pass(5).await;
    assert!(scene.is_busy("worker-1").is_yes() && scene.is_busy("worker-0").is_no());
    let Deadline::At(end) = scene.handle.latest().job_deadline("worker-1", Instant::now()) else { panic!("it has an end") };
    assert!((1_800_000_310..=1_800_000_315).contains(&end.as_second()), "{end}");
    pass(100).await;
    assert!(scene.is_busy("worker-1").is_no());
    assert_eq!(scene.handle.latest().job_deadline("worker-1", Instant::now()), Deadline::Free);
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_the_old_answers_hold_for_a_while_and_then_nothing_is_known() {
    for kind in [
        FaultKind::Refuse,
        FaultKind::ServerError,
        FaultKind::ControllerGone,
        FaultKind::ErrorsInside,
        FaultKind::TornList,
        FaultKind::Stall,
        FaultKind::RefuseTokens,
    ] {
        let scene = Scene::of(3);
        pass(10).await;
        scene.sim.fail(Fault::new(kind));
        // Something must change, or a gate would answer without a list.
        scene.sim.world(|world| world.register("worker-9", 2, &[]));
        pass(15).await;
        assert!(scene.is_busy("worker-1").is_no(), "{kind:?}: the old answer holds");
        pass(60).await;
        let answer = scene.is_busy("worker-1");
        assert!(matches!(answer, Answer::Unknown(Why::Stale { .. })), "{kind:?}: {answer:?}");
        assert!(!scene.handle.latest().trouble().is_empty());
        scene.sim.heal();
        pass(40).await;
        assert!(scene.is_busy("worker-1").is_no() && scene.is_registered("worker-9").is_yes(), "{kind:?}: all is well again");
        assert_eq!(scene.handle.latest().trouble(), "");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_or_half_list_makes_nobody_vanish() {
    for (kind, workers) in [(FaultKind::EmptyList, 10), (FaultKind::HalfList, 10), (FaultKind::EmptyList, 500), (FaultKind::HalfList, 500)]
    {
        let scene = Scene::of(workers);
        pass(10).await;
        let last = format!("worker-{}", workers - 1);
        assert!(scene.is_registered("worker-9").is_yes() && scene.is_registered("ghost").is_no());
        scene.sim.fail(Fault::new(kind).on("nodes"));
        scene.sim.world(|world| world.changed.nodes = world.now + 1_000);
        for _ in 0..20 {
            pass(5).await;
            for node in ["worker-9", last.as_str(), "worker-0"] {
                assert!(!scene.is_registered(node).is_no(), "{kind:?} of {workers}: `{node}` is said to be gone");
            }
        }
        assert!(!scene.handle.latest().is_complete(Instant::now()));
        scene.sim.heal();
        pass(20).await;
        assert!(scene.is_registered("worker-9").is_yes() && scene.handle.latest().is_complete(Instant::now()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_gone_at_once_and_a_lost_cluster_is_believed_later() {
    let scene = Scene::of(100);
    pass(10).await;
    scene.client.delete_node(&name("worker-5")).await.unwrap();
    pass(4).await;
    assert!(scene.is_registered("worker-5").is_no() && scene.handle.latest().is_complete(Instant::now()));
    scene.sim.world(slipway_sim::world::World::forget);
    pass(10).await;
    assert!(matches!(scene.is_registered("worker-6"), Answer::Unknown(Why::Partial { missing: 99 })));
    pass(40).await;
    assert!(scene.is_registered("worker-6").is_no(), "Slurm says so for half a minute, also when asked singly");
}

/// Slurm reports no deletion if no slurmd is left.
#[tokio::test(start_paused = true)]
async fn that_the_last_node_was_deleted_is_seen_by_who_asks_for_all_and_is_no_lie() {
    for is_asked in [true, false] {
        let scene = Scene::of(1);
        pass(60).await;
        scene.client.delete_node(&name("worker-0")).await.unwrap();
        if is_asked {
            scene.handle.read_all_soon();
        } else {
            pass(10).await;
            assert!(scene.is_registered("worker-0").is_yes(), "no gate tells of it");
            pass(300).await;
        }
        pass(1).await;
        assert!(scene.is_registered("worker-0").is_no(), "asked: {is_asked}");
        let before = scene.sim.requests("GET nodes");
        pass(100).await;
        assert!(scene.sim.requests("GET nodes") - before >= 35, "gates are trusted on, so it looks as often as ever");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_gates_lie_is_found_out_and_read_without_them() {
    let scene = Scene::of(5);
    pass(5).await;
    scene.sim.fail(Fault::new(FaultKind::LyingGate));
    scene.client.update_node(&name("worker-2"), &NodeUpdate::drain("x")).await.unwrap();
    pass(10).await;
    assert!(scene.is_drained("worker-2").is_no(), "the lie is believed at first");
    pass(60).await;
    assert!(scene.is_drained("worker-2").is_yes(), "the audit has found it out");
    scene.client.update_node(&name("worker-3"), &NodeUpdate::drain("x")).await.unwrap();
    pass(11).await;
    assert!(scene.is_drained("worker-3").is_yes(), "gates are not asked any more");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_changes_or_a_token_that_expires_is_survived() {
    let scene = Scene::of(2);
    pass(10).await;
    scene.sim.expire_tokens();
    pass(60).await;
    assert!(scene.is_busy("worker-0").is_no(), "a new token was made");
    pass(3600).await;
    assert!(scene.is_busy("worker-0").is_no(), "tokens are renewed in time");
}

#[tokio::test(start_paused = true)]
async fn all_nodes_may_change_at_once() {
    let scene = Scene::of(1_000);
    pass(10).await;
    let before = scene.handle.latest();
    scene.sim.flip(true, "the switch died");
    pass(30).await;
    let after = scene.handle.latest();
    assert_eq!(after.nodes().changes_since(before.nodes()).len(), 1_000);
    assert!(after.is_complete(Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn a_job_is_seen_within_three_seconds_however_long_the_queue_takes() {
    for slow in ["/jobs/", "/nodes/"] {
        let takes = if slow == "/jobs/" { 8_000 } else { 700 };
        let scene = Scene::with_slow(20, (slow, Duration::from_millis(takes)));
        pass(30).await;
        for node in 0..20 {
            let node = format!("worker-{node}");
            scene.submit(&node, 600);
            let started = Instant::now();
            while !scene.is_busy(&node).is_yes() {
                tokio::time::sleep(Duration::from_millis(50)).await;
                assert!(started.elapsed() <= Duration::from_secs(3), "{node} with slow {slow}");
            }
            tokio::time::sleep(Duration::from_millis(170)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_queue_is_read_seldom_and_an_end_is_still_seen() {
    let scene = Scene::with_slow(5, ("/jobs/", Duration::from_secs(2)));
    pass(60).await;
    let before = scene.sim.requests("GET jobs");
    for job in 0..60 {
        scene.submit(&format!("worker-{}", job % 5), 2);
        pass(1).await;
    }
    let lists = scene.sim.requests("GET jobs") - before;
    assert!(lists <= 6, "{lists} lists of jobs in a minute");
    pass(30).await;
    assert!(scene.is_busy("worker-1").is_no());
}

/// Starts two jobs on each worker but the last 20, and returns them.
fn fill(scene: &Scene, workers: u32) -> Vec<u64> {
    let start = |index: u32| scene.sim.world(|world| world.run_now(&format!("worker-{}", index % (workers - 20)), "all", 60));
    scene.sim.world(|world| world.nodes.values_mut().for_each(|node| node.cpus = 100));
    (0..(workers - 20) * 2).map(start).collect()
}

#[tokio::test(start_paused = true)]
async fn a_large_cluster_at_work_is_read_by_its_size_and_a_job_on_a_free_node_is_seen_as_soon() {
    let scene = Scene::of(1_000);
    let jobs = fill(&scene, 1_000);
    pass(60).await;
    let lists = || (scene.sim.whole_lists("nodes"), scene.sim.whole_lists("jobs"));
    let (mut nodes, mut queues) = lists();
    for (round, job) in jobs.iter().take(60).enumerate() {
        // What a quiet cluster saved up is used up by then.
        if round == 40 {
            (nodes, queues) = lists();
        }
        let free = format!("worker-{}", 980 + round % 20);
        let new = scene.sim.world(|world| world.run_now(&free, "all", 60));
        let started = Instant::now();
        while !scene.is_busy(&free).is_yes() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(started.elapsed() <= Duration::from_secs(3), "{free}");
        }
        tokio::time::sleep(Duration::from_secs(3).saturating_sub(started.elapsed())).await;
        scene.sim.world(|world| [new, *job].map(|job| world.end_job(job, "COMPLETED")));
    }
    let (nodes, queues) = (scene.sim.whole_lists("nodes") - nodes, scene.sim.whole_lists("jobs") - queues);
    assert!(nodes <= 16, "{nodes} lists of nodes in a minute");
    assert!(queues <= 2, "{queues} lists of jobs in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_whose_job_ends_does_not_wait_for_the_next_reading_of_a_long_queue() {
    let scene = Scene::of(400);
    let jobs = fill(&scene, 400);
    pass(60).await;
    scene.client.update_node(&name("worker-7"), &NodeUpdate::drain("x")).await.unwrap();
    scene.sim.world(|world| jobs.iter().skip(7).step_by(380).for_each(|job| world.end_job(*job, "COMPLETED")));
    let ended = Instant::now();
    while !scene.is_drained("worker-7").is_yes() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(ended.elapsed() <= Duration::from_secs(15), "{:?}", scene.is_drained("worker-7"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_speaks_for_another_cluster_is_not_believed_until_it_is_back() {
    let scene = Scene::of(3);
    pass(10).await;
    scene.sim.rename("other");
    scene.sim.world(|world| world.nodes.clear());
    scene.handle.read_all_soon();
    pass(60).await;
    let Answer::Unknown(why) = scene.is_registered("worker-0") else { panic!("another cluster was believed") };
    assert!(why.to_string().contains("answers for the cluster `other` now, and before for `demo`"), "{why}");
    assert!(scene.client.update_node(&name("worker-0"), &NodeUpdate::drain("x")).await.is_err());
    scene.sim.rename("demo");
    pass(60).await;
    assert!(scene.is_registered("worker-0").is_no(), "it is believed again");
}
