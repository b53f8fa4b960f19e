//! Clusters of the same name in two namespaces are independent, and one that hangs does not block the other.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use slipway_api::annotation;
use slipway_sim::{Fault, FaultKind};

use crate::stage::cluster::{Cluster, operator};
use crate::stage::{Stage, eventually};

const NODESET: &str = "worker";
/// More NodeSets than concurrent reconciles: if a reconcile that waits for Slurm kept its slot, no other NodeSet would be reconciled.
const NODESETS: usize = 10;

fn name(index: usize) -> String {
    format!("set{index}")
}

/// Scales out a cluster. Returns the time until its workers are ready.
async fn grows(cluster: &Cluster<'_>, replicas: u32) -> Duration {
    cluster.scale(NODESET, replicas).await;
    cluster.until_settled(NODESET, replicas as usize).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_of_one_name_are_strangers_and_one_that_hangs_holds_up_no_other() {
    let stage = Stage::new("strangers").await;
    let (hanging, other) = (Cluster::start_named(&stage, "a").await, Cluster::start_named(&stage, "b").await);
    let _operator = operator(&stage);
    for cluster in [&hanging, &other] {
        cluster.create_nodeset(NODESET, 4).await;
    }
    for cluster in [&hanging, &other] {
        cluster.until_settled(NODESET, 4).await;
        cluster.until_described().await;
    }

    // Changes in one cluster do not affect the other, although all names are the same.
    let job = other.start_job(NODESET, &["worker-3"], 3600);
    let (writes, uids) = (other.slurm_writes(), other.names(NODESET).await);
    hanging.scale(NODESET, 1).await;
    hanging.until_settled(NODESET, 1).await;
    assert_eq!(other.names(NODESET).await, uids);
    assert_eq!(other.slurm_writes(), writes, "Slurm of the other cluster was told something");
    assert!(other.are_running(&[job]));
    other.end_job(job);

    // Ten NodeSets, each with a drained worker that can be deleted immediately.
    join_all((0..NODESETS).map(|index| async move { name(index) }).map(async |name| {
        let name = name.await;
        hanging.create_nodeset(&name, 2).await;
        hanging.until_settled(&name, 2).await;
        let cordon = json!({ "metadata": { "annotations": { annotation::POD_CORDON: "true" } } });
        assert_eq!(hanging.edit_pod(&format!("{name}-1"), &cordon).await.code, 200);
    }))
    .await;
    eventually("all to be drained", async || {
        let drained = hanging.sim.world(|world| world.nodes.values().filter(|node| node.is_draining && !node.is_down).count());
        if drained == NODESETS { Ok(()) } else { Err(format!("{drained} of {NODESETS}")) }
    })
    .await;
    let undisturbed = grows(&other, 8).await;

    let deleted = hanging.deletions().len();
    hanging.sim.fail(Fault::new(FaultKind::Stall));
    let shrunk = join_all((0..NODESETS).map(async |index| hanging.scale(&name(index), 1).await));
    // The other cluster finishes before the hanging one can do anything: that one is healed only afterwards.
    let (_, took) = tokio::join!(shrunk, grows(&other, 12));
    eprintln!("four more workers in {undisturbed:.1?}, and in {took:.1?} while another cluster hangs");
    assert_eq!(hanging.deletions().len(), deleted, "somebody was deleted of whom nothing was known");

    hanging.sim.heal();
    eventually("the hanging one to catch up", async || match hanging.deletions().len() - deleted {
        NODESETS => Ok(()),
        other => Err(format!("{other} deleted")),
    })
    .await;
    drop((hanging, other));
    stage.end();
}
