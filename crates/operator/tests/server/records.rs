//! Slurm's records of workers: recreated if they differ from the pods, deleted if no longer needed, and kept while they are in use.

use serde_json::json;
use slipway_api::condition::RECORDS_CURRENT;
use slipway_sim::{
    node::{NodeKind, NodeRecord},
    reservation::ReservationRecord,
};

use crate::stage::cluster::{CONTROLLER, Cluster, operator};
use crate::stage::{Stage, condition, eventually, says};

const NODESET: &str = "worker";

fn memory(cluster: &Cluster<'_>, node: &str) -> Option<u64> {
    cluster.sim.world(|world| world.nodes.get(node).map(|node| node.memory))
}

fn has_record(cluster: &Cluster<'_>, node: &str) -> bool {
    memory(cluster, node).is_some()
}

/// Sets the node configuration that slurmd registers with.
async fn tell_slurmd(cluster: &Cluster<'_>, conf: &str) {
    let path = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/nodesets/{NODESET}", cluster.namespace);
    let answer = cluster.stage.edit(&path, &json!({ "spec": { "extraConf": conf } })).await;
    assert_eq!(answer.code, 200, "{answer:?}");
}

async fn until_reported(cluster: &Cluster<'_>, words: &[&str]) {
    cluster.until_condition(NODESET, RECORDS_CURRENT, |said| says(said, words)).await;
}

async fn until_memory(cluster: &Cluster<'_>, node: &str, expected: u64) {
    eventually(&format!("{node} to have {expected} MiB"), async || {
        let found = memory(cluster, node);
        let why = condition(&cluster.nodeset(NODESET).await, "Ready")["message"].to_string();
        if found == Some(expected) { Ok(()) } else { Err(format!("it has {found:?}; {why}")) }
    })
    .await;
}

fn reserve(cluster: &Cluster<'_>, name: &str, node: &str) {
    cluster.sim.world(|world| {
        let reservation = ReservationRecord {
            name: name.to_owned(),
            nodes: vec![node.to_owned()],
            users: vec!["root".to_owned()],
            start: world.now + 3_000,
            end: world.now + 4_000,
            ..ReservationRecord::default()
        };
        world.reservations.insert(name.to_owned(), reservation);
        world.changed.reservations = world.now;
    });
}

/// Changes the memory: idle workers register again, a busy one when its job has ended.
async fn changed(cluster: &Cluster<'_>) {
    let job = cluster.start_job(NODESET, &["worker-1"], 3600);
    tell_slurmd(cluster, "RealMemory=20000").await;
    until_memory(cluster, "worker-0", 20_000).await;
    assert_eq!(memory(cluster, "worker-1"), Some(10_000), "it has a job");
    assert!(cluster.are_running(&[job]));
    cluster.end_job(job);
    until_memory(cluster, "worker-1", 20_000).await;
    cluster.until_settled(NODESET, 2).await;
}

/// A record differs although the pod has the current template, such as one that a killed slurmctld restored.
async fn came_back(cluster: &Cluster<'_>) {
    cluster.sim.world(|world| {
        if let Some(node) = world.nodes.get_mut("worker-0") {
            node.memory = 10_000;
        }
        world.changed.nodes = world.now;
    });
    until_memory(cluster, "worker-0", 20_000).await;
    cluster.until_settled(NODESET, 2).await;
}

/// Scales in: unneeded records are deleted, needed ones stay and the reason is reported, and foreign ones are not touched.
async fn scaled_in(cluster: &Cluster<'_>) {
    cluster.scale(NODESET, 5).await;
    cluster.until_settled(NODESET, 5).await;
    cluster.sim.world(|world| {
        // One foreign node, and one that has a name like ours but not our feature.
        for name in ["stranger", "worker-9"] {
            let record = NodeRecord { is_down: true, ..NodeRecord::new(name, NodeKind::Dynamic, world.now) };
            world.nodes.insert(name.to_owned(), record);
        }
        world.changed.nodes = world.now;
    });
    reserve(cluster, "later", "worker-3");
    let required = json!({
        "script": "#!/bin/sh\ntrue\n", "partition": NODESET, "required_nodes": ["worker-4"], "hold": true,
    });
    let (job, _) = cluster.sim.world(|world| world.submit(&required)).unwrap();
    cluster.scale(NODESET, 2).await;
    eventually("the record of worker-2 to go", async || if has_record(cluster, "worker-2") { Err("it is there".into()) } else { Ok(()) })
        .await;
    until_reported(cluster, &["record of node `worker-3` stays: reservation `later` names it"]).await;
    until_reported(cluster, &[&format!("record of node `worker-4` stays: job {job} requires it")]).await;
    assert_eq!(condition(&cluster.nodeset(NODESET).await, "Ready")["status"], "True");
    cluster.sim.world(|world| {
        world.reservations.clear();
        world.changed.reservations = world.now;
        world.end_job(job, "CANCELLED");
    });
    eventually("both records to go", async || {
        let left: Vec<&str> = ["worker-3", "worker-4"].into_iter().filter(|node| has_record(cluster, node)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} are there")) }
    })
    .await;
    assert!(has_record(cluster, "stranger") && has_record(cluster, "worker-9"), "they are not ours");
}

/// Waits until there is nothing left to report, and checks that nothing is written.
async fn until_at_rest(cluster: &Cluster<'_>) {
    eventually("nothing to be said", async || {
        let said = condition(&cluster.nodeset(NODESET).await, RECORDS_CURRENT);
        if said.is_null() { Ok(()) } else { Err(said.to_string()) }
    })
    .await;
    // The last change may still be on its way to other conditions.
    cluster.until_read(2).await;
    let before = (cluster.writes().len(), cluster.slurm_writes());
    let again = json!({ "metadata": { "annotations": { "example.org/look": "again" } } });
    let path = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/nodesets/{NODESET}", cluster.namespace);
    assert_eq!(cluster.stage.edit(&path, &again).await.code, 200);
    cluster.until_read(2).await;
    assert_eq!((cluster.writes().len(), cluster.slurm_writes()), before, "{CONTROLLER}: a second look writes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_follow_pods_and_nobody_loses_what_they_need() {
    let stage = Stage::new("records").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 2 } });
    let spec = json!({ "extraConf": "RealMemory=10000", "pruneSlurmNodeRecords": "NodeNotFound", "updateStrategy": strategy });
    cluster.create_nodeset_with(NODESET, 2, &spec).await;
    cluster.until_settled(NODESET, 2).await;
    changed(&cluster).await;
    came_back(&cluster).await;
    scaled_in(&cluster).await;
    until_at_rest(&cluster).await;
    drop(cluster);
    stage.end();
}
