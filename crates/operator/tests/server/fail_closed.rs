//! Slurm is unreachable or responds wrongly, in each way the simulator offers: nothing is deleted, drained or undrained meanwhile, the NodeSet
//! reports it, and work resumes afterwards. Every fault has a cluster of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use slipway_api::{annotation, slurm_node};
use slipway_sim::{Fault, FaultKind};

use crate::stage::cluster::{Cluster, operator};
use crate::stage::{Stage, condition, eventually};

/// Polls of a healthy Slurm, one every 2.5 s. Together they exceed the 30 s for which a snapshot is valid, so that no earlier snapshot is still
/// used.
const READINGS: u64 = 15;

/// NodeSets: one at rest until the fault begins, and one that is being scaled in.
const RESTING: &str = "rest";
const SHRINKING: &str = "shrink";

/// A fault of a cluster.
struct Way {
    name: &'static str,
    kind: FaultKind,
    /// True if the fault cannot be detected. Then SlurmReachable need not be False, and actions that kill no job are allowed.
    is_hidden: bool,
}

const fn way(name: &'static str, kind: FaultKind) -> Way {
    Way { name, kind, is_hidden: false }
}

const fn hidden(name: &'static str, kind: FaultKind) -> Way {
    Way { name, kind, is_hidden: true }
}

/// A cluster in the middle of a scale-in.
struct Scene<'a> {
    way: &'a Way,
    cluster: Cluster<'a>,
    /// The job on the draining worker, and the jobs that keep running.
    ending: u64,
    staying: Vec<u64>,
}

/// Drain state, DOWN state and reason of each node.
type Holds = BTreeMap<String, (bool, bool, String)>;

fn holds(cluster: &Cluster<'_>) -> Holds {
    let of = |node: &slipway_sim::node::NodeRecord| (node.is_draining, node.is_down, node.reason.clone());
    cluster.sim.world(|world| world.nodes.iter().map(|(name, node)| (name.clone(), of(node))).collect())
}

/// Updates a node as an administrator does.
fn update(cluster: &Cluster<'_>, node: &str, body: &serde_json::Value) {
    cluster.sim.world(|world| world.update_nodes(&[node.to_owned()], body, "root")).unwrap();
}

/// Drains one worker of the resting NodeSet as an administrator and one as its user; one worker of the shrinking NodeSet drains under a job.
async fn set<'a>(cluster: Cluster<'a>, way: &'a Way) -> Scene<'a> {
    cluster.create_nodeset(RESTING, 3).await;
    cluster.create_nodeset(SHRINKING, 6).await;
    cluster.until_settled(RESTING, 3).await;
    cluster.until_settled(SHRINKING, 6).await;
    update(&cluster, "rest-1", &json!({ "state": ["DRAIN"], "reason": "bad disk" }));
    let cordon = json!({ "metadata": { "annotations": { annotation::POD_CORDON: "true" } } });
    assert_eq!(cluster.edit_pod("rest-2", &cordon).await.code, 200);
    let ending = cluster.start_job(SHRINKING, &["shrink-0"], 3600);
    let staying = vec![cluster.start_job(SHRINKING, &["shrink-1"], 7200), cluster.start_job(SHRINKING, &["shrink-2"], 10800)];
    eventually(&format!("{}: busy workers to be known as such", way.name), async || {
        let pods = cluster.pods(SHRINKING).await;
        let busy =
            pods.iter().flat_map(crate::stage::cluster::slurm_states).filter(|state| ["Allocated", "Mixed"].contains(&state.as_str()));
        match busy.count() {
            3 => Ok(()),
            other => Err(format!("{other} busy")),
        }
    })
    .await;
    cluster.scale(SHRINKING, 2).await;
    eventually(&format!("{}: the scale-in to wait for a job", way.name), async || {
        let (left, held) = (cluster.pods(SHRINKING).await.len(), holds(&cluster));
        let is_draining = |node: &str| held[node].0 && slurm_node::is_our_reason(&held[node].2);
        if left == 3 && is_draining("shrink-0") && is_draining("rest-2") { Ok(()) } else { Err(format!("{left} left, {held:?}")) }
    })
    .await;
    Scene { way, cluster, ending, staying }
}

/// Starts the fault and changes Slurm's state behind it. Acting on the last snapshot would kill a job, or wait for one that has ended.
async fn befall(scene: &mut Scene<'_>) -> (usize, Holds) {
    let Scene { way, cluster, ending, staying } = scene;
    cluster.sim.fail(Fault::new(way.kind));
    cluster.end_job(*ending);
    update(cluster, "rest-2", &json!({ "state": ["UNDRAIN"] }));
    staying.push(cluster.start_job(RESTING, &["rest-2"], 7200));
    let before = (cluster.deletions().len(), holds(cluster));
    // The user's new requests: one more drain, and the deletion of a worker that was drained and idle in the last snapshot.
    let cheap = json!({ "metadata": { "annotations": { annotation::POD_DELETION_COST: "-1" } } });
    assert_eq!(cluster.edit_pod("rest-2", &cheap).await.code, 200);
    cluster.scale(RESTING, 2).await;
    cluster.scale(SHRINKING, 1).await;
    before
}

