//! A scheduled update: its reservation in Slurm follows the spec, workers are replaced only during it, and it is deleted when no longer requested.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a failed unwrap is a failed test, and the stand-in runs by the real clock"
)]

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_api::condition::RESERVATION_CREATED;
use slipway_sim::reservation::ReservationRecord;

use crate::stage::cluster::{Cluster, operator};
use crate::stage::{Stage, condition, eventually, says};

const NODESET: &str = "worker";
const WORKERS: [&str; 3] = ["worker-0", "worker-1", "worker-2"];
const RESERVATION: &str = "SlurmOperatorMaint-worker";

/// The time this many seconds from now, as a whole second.
fn in_seconds(seconds: i64) -> Timestamp {
    Timestamp::from_second((Timestamp::now() + SignedDuration::from_secs(seconds)).as_second()).unwrap()
}

fn scheduled(start: Timestamp, duration: &str, flags: &[&str]) -> Value {
    let scheduled = json!({ "startTime": start.to_string(), "duration": duration, "flags": flags });
    json!({ "updateStrategy": { "type": "ScheduledUpdate", "scheduledUpdate": scheduled } })
}

fn path(cluster: &Cluster<'_>) -> String {
    format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/nodesets/{NODESET}", cluster.namespace)
}

async fn edit(cluster: &Cluster<'_>, spec: &Value) {
    let answer = cluster.stage.edit(&path(cluster), &json!({ "spec": spec })).await;
    assert_eq!(answer.code, 200, "{answer:?}");
}

fn reservation(cluster: &Cluster<'_>) -> Option<ReservationRecord> {
    cluster.sim.world(|world| world.reservations.get(RESERVATION).cloned())
}

