//! Slurm node states shown on worker pods, and pod data shown on Slurm nodes, on a real API server.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::ApiResource;
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};
use slipway_api::slurm_node::is_our_condition;
use slipway_runtime::apply::{Id, Writer};

use crate::stage::cluster::{CONTROLLER, Cluster, operator, slurm_states};
use crate::stage::{Stage, condition, eventually};

const PROTECT: &str = "nodeset.slinky.slurm.net/pod-protect";
const DEADLINE: &str = "nodeset.slinky.slurm.net/pod-deadline";
const BUDGET: &str = "slurm-workers-pdb-x";

fn pod_path(stage: &Stage, name: &str) -> String {
    format!("/api/v1/namespaces/{}/pods/{name}", stage.namespace)
}

/// Types of the conditions that are True.
fn true_conditions(pod: &Value) -> BTreeSet<String> {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions
        .iter()
        .filter(|condition| condition["status"] == "True")
        .map(|condition| condition["type"].as_str().unwrap().to_owned())
        .collect()
}

fn ours(states: &[(&str, &str)], since: &str) -> Vec<Value> {
    let one = |(type_, message): &(&str, &str)| {
        let mut body = json!({ "type": type_, "status": "True", "lastTransitionTime": since });
        if !message.is_empty() {
            body["message"] = (*message).into();
        }
        body
    };
    states.iter().map(one).collect()
}

async fn edit_conditions(stage: &Stage, name: &str, conditions: &Value) {
    // Merged by type, as the kubelet does.
    let api: Api<Pod> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let body = json!({ "status": { "conditions": conditions } });
    let params = kube::api::PatchParams { field_manager: Some("kubelet".to_owned()), ..kube::api::PatchParams::default() };
    api.patch_status(name, &params, &kube::api::Patch::Strategic(&body)).await.unwrap();
}

#[tokio::test]
async fn only_our_conditions_of_a_pod_are_written() {
    let stage = Stage::new("mirror-pod").await;
    stage.kubectl(&["create", "serviceaccount", "default", "--namespace", &stage.namespace]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "w-0" }, "spec": { "containers": [{ "name": "slurmd", "image": "i" }] },
    });
    assert_eq!(stage.put(&pod_path(&stage, "w-0"), &pod).await.code, 201);
    edit_conditions(&stage, "w-0", &json!([{ "type": "Ready", "status": "True" }, { "type": "example.org/seen", "status": "True" }])).await;
    edit_conditions(&stage, "w-0", &json!([{ "type": "SlurmNodeStateDown", "status": "True", "message": "of another operator" }])).await;
    let uid = stage.get(&pod_path(&stage, "w-0")).await["metadata"]["uid"].as_str().unwrap().to_owned();

    let (kind, writer) = (ApiResource::erase::<Pod>(&()), Writer::new(stage.client.clone(), "slipway"));
    let show = async |name: &str, uid: &str, conditions: Vec<Value>| {
        let object = Id { namespace: &stage.namespace, name, uid };
        writer.show_conditions(&kind, object, &conditions, is_our_condition).await.unwrap()
    };
    let since = "2026-01-02T03:04:05Z";
    let shown = async || {
        let pod = stage.get(&pod_path(&stage, "w-0")).await;
        let version = pod["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        (pod, Some(version))
    };
    let types = |types: &[&str]| types.iter().map(|type_| (*type_).to_owned()).collect::<BTreeSet<String>>();

    // Our conditions left by another operator are removed, conditions of others stay.
    let idle = ours(&[("SlurmNodeStateIdle", "")], since);
    let made = show("w-0", &uid, idle.clone()).await;
    let (pod, version) = shown().await;
    assert_eq!(true_conditions(&pod), types(&["Ready", "example.org/seen", "SlurmNodeStateIdle"]));
    assert_eq!(made, version, "the version tells when a cache has seen it");
    let written = condition(&pod, "SlurmNodeStateIdle");
    assert_eq!((&written["lastTransitionTime"], &written["reason"], &written["message"]), (&json!(since), &Value::Null, &Value::Null));
    assert_eq!(show("w-0", &uid, idle.clone()).await, version, "the same again changes nothing");

    // Meanwhile the kubelet changes another condition.
    edit_conditions(&stage, "w-0", &json!([{ "type": "Ready", "status": "False", "reason": "ContainersNotReady" }])).await;
    show("w-0", &uid, ours(&[("SlurmNodeStateMixed", "bad fan"), ("SlurmNodeStateDrain", "bad fan")], since)).await;
    let (pod, _) = shown().await;
    assert_eq!(true_conditions(&pod), types(&["example.org/seen", "SlurmNodeStateMixed", "SlurmNodeStateDrain"]));
    assert_eq!(condition(&pod, "Ready")["reason"], "ContainersNotReady");
    assert_eq!(condition(&pod, "SlurmNodeStateDrain")["message"], "bad fan");

    // A new pod of the same name, or no pod at all, is no error and is not written.
    let (before, version) = shown().await;
    assert_eq!(show("w-0", "00000000-0000-0000-0000-000000000000", idle.clone()).await, None);
    assert_eq!(show("w-1", &uid, idle).await, None);
    assert_eq!(shown().await, (before, version));

    // Slurm no longer has the node.
    show("w-0", &uid, Vec::new()).await;
    let (pod, _) = shown().await;
    assert_eq!(true_conditions(&pod), types(&["example.org/seen"]));
    let managers = pod["metadata"]["managedFields"].as_array().unwrap();
    let ours =
        managers.iter().find(|entry| entry["manager"] == "slipway" && entry["subresource"] == "status" && entry["operation"] == "Apply");
    assert_eq!(ours, None, "nothing is kept of what is not said any more");
    stage.end();
}

