//! Slurm's records of workers: recreated when their pods' memory changes, deleted when no longer wanted, and kept while something needs them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_bed::progress::seconds;
use slipway_tests::eventually::{eventually, steadily};
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

const WORKERS: u32 = 4;
/// Long enough for at least two reconciles.
const A_WHILE: Duration = Duration::from_secs(8);

fn patch(slurm: &Slurm, patch: &serde_json::Value) {
    slurm.kubectl(&["patch", "nodesets.slinky.slurm.net", WORKER, "--type=merge", "--patch", &patch.to_string()]).unwrap();
}

/// One value of a node's record, as scontrol shows it; 0 if it is absent.
fn shown(slurm: &Slurm, node: &str, key: &str) -> Result<u64, String> {
    let text = slurm.on_controller(&["scontrol", "show", "node", node]).map_err(|failure| failure.to_string())?;
    let value = text.split_whitespace().find_map(|word| word.strip_prefix(&format!("{key}=")));
    value.map_or(Ok(0), |value| value.parse().map_err(|error| format!("{key} of {node} is {value}: {error}")))
}

/// Memory of a node that jobs can use.
fn usable(slurm: &Slurm, node: &str) -> Result<u64, String> {
    Ok(shown(slurm, node, "RealMemory")?.saturating_sub(shown(slurm, node, "MemSpecLimit")?))
}

async fn until_value(slurm: &Slurm, node: &str, expected: u64, look: impl Fn(&Slurm, &str) -> Result<u64, String>) {
    eventually(&format!("{node} to have {expected}"), async || {
        let found = look(slurm, node)?;
        let why = || slurm.is_ready("nodeset", WORKER).err().unwrap_or_default();
        if found == expected { Ok(()) } else { Err(format!("it has {found}; {}; {}", slurm.nodes(), why())) }
    })
    .await
    .unwrap();
}

fn records(slurm: &Slurm) -> Result<Vec<String>, String> {
    let text = slurm.on_controller(&["scontrol", "show", "nodes", "--oneliner", "--all"]).map_err(|failure| failure.to_string())?;
    let mut names: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix("NodeName=")?.split_whitespace().next().map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}

async fn until_records(slurm: &Slurm, expected: &[&str]) {
    eventually(&format!("the records {expected:?}"), async || {
        let found = records(slurm)?;
        if found == expected { Ok(()) } else { Err(format!("there are {found:?}; {}; {}", slurm.nodes(), said(slurm))) }
    })
    .await
    .unwrap();
}

/// The NodeSet's message about records.
fn said(slurm: &Slurm) -> String {
    let condition = slurm.condition("nodeset", WORKER, "RecordsCurrent").unwrap_or_default();
    condition["message"].as_str().unwrap_or_default().to_owned()
}

async fn until_reported(slurm: &Slurm, words: &str) {
    let is_meant = |said: &Value| said["message"].as_str().unwrap_or_default().contains(words);
    slurm.until_condition("nodeset", WORKER, "RecordsCurrent", is_meant).await.unwrap();
}

/// Reserves a node from an hour on.
fn reserve(slurm: &Slurm, name: &str, node: &str) {
    let (name, node) = (format!("reservationname={name}"), format!("nodes={node}"));
    let options = ["scontrol", "create", "reservation", &name, &node, "starttime=now+1hour", "duration=10", "users=root"];
    slurm.on_controller(&options).unwrap();
}

