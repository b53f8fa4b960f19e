//! Slurm that cannot be asked, or that answers wrongly, in each way the stand-in knows: nothing is deleted, drained or undrained meanwhile, the NodeSet
//! says so, and afterwards work goes on soon. Every way has a cluster of its own, all at the same time, under one operator.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use slipway_api::{annotation, slurm_node};
use slipway_sim::{Fault, FaultKind};

use crate::stage::cluster::{Cluster, operator, until};
use crate::stage::{Stage, condition};

const PATIENCE: Duration = Duration::from_mins(3);
/// Longer than a reading of Slurm is good for, so that nothing that was known before is left.
const LASTS: Duration = Duration::from_secs(36);
/// So long after the end of the trouble work goes on, at most.
const RESUMES: Duration = Duration::from_secs(10);
/// The same where nobody knew of any trouble: what was read wrongly is read anew after twenty seconds.
const RESUMES_UNAWARES: Duration = Duration::from_secs(25);

/// NodeSets: one that is at rest until the trouble begins, and one that is shrinking.
const RESTING: &str = "rest";
const SHRINKING: &str = "shrink";

/// How a cluster fails, and what that can hide.
struct Way {
    name: &'static str,
    kind: FaultKind,
    /// Nobody could know that what is read is wrong: who says so, and acts on it where no job can be lost, is right.
    is_hidden: bool,
}

const fn way(name: &'static str, kind: FaultKind) -> Way {
    Way { name, kind, is_hidden: false }
}

const fn hidden(name: &'static str, kind: FaultKind) -> Way {
    Way { name, kind, is_hidden: true }
}

const WAYS: [Way; 12] = [
    way("refuse", FaultKind::Refuse),
    way("server-error", FaultKind::ServerError),
    way("controller-gone", FaultKind::ControllerGone),
    way("errors-inside", FaultKind::ErrorsInside),
    way("empty-list", FaultKind::EmptyList),
    way("half-list", FaultKind::HalfList),
    hidden("stale-list", FaultKind::StaleList),
    way("torn-list", FaultKind::TornList),
    way("stall", FaultKind::Stall),
    way("reset", FaultKind::ResetAfterWrite),
    hidden("lying-gate", FaultKind::LyingGate),
    way("refused-tokens", FaultKind::RefuseTokens),
];

/// A cluster in the middle of a scale-in.
struct Scene<'a> {
    way: &'a Way,
    cluster: Cluster<'a>,
    /// The job on the worker that is draining, and those that run on.
    ending: u64,
    staying: Vec<u64>,
}

/// Who keeps each node from taking jobs: draining, down, and why.
type Holds = BTreeMap<String, (bool, bool, String)>;

fn holds(cluster: &Cluster<'_>) -> Holds {
    let of = |node: &slipway_sim::node::NodeRecord| (node.is_draining, node.is_down, node.reason.clone());
    cluster.sim.world(|world| world.nodes.iter().map(|(name, node)| (name.clone(), of(node))).collect())
}

/// What an administrator does with a node.
fn update(cluster: &Cluster<'_>, node: &str, body: &serde_json::Value) {
    cluster.sim.world(|world| world.update_nodes(&[node.to_owned()], body, "root")).unwrap();
}

/// One worker of the resting NodeSet is drained by an administrator and one by its user; of the shrinking one, one drains under a job.
async fn set<'a>(stage: &'a Stage, way: &'a Way) -> Scene<'a> {
    let cluster = Cluster::start(stage, way.name).await;
    cluster.create_nodeset(RESTING, 3).await;
    cluster.create_nodeset(SHRINKING, 6).await;
    cluster.settles(RESTING, 3, PATIENCE).await;
    cluster.settles(SHRINKING, 6, PATIENCE).await;
    update(&cluster, "rest-1", &json!({ "state": ["DRAIN"], "reason": "bad disk" }));
    let cordon = json!({ "metadata": { "annotations": { annotation::POD_CORDON: "true" } } });
    assert_eq!(cluster.edit_pod("rest-2", &cordon).await.code, 200);
    let ending = cluster.start_job(SHRINKING, &["shrink-0"], 3600);
    let staying = vec![cluster.start_job(SHRINKING, &["shrink-1"], 7200), cluster.start_job(SHRINKING, &["shrink-2"], 10800)];
    until(PATIENCE, &format!("{}: busy workers to be known as such", way.name), async || {
        let pods = cluster.pods(SHRINKING).await;
        let busy = pods.iter().flat_map(stage::cluster::slurm_states).filter(|state| ["Allocated", "Mixed"].contains(&state.as_str()));
        match busy.count() {
            3 => Ok(()),
            other => Err(format!("{other} busy")),
        }
    })
    .await;
    cluster.scale(SHRINKING, 2).await;
    until(PATIENCE, &format!("{}: the scale-in to wait for a job", way.name), async || {
        let (left, held) = (cluster.pods(SHRINKING).await.len(), holds(&cluster));
        let is_draining = |node: &str| held[node].0 && slurm_node::is_our_reason(&held[node].2);
        if left == 3 && is_draining("shrink-0") && is_draining("rest-2") { Ok(()) } else { Err(format!("{left} left, {held:?}")) }
    })
    .await;
    Scene { way, cluster, ending, staying }
}