/// Waits until Slurm has the reservation with this start, duration in minutes, flags and nodes.
async fn until_reserved(cluster: &Cluster<'_>, start: Timestamp, minutes: u64, flags: &[&str], nodes: &[&str]) {
    let start = u64::try_from(start.as_second()).unwrap();
    eventually(&format!("a reservation of {nodes:?} at {start}"), async || {
        let Some(found) = reservation(cluster) else { return Err("there is none".to_owned()) };
        let mut wanted: Vec<&str> = flags.iter().copied().chain(["IGNORE_JOBS", "MAINT"]).collect();
        let mut has: Vec<&str> = found.flags.iter().map(String::as_str).collect();
        wanted.sort_unstable();
        has.sort_unstable();
        let is_so = (found.start, found.end) == (start, start + minutes * 60) && found.nodes == nodes && has == wanted;
        if is_so && found.users == ["slurm"] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

async fn until_unreserved(cluster: &Cluster<'_>) {
    eventually("the reservation to go", async || reservation(cluster).map_or(Ok(()), |found| Err(format!("{found:?}")))).await;
}

/// Waits until the condition has this status, reason and start, and all these words in its message.
async fn until_reported(cluster: &Cluster<'_>, status: &Value, reason: &Value, start: Option<Timestamp>, words: &[&str]) {
    let is_meant = |said: &Value| {
        let has_start = start.is_none_or(|start| said["lastTransitionTime"] == start.to_string());
        said["status"] == *status && said["reason"] == *reason && has_start && says(said, words)
    };
    cluster.until_condition(NODESET, RESERVATION_CREATED, is_meant).await;
}

/// Waits until nothing is written while Slurm is polled three times.
async fn until_at_rest(cluster: &Cluster<'_>) {
    let written = || (cluster.writes().len(), cluster.sim.requests("POST") + cluster.sim.requests("DELETE"));
    let reads = || cluster.sim.requests("GET nodes");
    // Pending writes of the last change may come first.
    for _ in 0..6 {
        let before = (reads(), written());
        eventually("three readings", async || if reads() >= before.0 + 3 { Ok(()) } else { Err("not yet".to_owned()) }).await;
        if written() == before.1 {
            return;
        }
    }
    panic!("it writes on: {:?}", cluster.writes().iter().rev().take(5).collect::<Vec<_>>());
}

/// Waits until a pod has been replaced.
async fn until_replaced(cluster: &Cluster<'_>, pod: &str, before: &BTreeMap<String, String>) {
    eventually(&format!("pod {pod} to be replaced"), async || match cluster.uids(NODESET).await.get(pod) {
        Some(uid) if *uid != before[pod] => Ok(()),
        _ => Err(condition(&cluster.nodeset(NODESET).await, "Ready").to_string()),
    })
    .await;
}

fn template(value: &str) -> Value {
    json!({ "template": { "metadata": { "annotations": { "example.org/release": value } } } })
}

/// The reservation follows the spec.
async fn follows(cluster: &Cluster<'_>) {
    let start = in_seconds(3600);
    edit(cluster, &scheduled(start, "30m", &[])).await;
    until_reserved(cluster, start, 30, &[], &WORKERS).await;
    until_reported(cluster, &json!("True"), &json!("Created"), Some(start), &["3 nodes", &start.to_string()]).await;
    until_at_rest(cluster).await;

    let later = in_seconds(5400);
    edit(cluster, &scheduled(later, "1h15m", &["daily"])).await;
    until_reserved(cluster, later, 75, &["DAILY"], &WORKERS).await;
    until_reported(cluster, &json!("True"), &json!("Created"), Some(later), &[]).await;
    until_at_rest(cluster).await;

    // Slurm removes no flag, so the reservation is recreated.
    edit(cluster, &scheduled(later, "1h15m", &["FLEX"])).await;
    until_reserved(cluster, later, 75, &["FLEX"], &WORKERS).await;
    cluster.scale(NODESET, 2).await;
    until_reserved(cluster, later, 75, &["FLEX"], &["worker-0", "worker-1"]).await;
    cluster.scale(NODESET, 3).await;
    until_reserved(cluster, later, 75, &["FLEX"], &WORKERS).await;
    cluster.until_settled(NODESET, 3).await;
    until_at_rest(cluster).await;
}

/// Invalid settings are reported with a remedy.
async fn refuses(cluster: &Cluster<'_>) {
    let start = in_seconds(7200);
    edit(cluster, &scheduled(start, "30m", &[])).await;
    until_reserved(cluster, start, 30, &[], &WORKERS).await;
    edit(cluster, &json!({ "updateStrategy": { "type": "OnDelete" } })).await;
    until_unreserved(cluster).await;
    until_reported(cluster, &Value::Null, &Value::Null, None, &[]).await;
    // Slurm itself would create one without the flag.
    edit(cluster, &scheduled(start, "30m", &["BOGUS"])).await;
    until_reported(cluster, &json!("False"), &json!("InvalidSpec"), None, &["`BOGUS`", "`DAILY`"]).await;
    edit(cluster, &scheduled(in_seconds(-3600), "30m", &[])).await;
    until_reported(cluster, &json!("False"), &json!("ReservationRefused"), None, &["has passed", "set a later one"]).await;
    edit(cluster, &scheduled(start, "0s", &[])).await;
    until_reported(cluster, &json!("False"), &json!("InvalidSpec"), None, &["duration", "`0s`"]).await;
    edit(cluster, &scheduled(start, "30m", &["FORCE_START"])).await;
    until_reported(cluster, &json!("False"), &json!("InvalidSpec"), None, &["FORCE_START", "DAILY"]).await;
    assert!(reservation(cluster).is_none());
    until_at_rest(cluster).await;
    // A foreign reservation of that name stays as it is.
    let of_others = ReservationRecord {
        name: RESERVATION.to_owned(),
        nodes: vec!["worker-0".to_owned()],
        users: vec!["lena".to_owned()],
        start: u64::try_from(start.as_second()).unwrap(),
        end: u64::try_from(start.as_second()).unwrap() + 600,
        ..ReservationRecord::default()
    };
    cluster.sim.world(|world| world.reservations.insert(RESERVATION.to_owned(), of_others.clone()));
    edit(cluster, &scheduled(start, "30m", &[])).await;
    until_reported(cluster, &json!("False"), &json!("ReservationRefused"), None, &["not one of ours", "scontrol delete reservation"]).await;
    assert_eq!(reservation(cluster), Some(of_others));
    cluster.sim.world(|world| world.delete_reservation(RESERVATION)).unwrap();
}

/// Sets a start that is near, but has not passed when Slurm receives it: on a busy machine that takes longer.
async fn start_soon(cluster: &Cluster<'_>) -> Timestamp {
    for seconds in [4, 8, 16, 32, 64] {
        let soon = in_seconds(seconds);
        edit(cluster, &scheduled(soon, "30m", &[])).await;
        let is_taken = eventually("the reservation to be moved, or refused", async || {
            let said = condition(&cluster.nodeset(NODESET).await, RESERVATION_CREATED);
            let start = reservation(cluster).map(|found| found.start);
            if start == u64::try_from(soon.as_second()).ok() {
                Ok(true)
            } else if said["reason"] == "ReservationRefused" && said["message"].to_string().contains("has passed") {
                Ok(false)
            } else {
                Err(format!("{start:?}, {said}"))
            }
        })
        .await;
        if is_taken {
            return soon;
        }
    }
    panic!("no start was far enough away");
}

/// A new template reaches workers during the reservation, once they are idle.
async fn updates(cluster: &Cluster<'_>) {
    let far = in_seconds(3600);
    edit(cluster, &scheduled(far, "30m", &[])).await;
    until_reserved(cluster, far, 30, &[], &WORKERS).await;
    let (before, deleted) = (cluster.uids(NODESET).await, cluster.deletions().len());
    let job = cluster.start_job(NODESET, &["worker-0"], 3600);
    edit(cluster, &template("2")).await;
    eventually("the update to be told", async || {
        let said = condition(&cluster.nodeset(NODESET).await, "Ready")["message"].to_string();
        if said.contains("older template") && said.contains(&far.to_string()) { Ok(()) } else { Err(said) }
    })
    .await;
    until_at_rest(cluster).await;
    assert_eq!((cluster.uids(NODESET).await, cluster.deletions().len()), (before.clone(), deleted), "no worker is replaced before it");

    let soon = start_soon(cluster).await;
    for pod in ["worker-1", "worker-2"] {
        until_replaced(cluster, pod, &before).await;
    }
    eprintln!("idle workers were replaced {} s after the start", Timestamp::now().duration_since(soon).as_secs());
    assert_eq!(cluster.uids(NODESET).await["worker-0"], before["worker-0"], "it has a job");
    assert!(cluster.are_running(&[job]));
    assert!(cluster.sim.world(|world| world.nodes["worker-0"].is_draining));
    cluster.end_job(job);
    until_replaced(cluster, "worker-0", &before).await;
    cluster.until_settled(NODESET, 3).await;
    eventually("all to take jobs again", async || {
        let waiting = cluster.sim.world(|world| world.nodes.values().filter(|node| node.is_draining || node.is_down).count());
        if waiting == 0 { Ok(()) } else { Err(format!("{waiting} do not")) }
    })
    .await;
    until_reserved(cluster, soon, 30, &[], &WORKERS).await;
    until_reported(cluster, &json!("True"), &json!("Created"), Some(soon), &[]).await;
    until_at_rest(cluster).await;
    // A running reservation can grow and shrink; another start takes effect after its end.
    edit(cluster, &scheduled(in_seconds(7200), "45m", &[])).await;
    until_reserved(cluster, soon, 45, &[], &WORKERS).await;
    until_reported(cluster, &json!("True"), &json!("Created"), Some(soon), &["is created when it is over"]).await;
}

/// The next occurrence works like the first, and between the two no worker is replaced.
async fn recurs(cluster: &Cluster<'_>) {
    let start = in_seconds(3600);
    edit(cluster, &scheduled(start, "30m", &["HOURLY"])).await;
    until_reserved(cluster, start, 30, &["HOURLY"], &WORKERS).await;
    // Waits until the operator has read the reservation it created: one that is moved before would be moved back.
    until_reported(cluster, &json!("True"), &json!("Created"), Some(start), &[&start.to_string()]).await;
    // As Slurm does at the end of an occurrence.
    let move_to = |start: Timestamp| {
        let start = u64::try_from(start.as_second()).unwrap();
        cluster.sim.world(|world| {
            let found = world.reservations.get_mut(RESERVATION).unwrap();
            (found.start, found.end) = (start, start + 30 * 60);
            world.changed.reservations = world.now;
        });
    };
    let next = start + SignedDuration::from_hours(1);
    move_to(next);
    edit(cluster, &template("3")).await;
    until_reported(cluster, &json!("True"), &json!("Created"), Some(start), &[&next.to_string()]).await;
    let before = cluster.uids(NODESET).await;
    until_at_rest(cluster).await;
    until_reserved(cluster, next, 30, &["HOURLY"], &WORKERS).await;
    assert_eq!(cluster.uids(NODESET).await, before, "no worker is replaced before it");
    move_to(in_seconds(0));
    for pod in WORKERS {
        until_replaced(cluster, pod, &before).await;
    }
    cluster.until_settled(NODESET, 3).await;
}

/// It is deleted with the NodeSet although it is running, and so the node records are deleted.
async fn goes(cluster: &Cluster<'_>) {
    let other = json!({ "metadata": { "finalizers": ["nodeset.slinky.slurm.net/reservation", "nodeset.slipway.dev/jobs"] } });
    assert_eq!(cluster.stage.edit(&path(cluster), &other).await.code, 200);
    cluster.stage.delete(&path(cluster), "Background").await;
    until_unreserved(cluster).await;
    eventually("the NodeSet to go", async || match cluster.nodeset(NODESET).await {
        gone if gone["code"] == 404 => Ok(()),
        there => Err(condition(&there, "Ready").to_string()),
    })
    .await;
    assert_eq!(cluster.sim.world(|world| world.nodes.len()), 0);
}

/// Runs a test with three workers.
async fn with_workers(name: &str, happens: impl AsyncFnOnce(&Cluster<'_>)) {
    let stage = Stage::new(name).await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    cluster.create_nodeset(NODESET, 3).await;
    cluster.until_settled(NODESET, 3).await;
    happens(&cluster).await;
    drop(cluster);
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_is_what_the_user_writes() {
    with_workers("sched-follow", async |cluster| follows(cluster).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reservation_that_cannot_be_is_said_with_what_to_do() {
    with_workers("sched-refuse", async |cluster| refuses(cluster).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduled_update_happens_in_its_reservation() {
    with_workers("sched-update", async |cluster| updates(cluster).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduled_update_happens_each_time_and_its_reservation_goes_with_the_nodeset() {
    with_workers("sched-again", async |cluster| {
        recurs(cluster).await;
        goes(cluster).await;
    })
    .await;
}
