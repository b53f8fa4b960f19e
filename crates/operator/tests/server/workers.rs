//! Two hundred workers on a real API server, with simulated Slurm and kubelets for pods that do not run: their cost from creation to scale-in, and
//! that no job is killed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::json;
use slipway_api::annotation;
use slipway_bed::patience::Patience;

use crate::stage::cluster::{Cluster, operator};
use crate::stage::{Stage, eventually};

const NODESET: &str = "worker";
const WORKERS: u32 = 200;

/// Requests per second to an idle Slurm: nodes every 2.5 s, the queue every 20, the configuration every 30, reservations every 60.
const QUIET_CALLS: f64 = 1.0 / 2.5 + 1.0 / 20.0 + 1.0 / 30.0 + 1.0 / 60.0;

/// The same while nodes change and jobs run: the queue is read with the nodes.
const CHANGING_CALLS: f64 = QUIET_CALLS + 1.0 / 2.5;

fn name(ordinal: u32) -> String {
    format!("{NODESET}-{ordinal}")
}

fn count(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap())
}

/// Creates the workers: at most 2.2 writes to the API server and 1.1 requests to Slurm for each, besides those to an idle Slurm.
async fn come(cluster: &Cluster<'_>) {
    let (writes, calls, began) = (cluster.writes().len(), cluster.sim.requests(""), Instant::now());
    cluster.create_nodeset(NODESET, WORKERS).await;
    let took = cluster.until_settled(NODESET, WORKERS as usize).await;
    cluster.until_described().await;
    cluster.until_read(2).await;
    let by_kind = cluster.writes().split_off(writes).into_iter().fold(std::collections::BTreeMap::new(), |mut by_kind, write| {
        *by_kind.entry(format!("{} {}/{}", write.verb, write.resource, write.subresource)).or_insert(0) += 1;
        by_kind
    });
    let writes = count(by_kind.values().sum()) / f64::from(WORKERS);
    let calls = (count(cluster.sim.requests("") - calls) - began.elapsed().as_secs_f64() * QUIET_CALLS) / f64::from(WORKERS);
    eprintln!("{WORKERS} workers came in {took:.1?}: {writes:.2} writes and {calls:.2} Slurm calls for each; {by_kind:?}");
    assert!(writes <= 2.2, "{writes} writes for each worker: {by_kind:?}");
    assert!(calls <= 1.1, "{calls} calls to Slurm for each worker");
}

/// Starts a new process without cached state three times: it reconciles everything and writes nothing.
async fn rest(stage: &Stage, cluster: &Cluster<'_>) {
    let (writes, slurm_writes) = (cluster.writes().len(), cluster.slurm_writes());
    for _ in 0..3 {
        let operator = operator(stage);
        cluster.until_read(2).await;
        drop(operator);
    }
    let written = cluster.writes().split_off(writes);
    assert!(written.is_empty(), "{} writes at rest, such as {:?}", written.len(), &written[..written.len().min(5)]);
    assert_eq!(cluster.slurm_writes(), slurm_writes, "Slurm was told something at rest");
}

/// No node responds for twenty seconds, as when a switch restarts.
async fn blip(cluster: &Cluster<'_>) {
    const LASTS: u64 = 20;
    let writes = cluster.writes().len();
    let over_at = cluster.sim.world(|world| {
        let over_at = world.now + LASTS;
        for node in world.nodes.values_mut() {
            node.silent_until = over_at;
        }
        world.changed.nodes = world.now;
        over_at
    });
    eventually("the end of the blip", async || match cluster.sim.world(|world| world.now) {
        now if now > over_at => Ok(()),
        now => Err(format!("{} s to go", over_at - now)),
    })
    .await;
    cluster.until_read(2).await;
    let written = cluster.writes().split_off(writes);
    eprintln!("all of {WORKERS} nodes silent for {LASTS} s: {} writes", written.len());
    assert!(written.len() <= 50, "{} writes, such as {:?}", written.len(), &written[..5]);
}

/// Gives three workers a high deletion cost, so that they are kept.
async fn make_dear(cluster: &Cluster<'_>) -> BTreeSet<String> {
    let dear: BTreeSet<String> = (0..3).map(name).collect();
    for pod in &dear {
        let cost = json!({ "metadata": { "annotations": { annotation::POD_DELETION_COST: "100" } } });
        assert_eq!(cluster.edit_pod(pod, &cost).await.code, 200);
    }
    dear
}