/// Forbidden actions and lost jobs since `before`.
fn faults_of(scene: &Scene<'_>, before: &(usize, Holds)) -> Vec<String> {
    let Scene { way, cluster, staying, .. } = scene;
    let mut found = Vec::new();
    let deleted = cluster.deletions().split_off(before.0);
    // If requests for single nodes are answered correctly, the worker whose job has ended may be deleted.
    let are_right = way.is_hidden && deleted.iter().all(|pod| pod == "shrink-0");
    if !deleted.is_empty() && !are_right {
        found.push(format!("{}: deleted {deleted:?}", way.name));
    }
    if !cluster.are_running(staying) {
        found.push(format!("{}: lost a job", way.name));
    }
    for (node, (was_draining, was_down, reason)) in &before.1 {
        let now = holds(cluster).remove(node);
        let is_the_same = now.as_ref() == Some(&(*was_draining, *was_down, reason.clone()));
        // A drain kills no job. The worker whose job has ended goes DOWN when it is deleted; the audit log may show that slightly later.
        let may_be_down = |is_down: &bool| is_down == was_down || node == "shrink-0";
        let is_right = way.is_hidden
            && (deleted.contains(node) || now.as_ref().is_some_and(|(is_draining, is_down, _)| *is_draining && may_be_down(is_down)));
        if !is_the_same && !is_right {
            found.push(format!("{}: {node} was draining {was_draining}, down {was_down}, `{reason}`, and is {now:?}", way.name));
        }
    }
    found
}

/// Message if SlurmReachable should be False and is not.
async fn silence_of(scene: &Scene<'_>) -> Option<String> {
    let Scene { way, cluster, .. } = scene;
    let said = condition(&cluster.nodeset(SHRINKING).await, "SlurmReachable");
    (!way.is_hidden && said["status"] != "False").then(|| format!("{}: SlurmReachable says {said}", way.name))
}

/// Ends the fault. Returns the time until the worker whose job has ended is deleted.
async fn heal(scene: &Scene<'_>) -> Duration {
    scene.cluster.sim.heal();
    let healed = Instant::now();
    eventually(&format!("{}: work to go on", scene.way.name), async || {
        let left = scene.cluster.names(SHRINKING).await;
        if left.contains("shrink-0") { Err(format!("{left:?}")) } else { Ok(()) }
    })
    .await;
    healed.elapsed()
}

/// Waits until the workers to be deleted are draining, and checks that no other worker was touched.
async fn converges(scene: &Scene<'_>) {
    let Scene { way, cluster, staying, .. } = scene;
    eventually(&format!("{}: what the user wants", way.name), async || {
        let held = holds(cluster);
        let (resting, shrinking) = (cluster.names(RESTING).await, cluster.names(SHRINKING).await);
        let are_there = resting.len() == 3 && shrinking.len() == 2;
        let is_draining = |node: &str| held[node].0 && slurm_node::is_our_reason(&held[node].2);
        let is_done = is_draining("rest-2") && is_draining("shrink-1") && !held["shrink-2"].0 && !held["rest-0"].0;
        if are_there && is_done { Ok(()) } else { Err(format!("{resting:?} {shrinking:?} {held:?}")) }
    })
    .await;
    assert!(cluster.are_running(staying), "{}: a job was lost", way.name);
    assert_eq!(holds(cluster)["rest-1"], (true, false, "bad disk".to_owned()), "{}", way.name);
}

/// Runs all faults under one operator: nothing is lost during them, and work resumes afterwards.
async fn costs_nothing(name: &str, ways: &[Way]) {
    let stage = Stage::new(name).await;
    // The number of requests to its simulator shows how much time has passed for the operator.
    let quiet = Cluster::start_named(&stage, "quiet").await;
    let clusters = join_all(ways.iter().map(|way| Cluster::start_named(&stage, way.name))).await;
    let _operator = operator(&stage);
    let mut scenes = join_all(clusters.into_iter().zip(ways).map(|(cluster, way)| set(cluster, way))).await;
    let before = join_all(scenes.iter_mut().map(befall)).await;

    let found = Mutex::new(BTreeSet::new());
    let asked = quiet.sim.requests("GET nodes");
    eventually("nothing to be left of what was known, and that to be said", async || {
        found.lock().unwrap().extend(scenes.iter().zip(&before).flat_map(|(scene, before)| faults_of(scene, before)));
        let read = quiet.sim.requests("GET nodes") - asked;
        if read < READINGS {
            return Err(format!("{read} readings"));
        }
        let silent: Vec<_> = join_all(scenes.iter().map(silence_of)).await.into_iter().flatten().collect();
        if silent.is_empty() { Ok(()) } else { Err(silent.join("\n")) }
    })
    .await;
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{}", found.into_iter().collect::<Vec<_>>().join("\n"));

    let resumed = join_all(scenes.iter().map(heal)).await;
    let times: Vec<_> = scenes.iter().zip(&resumed).map(|(scene, time)| format!("{} {time:.1?}", scene.way.name)).collect();
    eprintln!("work went on after: {}", times.join(", "));
    join_all(scenes.iter().map(converges)).await;
    drop((scenes, quiet));
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slurm_that_does_not_answer_costs_no_worker_and_no_job() {
    let ways = [
        way("refuse", FaultKind::Refuse),
        way("controller-gone", FaultKind::ControllerGone),
        way("stall", FaultKind::Stall),
        way("reset", FaultKind::ResetAfterWrite),
    ];
    costs_nothing("closed-mute", &ways).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slurm_that_answers_with_errors_costs_no_worker_and_no_job() {
    let ways = [
        way("server-error", FaultKind::ServerError),
        way("errors-inside", FaultKind::ErrorsInside),
        way("refused-tokens", FaultKind::RefuseTokens),
    ];
    costs_nothing("closed-error", &ways).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_not_whole_costs_no_worker_and_no_job() {
    let ways = [way("empty-list", FaultKind::EmptyList), way("half-list", FaultKind::HalfList), way("torn-list", FaultKind::TornList)];
    costs_nothing("closed-list", &ways).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_is_of_yesterday_costs_no_worker_and_no_job() {
    costs_nothing("closed-stale", &[hidden("stale-list", FaultKind::StaleList), hidden("lying-gate", FaultKind::LyingGate)]).await;
}
