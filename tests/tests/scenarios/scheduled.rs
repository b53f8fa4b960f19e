//! A scheduled update on a real Slurm: its reservation matches the NodeSet, workers are replaced in it and at no other time, an earlier job runs to
//! its end, and the reservation is deleted with the NodeSet.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failed unwrap is a failed test, and a real Slurm runs by the real clock"
)]

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_bed::progress::seconds;
use slipway_tests::eventually::{eventually, steadily};
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

/// Long enough for at least two reconciles.
const A_WHILE: Duration = Duration::from_secs(8);
const RESERVATION: &str = "SlurmOperatorMaint-worker";

fn in_seconds(seconds: i64) -> Timestamp {
    Timestamp::from_second((Timestamp::now() + SignedDuration::from_secs(seconds)).as_second()).unwrap()
}

fn patch(slurm: &Slurm, spec: &Value) {
    let patch = json!({ "spec": spec }).to_string();
    slurm.kubectl(&["patch", "nodesets.slinky.slurm.net", WORKER, "--type=merge", "--patch", &patch]).unwrap();
}

fn schedule(slurm: &Slurm, start: Timestamp, duration: &str, flags: &[&str]) {
    let scheduled = json!({ "startTime": start.to_string(), "duration": duration, "flags": flags });
    patch(slurm, &json!({ "updateStrategy": { "type": "ScheduledUpdate", "scheduledUpdate": scheduled } }));
}

/// The reservation in `scontrol show reservation`; empty if there is none.
fn shown(slurm: &Slurm) -> String {
    let shown = slurm.on_controller(&["scontrol", "--oneliner", "show", "reservation"]).unwrap_or_default();
    shown.lines().find(|line| line.contains(&format!("ReservationName={RESERVATION} "))).unwrap_or_default().to_owned()
}

/// Waits until Slurm shows the reservation with all of these words; returns the time it took.
async fn until_shown(slurm: &Slurm, start: Timestamp, words: &[&str]) -> Duration {
    let (since, begins) = (Instant::now(), format!("StartTime={}", start.strftime("%Y-%m-%dT%H:%M:%S")));
    eventually(&format!("a reservation with {begins} {words:?}"), async || {
        let found = shown(slurm);
        if found.contains(&begins) && words.iter().all(|word| found.contains(word)) { Ok(()) } else { Err(format!("`{found}`")) }
    })
    .await
    .unwrap();
    since.elapsed()
}

async fn until_unreserved(slurm: &Slurm) -> Duration {
    let since = Instant::now();
    eventually("the reservation to be gone", async || {
        let found = shown(slurm);
        if found.is_empty() { Ok(()) } else { Err(found) }
    })
    .await
    .unwrap();
    since.elapsed()
}

/// Waits until the condition reports this start.
async fn until_reported(slurm: &Slurm, start: Timestamp) {
    let is_meant =
        |said: &Value| said["status"] == "True" && said["reason"] == "Created" && said["lastTransitionTime"] == start.to_string();
    slurm.until_condition("nodeset", WORKER, "ReservationCreated", is_meant).await.unwrap();
}