/// Scales in from 200 to 5 while 10 are busy: idle workers are deleted immediately, with few requests, and busy ones when their jobs have ended. A
/// user's deletion cost outweighs all that.
async fn leave(cluster: &Cluster<'_>) {
    let dear = make_dear(cluster).await;
    // The highest ordinals, which are deleted first if all else is equal. The higher the ordinal, the later the job's time limit.
    let busy: Vec<String> = (190..200).map(name).collect();
    let jobs: Vec<u64> = (1..).zip(&busy).map(|(hours, node)| cluster.start_job(NODESET, &[node], hours * 3600)).collect();
    // The choice depends on the ends of the jobs, which the operator may learn later than that there are some.
    eventually("the ends of all jobs on their pods", async || match cluster.with_deadline(NODESET).await {
        shown if shown == busy.len() => Ok(()),
        shown => Err(format!("{shown} of {} are shown", busy.len())),
    })
    .await;

    let kinds = ["GET nodes", "GET node/", "GET jobs", "GET conf", "GET reservations", "POST"];
    let by_kind = || kinds.map(|kind| cluster.sim.requests(kind));
    let (calls, kinds_before, began) = (cluster.sim.requests(""), by_kind(), Instant::now());
    cluster.scale(NODESET, 5).await;
    let left: BTreeSet<String> = dear.iter().chain(&busy).cloned().collect();
    eventually("the idle ones to go", async || match cluster.pods(NODESET).await.len() {
        0..14 => Ok(()),
        other => Err(format!("{other} pods")),
    })
    .await;
    let (took, calls) = (began.elapsed(), cluster.sim.requests("") - calls);
    let extra = count(calls) - took.as_secs_f64() * CHANGING_CALLS;
    let by_kind: Vec<_> = kinds.iter().zip(by_kind().iter().zip(kinds_before).map(|(now, before)| now - before)).collect();
    eprintln!("the idle ones of {WORKERS} went in {took:.1?} with {calls} Slurm calls, {extra:.1} besides regular ones: {by_kind:?}");
    assert!(extra <= 10.0, "{calls} calls in {took:?}, {extra} besides regular ones: {by_kind:?}");
    assert_eq!(cluster.names(NODESET).await, left);
    assert!(cluster.are_running(&jobs), "a job was lost");

    // All but the last two are deleted when their jobs have ended.
    let (gone, staying) = busy.split_at(8);
    for (node, id) in gone.iter().zip(&jobs) {
        let is_draining = cluster.sim.world(|world| world.nodes[node].is_draining);
        assert!(is_draining, "{node} takes jobs and should leave");
        cluster.end_job(*id);
    }
    eventually("those that are done to go", async || match cluster.pods(NODESET).await.len() {
        5 => Ok(()),
        other => Err(format!("{other} pods")),
    })
    .await;
    assert_eq!(cluster.names(NODESET).await, dear.iter().chain(staying).cloned().collect());
    assert!(cluster.are_running(&jobs[8..]), "a job was lost");
    for node in staying {
        assert!(!cluster.sim.world(|world| world.nodes[node].is_draining), "{node} stays and takes no jobs");
    }
    jobs[8..].iter().for_each(|id| cluster.end_job(*id));
}

/// Kills the operator in the middle of a scale-in; the next one continues. Three workers have a high deletion cost.
async fn is_killed(stage: &Stage, cluster: &Cluster<'_>) {
    let first = operator(stage);
    cluster.create_nodeset(NODESET, 60).await;
    cluster.until_settled(NODESET, 60).await;
    let dear = make_dear(cluster).await;
    let busy: Vec<String> = cluster.names(NODESET).await.difference(&dear).take(6).cloned().collect();
    let jobs: Vec<u64> = busy.iter().map(|node| cluster.start_job(NODESET, &[node], 3600)).collect();
    cluster.until_read(2).await;

    let gone = || cluster.sim.world(|world| world.nodes.values().filter(|node| node.is_down).count());
    let (deleted, before, mut patience) = (cluster.deletions().len(), gone(), Patience::start());
    cluster.scale(NODESET, 4).await;
    // As soon as the first worker is terminated, while the others are being deleted.
    while gone() == before {
        assert!(!patience.is_exhausted(), "nobody leaves");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(first);
    eprintln!("killed after {} of 51 deletions", cluster.deletions().len() - deleted);
    let _second = operator(stage);
    eventually("the idle ones to go", async || match cluster.pods(NODESET).await.len() {
        0..10 => Ok(()),
        other => Err(format!("{other} pods")),
    })
    .await;
    cluster.until_read(2).await;
    assert_eq!(cluster.names(NODESET).await, dear.iter().chain(&busy).cloned().collect());
    assert!(cluster.are_running(&jobs), "a job was lost");
    for id in &jobs {
        cluster.end_job(*id);
    }
    eventually("the rest to go", async || match cluster.pods(NODESET).await.len() {
        4 => Ok(()),
        other => Err(format!("{other} pods")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_workers_come_rest_and_leave_at_a_small_price_and_no_job_is_lost() {
    let stage = Stage::new("workers").await;
    let cluster = Cluster::start(&stage).await;
    let first = operator(&stage);
    come(&cluster).await;
    drop(first);
    rest(&stage, &cluster).await;
    let second = operator(&stage);
    cluster.until_read(2).await;
    blip(&cluster).await;
    leave(&cluster).await;
    drop(second);
    drop(cluster);
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_is_killed_in_the_middle_of_a_scale_in_costs_no_job() {
    let stage = Stage::new("killed").await;
    let cluster = Cluster::start(&stage).await;
    is_killed(&stage, &cluster).await;
    drop(cluster);
    stage.end();
}