/// Slurm moves on, and nobody can see it: who believed what was read last would end a job, or wait for one that is over.
async fn befall(scene: &mut Scene<'_>) -> (usize, Holds) {
    let Scene { way, cluster, ending, staying } = scene;
    cluster.sim.fail(Fault::new(way.kind));
    cluster.end_job(*ending);
    update(cluster, "rest-2", &json!({ "state": ["UNDRAIN"] }));
    staying.push(cluster.start_job(RESTING, &["rest-2"], 7200));
    let before = (cluster.deletions().len(), holds(cluster));
    // What the user wants from now on: one more drain, and the deletion of a worker that was drained and empty when it was last seen.
    let cheap = json!({ "metadata": { "annotations": { annotation::POD_DELETION_COST: "-1" } } });
    assert_eq!(cluster.edit_pod("rest-2", &cheap).await.code, 200);
    cluster.scale(RESTING, 2).await;
    cluster.scale(SHRINKING, 1).await;
    before
}

/// What went wrong while nothing could be known.
fn faults_of(scene: &Scene<'_>, before: &(usize, Holds)) -> Vec<String> {
    let Scene { way, cluster, staying, .. } = scene;
    let mut found = Vec::new();
    let deleted = cluster.deletions().split_off(before.0);
    // Where single questions are answered truly, it may turn out that the worker whose job is over can go.
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
        // A drain ends no job.
        let is_right = way.is_hidden
            && (deleted.contains(node) || now.as_ref().is_some_and(|(is_draining, is_down, _)| *is_draining && is_down == was_down));
        if !is_the_same && !is_right {
            found.push(format!("{}: {node} was draining {was_draining}, down {was_down}, `{reason}`, and is {now:?}", way.name));
        }
    }
    found
}

/// What does not say that Slurm cannot be asked.
async fn silence_of(scene: &Scene<'_>) -> Option<String> {
    let Scene { way, cluster, .. } = scene;
    let said = condition(&cluster.nodeset(SHRINKING).await, "SlurmReachable");
    (!way.is_hidden && said["status"] != "False").then(|| format!("{}: SlurmReachable says {said}", way.name))
}

/// How long it took until the worker whose job is over was deleted.
async fn heal(scene: &Scene<'_>) -> Duration {
    scene.cluster.sim.heal();
    let words = format!("{}: work to go on", scene.way.name);
    until(PATIENCE, &words, async || {
        let left = scene.cluster.names(SHRINKING).await;
        if left.contains("shrink-0") { Err(format!("{left:?}")) } else { Ok(()) }
    })
    .await
}

/// Nobody that works was touched, and who should leave drains.
async fn converges(scene: &Scene<'_>) {
    let Scene { way, cluster, staying, .. } = scene;
    until(PATIENCE, &format!("{}: what the user wants", way.name), async || {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_known_of_slurm_costs_no_worker_and_no_job_and_work_goes_on_when_it_is() {
    let stage = Stage::new("closed").await;
    let _operator = operator(&stage);
    let mut scenes = join_all(WAYS.iter().map(|way| set(&stage, way))).await;
    let before = join_all(scenes.iter_mut().map(befall)).await;

    let began = Instant::now();
    let mut found = BTreeSet::new();
    while began.elapsed() < LASTS {
        tokio::time::sleep(Duration::from_secs(2)).await;
        found.extend(scenes.iter().zip(&before).flat_map(|(scene, before)| faults_of(scene, before)));
    }
    found.extend(join_all(scenes.iter().map(silence_of)).await.into_iter().flatten());
    assert!(found.is_empty(), "{}", found.into_iter().collect::<Vec<_>>().join("\n"));

    let resumed = join_all(scenes.iter().map(heal)).await;
    let times: Vec<_> = scenes.iter().zip(&resumed).map(|(scene, time)| format!("{} {time:.1?}", scene.way.name)).collect();
    println!("work went on after: {}", times.join(", "));
    // What a busy machine adds is no failure.
    let is_in_time = |way: &Way, took: Duration| took <= 4 * if way.is_hidden { RESUMES_UNAWARES } else { RESUMES };
    assert!(scenes.iter().zip(&resumed).all(|(scene, took)| is_in_time(scene.way, *took)), "{times:?}");
    join_all(scenes.iter().map(converges)).await;
    drop(scenes);
    stage.end();
}
