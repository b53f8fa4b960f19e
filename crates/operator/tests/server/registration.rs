//! Workers that run and are unknown to Slurm, or that fail again and again, on a real API server: all come back, a few at a time, and replacements
//! that do not help are repeated with exponential backoff.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use slipway_bed::patience::Patience;
use slipway_sim::Conduct;

use crate::stage::cluster::{Cluster, operator};
use crate::stage::{Stage, condition, eventually};

const NODESET: &str = "worker";
const WORKERS: u32 = 8;
/// A quarter of the workers.
const AT_A_TIME: usize = 2;
/// Minimum time that a worker has to register: one minute, less the rounding of Kubernetes timestamps to whole seconds.
const GRACE: Duration = Duration::from_secs(58);
/// An additional worker, which misbehaves.
const NINTH: &str = "worker-8";

fn registered(cluster: &Cluster<'_>) -> BTreeSet<String> {
    cluster.sim.world(|world| world.nodes.keys().cloned().collect())
}

async fn ready(cluster: &Cluster<'_>) -> Value {
    condition(&cluster.nodeset(NODESET).await, "Ready")
}

/// Times at which the API server received the operator's deletions of a pod.
fn deletions(cluster: &Cluster<'_>, pod: &str) -> Vec<Timestamp> {
    let object = |event: &Value| (event["objectRef"]["resource"].clone(), event["objectRef"]["name"].clone());
    let is_one = |event: &Value| event["verb"] == "delete" && object(event) == (Value::from("pods"), Value::from(pod));
    let at = |event: Value| event["requestReceivedTimestamp"].as_str().unwrap().parse().unwrap();
    cluster.stage.audit().into_iter().filter(is_one).map(at).collect()
}

/// Waits until a pod has been deleted at least this often.
async fn until_deleted(cluster: &Cluster<'_>, pod: &str, times: usize) {
    eventually(&format!("{times} deletions of {pod}"), async || match deletions(cluster, pod).len() {
        found if found >= times => Ok(()),
        found => Err(format!("{found}; {}", ready(cluster).await)),
    })
    .await;
}

async fn settled(cluster: &Cluster<'_>) {
    cluster.create_nodeset(NODESET, WORKERS).await;
    cluster.until_settled(NODESET, WORKERS as usize).await;
}

/// slurmctld starts with an empty disk: the workers keep running, and it knows none of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_whose_slurmctld_lost_its_state_come_back_in_steps() {
    let stage = Stage::new("lost-state").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    settled(&cluster).await;
    let first = cluster.uids(NODESET).await;
    cluster.sim.world(|world| {
        world.nodes.clear();
        world.changed.nodes = world.now;
    });
    let (began, mut patience) = (Instant::now(), Patience::start());
    let (mut most, mut steps, mut said) = (0, BTreeSet::new(), BTreeSet::new());
    while registered(&cluster).len() < WORKERS as usize {
        assert!(!patience.is_exhausted(), "{:?}, {}", registered(&cluster), ready(&cluster).await);
        // In this order, so that a worker that registers in between is not counted as being replaced.
        let now = cluster.uids(NODESET).await;
        let in_slurm = registered(&cluster);
        let on_their_way: BTreeSet<_> =
            first.iter().filter(|(name, uid)| now.get(*name) != Some(uid) && !in_slurm.contains(*name)).collect();
        most = most.max(on_their_way.len());
        said.insert(ready(&cluster).await["reason"].as_str().unwrap_or_default().to_owned());
        steps.insert(in_slurm.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    eprintln!(
        "{WORKERS} workers were back {:.1?} after their slurmctld lost its state, at most {most} at a time, by {steps:?}",
        began.elapsed()
    );
    assert!((1..=AT_A_TIME).contains(&most), "{most} at a time");
    assert!(steps.len() >= 4, "{steps:?}");
    assert!(said.contains("SlurmNodeNotRegistered"), "{said:?}");
    eventually("the NodeSet to be ready", async || match ready(&cluster).await {
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
    let events = stage.get(&path).await;
    let told = events["items"].as_array().unwrap().iter().any(|event| event["reason"] == "SlurmNodeNotRegistered");
    assert!(told, "{events}");
    drop(cluster);
    stage.end();
}

/// It is replaced once after the grace period of one minute; the next replacement is further away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_slurmctld_refuses_for_ever_is_replaced_rarely() {
    let stage = Stage::new("refused").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    settled(&cluster).await;
    cluster.kubelet.conduct(NINTH, Conduct::Unregistered);
    let began = Instant::now();
    cluster.scale(NODESET, WORKERS + 1).await;
    until_deleted(&cluster, NINTH, 1).await;
    eprintln!("a worker that is never registered was replaced after {:.1?}", began.elapsed());
    assert!(began.elapsed() >= GRACE, "it had no time to register: {:?}", began.elapsed());
    // A few polls of its successor, which Slurm does not know either.
    cluster.until_read(6).await;
    let deleted = cluster.deletions();
    assert!(deleted.iter().all(|pod| pod == NINTH) && (1..=2).contains(&deleted.len()), "{deleted:?}");
    assert_eq!(ready(&cluster).await["reason"], "SlurmNodeNotRegistered");
    assert_eq!(condition(&cluster.nodeset(NODESET).await, "SlurmReachable")["status"], "True");
    drop(cluster);
    stage.end();
}

/// It is recreated after 0, 1, 2, 4, 8 ... seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_ends_as_soon_as_it_starts_is_replaced_ever_more_rarely() {
    /// Minimum sum of the seconds between six deletions.
    const PAUSES: f64 = 1.0 + 2.0 + 4.0 + 8.0 + 16.0;
    let stage = Stage::new("failed").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    settled(&cluster).await;
    cluster.kubelet.conduct(NINTH, Conduct::Fails);
    cluster.scale(NODESET, WORKERS + 1).await;
    until_deleted(&cluster, NINTH, 6).await;
    let times = deletions(&cluster, NINTH);
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs_f64()).collect();
    eprintln!("pauses between replacements of a worker that ends at once: {pauses:.1?} s");
    // A busy machine may delay one of them, so that the next pause looks shorter than it was. The sum is not shorter.
    assert!(pauses[..5].iter().sum::<f64>() >= 0.7 * PAUSES, "{pauses:?}");
    let deleted = cluster.deletions();
    assert!(deleted.iter().all(|pod| pod == NINTH), "{deleted:?}");
    assert_eq!(ready(&cluster).await["reason"], "PodsNotReady");
    drop(cluster);
    stage.end();
}
