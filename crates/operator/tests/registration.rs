//! Workers that are up and that Slurm does not know, or that end again and again, on a real API server: all come back, in steps, and what does not
//! help is tried ever more rarely. Each of three clusters has another trouble, all at the same time, under one operator.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;
use slipway_sim::Conduct;

use crate::stage::cluster::{Cluster, operator, until};
use crate::stage::{Stage, condition};

const NODESET: &str = "worker";
const WORKERS: u32 = 8;
/// A quarter of them.
const AT_A_TIME: usize = 2;
const PATIENCE: Duration = Duration::from_mins(3);
/// A minute of grace, and four steps of a few seconds each.
const LASTS: Duration = Duration::from_secs(150);
/// So long it is watched that no more is done than should be: a little longer than the grace of one that Slurm does not know.
const WATCHED: Duration = Duration::from_secs(75);

/// UIDs of the pods that are not being deleted, by the names of their nodes.
async fn uids(cluster: &Cluster<'_>) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = cluster.pods(NODESET).await;
    let staying = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    staying.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]))).collect()
}

fn registered(cluster: &Cluster<'_>) -> BTreeSet<String> {
    cluster.sim.world(|world| world.nodes.keys().cloned().collect())
}

async fn ready(cluster: &Cluster<'_>) -> Value {
    condition(&cluster.nodeset(NODESET).await, "Ready")
}

/// slurmctld starts with an empty disk: the workers run on, and it knows none of them.
async fn lose_state(cluster: &Cluster<'_>) {
    let first = uids(cluster).await;
    cluster.sim.world(|world| {
        world.nodes.clear();
        world.changed.nodes = world.now;
    });
    let (began, mut most, mut steps, mut said) = (Instant::now(), 0, BTreeSet::new(), BTreeSet::new());
    while registered(cluster).len() < WORKERS as usize {
        assert!(began.elapsed() < LASTS, "{:?}, {}", registered(cluster), ready(cluster).await);
        // In this order: one that registers in between is not taken for one on its way.
        let now = uids(cluster).await;
        let in_slurm = registered(cluster);
        let on_their_way: BTreeSet<_> =
            first.iter().filter(|(name, uid)| now.get(*name) != Some(uid) && !in_slurm.contains(*name)).collect();
        most = most.max(on_their_way.len());
        said.insert(ready(cluster).await["reason"].as_str().unwrap_or_default().to_owned());
        steps.insert(in_slurm.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!(
        "{WORKERS} workers were back {:.1?} after their slurmctld lost its state, at most {most} at a time, by {steps:?}",
        began.elapsed()
    );
    assert!((1..=AT_A_TIME).contains(&most), "{most} at a time");
    assert!(steps.len() >= 4, "{steps:?}");
    assert!(said.contains("SlurmNodeNotRegistered"), "{said:?}");
    until(PATIENCE, "the NodeSet to be ready", async || match ready(cluster).await {
        ready if ready["status"] == "True" => Ok(()),
        other => Err(other.to_string()),
    })
    .await;
    let deleted = cluster.deletions();
    assert_eq!(
        (deleted.len(), deleted.iter().collect::<BTreeSet<_>>().len()),
        (WORKERS as usize, WORKERS as usize),
        "each once: {deleted:?}"
    );
    let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events?limit=1000", cluster.namespace);
    let events = cluster.stage.get(&path).await;
    let told = events["items"].as_array().unwrap().iter().any(|event| event["reason"] == "SlurmNodeNotRegistered");
    assert!(told, "{events}");
}

/// slurmctld refuses one worker for ever: it costs one replacement after the grace, and the next is further away.
async fn refuse_one(cluster: &Cluster<'_>) {
    cluster.kubelet.conduct("worker-8", Conduct::Unregistered);
    cluster.scale(NODESET, WORKERS + 1).await;
    tokio::time::sleep(WATCHED).await;
    let deleted = cluster.deletions();
    println!("a worker that is never registered was replaced {} times in {WATCHED:?}", deleted.len());
    assert!(deleted.iter().all(|pod| pod == "worker-8") && (1..=2).contains(&deleted.len()), "{deleted:?}");
    assert_eq!(ready(cluster).await["reason"], "SlurmNodeNotRegistered");
    assert_eq!(condition(&cluster.nodeset(NODESET).await, "SlurmReachable")["status"], "True");
}

/// One worker ends as soon as it starts: after 0, 1, 2, 4, 8 ... seconds it is made anew.
async fn fail_one(cluster: &Cluster<'_>) {
    cluster.kubelet.conduct("worker-8", Conduct::Fails);
    cluster.scale(NODESET, WORKERS + 1).await;
    tokio::time::sleep(WATCHED).await;
    let deleted = cluster.deletions();
    println!("a worker that ends at once was replaced {} times in {WATCHED:?}", deleted.len());
    assert!(deleted.iter().all(|pod| pod == "worker-8") && (4..=8).contains(&deleted.len()), "{deleted:?}");
    assert_eq!(ready(cluster).await["reason"], "PodsNotReady");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_come_back_in_steps_and_what_does_not_help_is_done_ever_more_rarely() {
    let stage = Stage::new("registration").await;
    let _operator = operator(&stage);
    let mut clusters = Vec::new();
    for namespace in ["lost", "refused", "failed"] {
        let cluster = Cluster::start(&stage, namespace).await;
        cluster.create_nodeset(NODESET, WORKERS).await;
        clusters.push(cluster);
    }
    for cluster in &clusters {
        cluster.settles(NODESET, WORKERS as usize, PATIENCE).await;
    }
    let [lost, refused, failed] = clusters.as_slice() else { unreachable!() };
    tokio::join!(lose_state(lost), refuse_one(refused), fail_one(failed));
    drop(clusters);
    stage.end();
}