/// Idle workers are registered again with their memory, a busy one after its job has ended.
async fn memory_changes(slurm: &Slurm, observer: &Observer) {
    let job = slurm.submit_patient_on("worker-0").unwrap();
    observer.follow(job);
    slurm.until_job(job, "RUNNING").await.unwrap();
    let since = Instant::now();
    patch(slurm, &json!({ "spec": { "slurmd": { "resources": { "limits": { "memory": "2Gi" } } } } }));
    for worker in ["worker-1", "worker-2", "worker-3"] {
        until_value(slurm, worker, 2048, usable).await;
    }
    eprintln!("three idle workers had their new memory limit in Slurm after {}", seconds(since.elapsed()));
    assert_eq!(usable(slurm, "worker-0"), Ok(1024), "it has a job");
    observer.look_again().await.unwrap();
    assert_eq!(observer.losses(), []);
    let since = Instant::now();
    slurm.release_one(job).unwrap();
    slurm.until_job(job, "COMPLETED").await.unwrap();
    until_value(slurm, "worker-0", 2048, usable).await;
    eprintln!("the busy one had it {} after its job", seconds(since.elapsed()));

    // Values that a user sets for slurmd count too. A reserved worker gets its new pod, but its record stays as it was: Slurm ignores new values for
    // an existing record.
    reserve(slurm, "meanwhile", "worker-3");
    let (since, before, former) = (Instant::now(), shown(slurm, "worker-3", "RealMemory").unwrap(), slurm.uid("worker-3"));
    patch(slurm, &json!({ "spec": { "extraConf": "RealMemory=4000 Weight=7" } }));
    for worker in ["worker-0", "worker-1", "worker-2"] {
        until_value(slurm, worker, 4000, |slurm, node| shown(slurm, node, "RealMemory")).await;
        until_value(slurm, worker, 7, |slurm, node| shown(slurm, node, "Weight")).await;
    }
    eprintln!("three workers had their new RealMemory after {}", seconds(since.elapsed()));
    slurm.until_gone("worker-3", &former).await.unwrap();
    until_reported(slurm, &format!("the Slurm record of node `worker-3` differs from its pod (RealMemory is {before} and not 4000")).await;
    assert!(said(slurm).contains("reservation `meanwhile` names it"), "{}", said(slurm));
    assert_eq!(shown(slurm, "worker-3", "RealMemory"), Ok(before));
    slurm.on_controller(&["scontrol", "delete", "reservationname=meanwhile"]).unwrap();
    let since = Instant::now();
    until_value(slurm, "worker-3", 4000, |slurm, node| shown(slurm, node, "RealMemory")).await;
    eprintln!("the reserved one had it {} after its reservation was gone", seconds(since.elapsed()));
    eventually("the NodeSet to be ready", async || slurm.is_ready("nodeset", WORKER)).await.unwrap();
    // No worker is replaced again and again.
    let uids: Vec<String> = slurm.pods().unwrap().iter().map(|pod| slurm.uid(pod)).collect();
    steadily("nobody to be replaced", A_WHILE, async || {
        let now: Vec<String> = slurm.pods().unwrap().iter().map(|pod| slurm.uid(pod)).collect();
        if now == uids { Ok(()) } else { Err(format!("{uids:?} became {now:?}")) }
    })
    .await
    .unwrap();
}

/// A scale-in keeps the records that others need, and those that are not ours.
async fn scale_in(slurm: &Slurm, observer: &Observer) {
    slurm.on_controller(&["scontrol", "create", "nodename=worker-9", "cpus=1", "state=cloud"]).unwrap();
    reserve(slurm, "later", "worker-2");
    let held = slurm.on_controller(&["sbatch", "--parsable", "--chdir=/tmp", "--hold", "--nodelist=worker-3", "--wrap=true"]).unwrap();
    let held = held.trim();
    slurm.until_saved(held.parse().unwrap()).await.unwrap(); // this also saves the reservation, which was created before
    let since = Instant::now();
    slurm.scale(1).unwrap();
    until_records(slurm, &["worker-0", "worker-2", "worker-3", "worker-9"]).await;
    eprintln!("the record of a worker was gone {} after the scale-in", seconds(since.elapsed()));
    // The record may be back after this: slurmctld saves its state a few seconds late.
    slurm.kill_slurmctld().await.unwrap();
    until_reported(slurm, "record of node `worker-2` stays: reservation `later` names it").await;
    until_reported(slurm, &format!("record of node `worker-3` stays: job {held} requires it")).await;
    until_records(slurm, &["worker-0", "worker-2", "worker-3", "worker-9"]).await;
    eventually("the NodeSet to be ready", async || slurm.is_ready("nodeset", WORKER)).await.unwrap();

    slurm.on_controller(&["scontrol", "delete", "reservationname=later"]).unwrap();
    observer.excuse(held.parse().unwrap());
    slurm.on_controller(&["scancel", held]).unwrap();
    let since = Instant::now();
    until_records(slurm, &["worker-0", "worker-9"]).await;
    eprintln!("what was needed was gone {} after it was not any more", seconds(since.elapsed()));
    eventually("nothing to be said", async || match said(slurm) {
        said if said.is_empty() => Ok(()),
        said => Err(said),
    })
    .await
    .unwrap();
}

/// Workers whose records are deleted with them.
async fn cluster(ground: &Ground) -> (Slurm, Observer) {
    let spec = json!({ "spec": {
        "oversubscribeNode": true, "pruneSlurmNodeRecords": "NodeNotFound", "slurmd": { "resources": { "limits": { "memory": "1Gi" } } },
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": WORKERS } },
    }});
    let slurm = ground.slurm("slurm", Manifest::demo().unwrap().workers(WORKERS).with("NodeSet", &spec)).await.unwrap();
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    (slurm, observer)
}

#[tokio::test]
async fn records_follow_what_their_pods_say() {
    let ground = Ground::up("records", 2).await.unwrap();
    let (slurm, observer) = cluster(&ground).await;
    until_value(&slurm, "worker-0", 1024, usable).await;
    memory_changes(&slurm, &observer).await;
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}

#[tokio::test]
async fn records_go_with_their_workers_and_nobody_loses_what_they_need() {
    let ground = Ground::up("old-records", 2).await.unwrap();
    let (slurm, observer) = cluster(&ground).await;
    scale_in(&slurm, &observer).await;
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}