/// State seen in a watch event: a pod's protect label or the number of pods the budget counts. Recorded with its resource version.
#[derive(Clone, Debug)]
enum Seen {
    Pod { name: String, is_protected: bool },
    Budget { counts: i64 },
}

/// Watches a kind and records every state seen.
fn follow<K>(api: Api<K>, notes: &Arc<Mutex<Vec<(u64, Seen)>>>, note: fn(&K, bool) -> Seen) -> tokio::task::JoinHandle<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let notes = notes.clone();
    tokio::spawn(async move {
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            let (object, is_there) = match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => (object, true),
                Ok(watcher::Event::Delete(object)) => (object, false),
                _ => continue,
            };
            let version = object.resource_version().unwrap().parse().unwrap();
            notes.lock().unwrap().push((version, note(&object, is_there)));
        }
    })
}

fn protection(pod: &Pod, is_there: bool) -> Seen {
    Seen::Pod { name: pod.name_any(), is_protected: is_there && pod.labels().get(PROTECT).is_some_and(|protect| protect == "true") }
}

fn counted(budget: &PodDisruptionBudget, is_there: bool) -> Seen {
    let limit = budget.spec.as_ref().filter(|_| is_there).and_then(|spec| spec.min_available.clone());
    let counts = match limit {
        Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(number)) => number.into(),
        _ => 0,
    };
    Seen::Budget { counts }
}

/// Checks that at no resource version more pods were marked than counted. Returns the most that were marked at once.
fn never_too_few(mut notes: Vec<(u64, Seen)>) -> usize {
    notes.sort_by_key(|(version, _)| *version);
    let (mut marked, mut counts, mut most) = (BTreeSet::new(), 0, 0);
    for (version, seen) in notes {
        match seen {
            Seen::Pod { name, is_protected: true } => drop(marked.insert(name)),
            Seen::Pod { name, is_protected: false } => drop(marked.remove(&name)),
            Seen::Budget { counts: now } => counts = now,
        }
        let busy = i64::try_from(marked.len()).unwrap();
        assert!(busy <= counts, "at version {version} the budget counts {counts} and {marked:?} are busy");
        most = most.max(marked.len());
    }
    most
}

async fn budget(cluster: &Cluster<'_>) -> Value {
    cluster.stage.get(&format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets/{BUDGET}", cluster.namespace)).await
}

/// Waits until exactly these workers are marked as busy, and the budget counts them.
async fn until_protected(cluster: &Cluster<'_>, busy: &[&str]) {
    eventually(&format!("{busy:?} to be protected"), async || {
        let mut marked = Vec::new();
        for nodeset in ["one", "two"] {
            let pods = cluster.pods(nodeset).await;
            let busy = pods.into_iter().filter(|pod| pod["metadata"]["labels"][PROTECT] == "true");
            marked.extend(busy.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()));
        }
        let counts = budget(cluster).await["spec"]["minAvailable"].clone();
        if marked == busy && counts == busy.len() { Ok(()) } else { Err(format!("{marked:?}, and the budget counts {counts}")) }
    })
    .await;
}

async fn pod(cluster: &Cluster<'_>, name: &str) -> Value {
    cluster.stage.get(&format!("/api/v1/namespaces/{}/pods/{name}", cluster.namespace)).await
}