#[tokio::test]
async fn a_scheduled_update_happens_in_its_reservation_and_costs_no_job() {
    let ground = Ground::up("scheduled", 2).await.unwrap();
    let manifest = Manifest::demo().unwrap().workers(3).with("NodeSet", &json!({ "spec": { "oversubscribeNode": true } }));
    let slurm = ground.slurm("slurm", manifest).await.unwrap();
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let job = slurm.submit_patient(1).unwrap();
    observer.follow(job);
    slurm.until_job(job, "RUNNING").await.unwrap();
    let busy = slurm.busy().unwrap().remove(0);

    // The reservation is created despite a running job, and follows edits.
    let start = in_seconds(3600);
    schedule(&slurm, start, "30m", &[]);
    let took = until_shown(&slurm, start, &["Duration=00:30:00", "Nodes=worker-[0-2] ", "MAINT", "IGNORE_JOBS", "Users=slurm "]).await;
    eprintln!("the reservation was there {} after the edit", seconds(took));
    until_reported(&slurm, start).await;
    let later = in_seconds(5400);
    schedule(&slurm, later, "45m", &["DAILY"]);
    let took = until_shown(&slurm, later, &["Duration=00:45:00", "Nodes=worker-[0-2] ", "DAILY"]).await;
    eprintln!("it followed an edit within {}", seconds(took));
    until_reported(&slurm, later).await;

    // No worker is replaced before it begins.
    let before = slurm.uids().unwrap();
    patch(&slurm, &json!({ "template": { "metadata": { "annotations": { "example.org/release": "2" } } } }));
    steadily("nobody to be replaced", A_WHILE, async || {
        let now = slurm.uids().unwrap();
        if now == before { Ok(()) } else { Err(format!("{before:?} became {now:?}")) }
    })
    .await
    .unwrap();
    let is_meant = |why: &str| why.contains("older template") && why.contains(&later.to_string());
    slurm.until_not_ready("nodeset", WORKER, is_meant).await.unwrap();

    // During it the idle workers are replaced, the busy one keeps its job, and no other job starts.
    let soon = in_seconds(12);
    schedule(&slurm, soon, "30m", &[]);
    until_shown(&slurm, soon, &["Duration=00:30:00", "Nodes=worker-[0-2] "]).await;
    eventually("the idle workers to be replaced", async || {
        let now = slurm.uids().unwrap();
        let old: Vec<&String> =
            before.iter().filter(|(pod, uid)| now.get(*pod).is_none_or(|new| new == *uid)).map(|(pod, _)| pod).collect();
        if old == [&busy] { Ok(()) } else { Err(format!("{old:?} are as before; {}", slurm.nodes())) }
    })
    .await
    .unwrap();
    eprintln!("two idle workers were replaced {} s after the start", Timestamp::now().duration_since(soon).as_secs());
    for pod in before.keys().filter(|pod| **pod != busy) {
        let made: Timestamp = slurm.pod(pod).unwrap()["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
        assert!(made >= soon, "{pod} was made at {made}, before {soon}");
    }
    let waiting = slurm.submit_patient(1).unwrap();
    observer.follow(waiting);
    observer.look_again().await.unwrap();
    assert_eq!(observer.losses(), []);
    assert_eq!((slurm.uid(&busy), slurm.show_job(job).unwrap().state.as_str()), (before[&busy].clone(), "RUNNING"));
    slurm.release_one(job).unwrap();
    slurm.until_job(job, "COMPLETED").await.unwrap();
    slurm.until_updated(3).await.unwrap();
    assert_eq!(slurm.show_job(waiting).unwrap().state, "PENDING", "{}", shown(&slurm));

    // Another strategy ends it, and the pending job runs.
    patch(&slurm, &json!({ "updateStrategy": { "type": "RollingUpdate", "scheduledUpdate": null } }));
    eprintln!("with another strategy it was gone after {}", seconds(until_unreserved(&slurm).await));
    slurm.until_job(waiting, "RUNNING").await.unwrap();
    slurm.release_one(waiting).unwrap();
    slurm.until_job(waiting, "COMPLETED").await.unwrap();

    // An active reservation is deleted with the NodeSet: Slurm would not delete reserved nodes.
    let soon = in_seconds(6);
    schedule(&slurm, soon, "30m", &[]);
    until_shown(&slurm, soon, &["State=ACTIVE", "Nodes=worker-[0-2] "]).await;
    slurm.kubectl(&["delete", "nodesets.slinky.slurm.net", WORKER, "--wait=false"]).unwrap();
    eprintln!("with the NodeSet it was gone after {}", seconds(until_unreserved(&slurm).await));
    let since = Instant::now();
    eventually("the NodeSet and its nodes to be gone", async || {
        if slurm.resource("nodeset", WORKER).is_ok() {
            let why = slurm.is_ready("nodeset", WORKER).err().unwrap_or_default();
            return Err(format!("{why}; {}; {}", slurm.nodes(), shown(&slurm)));
        }
        let nodes = slurm.on_controller(&["scontrol", "show", "nodes", "--oneliner"]).map_err(|failure| failure.to_string())?;
        if nodes.contains("NodeName=worker-") { Err(nodes) } else { Ok(()) }
    })
    .await
    .unwrap();
    eprintln!("and the NodeSet {} later", seconds(since.elapsed()));
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}
