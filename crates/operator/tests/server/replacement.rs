//! Workers that fail or vanish: they are replaced, with exponential backoff if that does not help, and Slurm sends no jobs to missing ones.

use std::time::Instant;

use jiff::Timestamp;
use slipway_api::slurm_node;
use slipway_sim::Conduct;

use crate::stage::cluster::{Cluster, operator};
use crate::stage::{Stage, condition, eventually};

const NODESET: &str = "worker";

/// Times at which pods of this name were created.
fn creations(cluster: &Cluster<'_>, pod: &str) -> Vec<Timestamp> {
    let is_one = |event: &serde_json::Value| event["verb"] == "create" && event["objectRef"]["name"] == pod;
    let at = |event: serde_json::Value| event["requestReceivedTimestamp"].as_str().unwrap().parse().unwrap();
    cluster.stage.audit().into_iter().filter(is_one).map(at).collect()
}

/// A worker that fails each time it starts.
async fn fails(cluster: &Cluster<'_>) {
    cluster.kubelet.conduct("worker-1", Conduct::Fails);
    cluster.kubelet.fail("worker-1").await.unwrap();
    let before = creations(cluster, "worker-1").len();
    eventually("four replacements", async || match creations(cluster, "worker-1").len() - before {
        0..4 => Err(condition(&cluster.nodeset(NODESET).await, "Ready")["message"].to_string()),
        _ => Ok(()),
    })
    .await;
    let times = creations(cluster, "worker-1").split_off(before);
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs_f64()).collect();
    eprintln!("pauses between replacements of a pod that fails: {pauses:.1?} s");
    // At least one, two and four seconds from deletion to deletion; a creation follows its deletion as soon as the API server permits it. A busy
    // machine may delay one of them, so that the next pause looks shorter than it was. The sum is not shorter.
    assert!(pauses[..3].iter().sum::<f64>() >= 7.0 * 0.7, "{pauses:?}");
    eventually("the wait to be explained", async || {
        let said = condition(&cluster.nodeset(NODESET).await, "Ready")["message"].to_string();
        if said.contains("pod `worker-1` ended like others before it") { Ok(()) } else { Err(said) }
    })
    .await;
    // A fix is noticed.
    cluster.kubelet.conduct("worker-1", Conduct::Well);
    cluster.until_settled(NODESET, 3).await;
}

/// A worker that vanishes without notice, with a running job.
async fn vanishes(cluster: &Cluster<'_>) {
    let job = cluster.start_job(NODESET, &["worker-2"], 3600);
    // Its successor is not scheduled until the end of this one has been seen.
    cluster.kubelet.conduct("worker-2", Conduct::Unassigned);
    // Without the preStop hook, which would set its node DOWN.
    cluster.kubelet.die_silently(true);
    let began = Instant::now();
    cluster.stage.kubectl(&["delete", "pod", "worker-2", "--force", "--grace-period=0", "--namespace", &cluster.namespace]);
    // Its slurmd may still run: it is drained, and its job runs on.
    eventually("its node to be drained", async || {
        let node = cluster.sim.world(|world| world.nodes["worker-2"].clone());
        if node.is_draining && slurm_node::is_our_reason(&node.reason) { Ok(()) } else { Err(format!("{node:?}")) }
    })
    .await;
    cluster.until_read(2).await;
    assert!(cluster.are_running(&[job]) && !cluster.sim.world(|world| world.nodes["worker-2"].is_down), "Slurm still hears from it");
    cluster.sim.world(|world| {
        world.nodes.get_mut("worker-2").unwrap().silent_until = u64::MAX;
        world.changed.nodes = world.now;
    });
    eventually("its node to be set DOWN", async || {
        let node = cluster.sim.world(|world| world.nodes["worker-2"].clone());
        if node.is_down && slurm_node::is_our_reason(&node.reason) { Ok(()) } else { Err(format!("{node:?}")) }
    })
    .await;
    eprintln!("a worker that vanished was down in Slurm after {:.1?}", began.elapsed());
    assert!(!cluster.are_running(&[job]), "the job waits for nobody");
    cluster.kubelet.die_silently(false);
    cluster.kubelet.conduct("worker-2", Conduct::Well);
    cluster.until_settled(NODESET, 3).await;
    eventually("its replacement to take jobs", async || {
        let node = cluster.sim.world(|world| world.nodes["worker-2"].clone());
        if node.takes_jobs(cluster.sim.world(|world| world.now)) { Ok(()) } else { Err(format!("{node:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_end_or_vanish_are_replaced_and_slurm_is_told() {
    let stage = Stage::new("replacement").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    cluster.create_nodeset(NODESET, 3).await;
    cluster.until_settled(NODESET, 3).await;
    vanishes(&cluster).await;
    fails(&cluster).await;
    drop(cluster);
    stage.end();
}