#[tokio::test]
async fn two_nodesets_show_what_slurm_says_and_no_busy_worker_can_be_evicted_at_any_moment() {
    let stage = Stage::new("mirror-busy").await;
    let cluster = Cluster::start(&stage).await;
    // Left by another operator. The API server would refuse a budget with both limits.
    let left = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": BUDGET },
        "spec": { "maxUnavailable": 0, "selector": { "matchLabels": { PROTECT: "true", "slinky.slurm.net/cluster": CONTROLLER } } },
    });
    let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets/{BUDGET}", cluster.namespace);
    assert_eq!(stage.put(&path, &left).await.code, 201);
    let notes = Arc::new(Mutex::new(Vec::new()));
    let watches = [
        follow::<Pod>(Api::namespaced(stage.client.clone(), &cluster.namespace), &notes, protection),
        follow::<PodDisruptionBudget>(Api::namespaced(stage.client.clone(), &cluster.namespace), &notes, counted),
    ];
    cluster.create_nodeset("one", 3).await;
    cluster.create_nodeset("two", 3).await;
    let operator = operator(&stage);
    cluster.until_settled("one", 3).await;
    cluster.until_settled("two", 3).await;
    until_protected(&cluster, &[]).await;
    assert_eq!(budget(&cluster).await["spec"]["maxUnavailable"], Value::Null);

    // Each node's comment names its pod; a comment written by a person stays.
    for nodeset in ["one", "two"] {
        let uid = cluster.nodeset(nodeset).await["metadata"]["uid"].clone();
        for pod in cluster.pods(nodeset).await {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let info = format!(
                r#"{{"namespace":"{}","podName":"{name}","node":{},"nodeSetName":"{nodeset}","nodeSetUID":{uid}}}"#,
                cluster.namespace, pod["spec"]["nodeName"]
            );
            eventually("the comment", async || {
                let comment = cluster.sim.world(|world| world.nodes[name].comment.clone());
                if comment == info { Ok(()) } else { Err(comment) }
            })
            .await;
            assert_eq!(slurm_states(&pod), ["Idle"]);
        }
    }
    cluster.sim.world(|world| {
        world.nodes.get_mut("one-2").unwrap().comment = "ask Lena".to_owned();
        world.changed.nodes = world.now;
    });

    // A job with a time limit, and one without.
    let limited = cluster.run_job("one", &["one-0"], 3600).await;
    let limitless = json!({ "script": "#!/bin/sh\nsleep 9999\n", "partition": "two", "required_nodes": ["two-1"],
        "time_limit": { "set": false, "infinite": true, "number": 0 } });
    let (limitless, _) = cluster.sim.world(|world| world.submit(&limitless)).unwrap();
    until_protected(&cluster, &["one-0", "two-1"]).await;
    let (started, minutes) = cluster.sim.world(|world| (world.jobs[&limited].started_at, world.jobs[&limited].limit.unwrap()));
    let end = jiff::Timestamp::from_second(i64::try_from(started + minutes * 60).unwrap()).unwrap();
    eventually("the deadlines", async || {
        let mut deadlines = Vec::new();
        for name in ["one-0", "two-1", "one-1"] {
            deadlines.push(pod(&cluster, name).await["metadata"]["annotations"][DEADLINE].clone());
        }
        let expected = [json!(end.to_string()), json!("9999-12-31T23:59:59Z"), Value::Null];
        if deadlines == expected { Ok(()) } else { Err(format!("{deadlines:?} instead of {expected:?}")) }
    })
    .await;
    eventually("the numbers", async || {
        let status = cluster.nodeset("one").await["status"].clone();
        let numbers = ["slurmIdle", "slurmAllocated", "slurmDown", "slurmDrain", "availableReplicas"].map(|field| status[field].clone());
        if numbers == [2, 1, 0, 0, 3].map(Value::from) { Ok(()) } else { Err(format!("{numbers:?}")) }
    })
    .await;

    // Jobs start and end in both NodeSets.
    let more = [cluster.run_job("one", &["one-1"], 3600).await, cluster.run_job("two", &["two-0"], 3600).await];
    until_protected(&cluster, &["one-0", "one-1", "two-0", "two-1"]).await;
    cluster.end_job(limited);
    let last = cluster.run_job("two", &["two-2"], 3600).await;
    until_protected(&cluster, &["one-1", "two-0", "two-1", "two-2"]).await;
    for id in [limitless, last].into_iter().chain(more) {
        cluster.end_job(id);
    }
    until_protected(&cluster, &[]).await;
    assert_eq!(pod(&cluster, "two-1").await["metadata"]["annotations"][DEADLINE], Value::Null);
    assert_eq!(cluster.sim.world(|world| world.nodes["one-2"].comment.clone()), "ask Lena");

    // While Slurm is unreachable, the status has no numbers and pods keep their conditions.
    let kept = cluster.run_job("one", &["one-0"], 3600).await;
    until_protected(&cluster, &["one-0"]).await;
    let shown = slurm_states(&pod(&cluster, "one-0").await);
    cluster.sim.fail(slipway_sim::Fault::new(slipway_sim::FaultKind::Refuse));
    eventually("the numbers to go", async || {
        let status = cluster.nodeset("one").await["status"].clone();
        if status["slurmIdle"].is_null() { Ok(()) } else { Err(status["slurmIdle"].to_string()) }
    })
    .await;
    until_protected(&cluster, &["one-0"]).await;
    assert_eq!(slurm_states(&pod(&cluster, "one-0").await), shown);
    cluster.end_job(kept);

    drop(operator);
    watches.iter().for_each(tokio::task::JoinHandle::abort);
    let most = never_too_few(notes.lock().unwrap().clone());
    assert!(most >= 4, "{most} were marked at once");
    drop(cluster);
    stage.end();
}
