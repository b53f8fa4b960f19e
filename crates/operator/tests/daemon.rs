//! One worker on each Kubernetes node that suits, on a real API server: what nodes say and do brings workers and takes them away, and no job pays for it.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod stage;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_api::name;

use crate::stage::Stage;
use crate::stage::cluster::{CONTROLLER, Cluster, is_ready, operator, until};

const NODESET: &str = "worker";
const PATIENCE: Duration = Duration::from_mins(3);
const LABEL: &str = "example.org/slurm";
const OVERRIDE: &str = "nodeset.slinky.slurm.net/hostname-override";

fn mode(more: &Value) -> Value {
    let mut spec = json!({ "scalingMode": "DaemonSet", "template": { "spec": { "nodeSelector": { LABEL: "yes" } } } });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

struct Scene<'a> {
    stage: &'a Stage,
    cluster: &'a Cluster<'a>,
}

impl Scene<'_> {
    fn label(&self, node: &str, value: &str) {
        self.stage.kubectl(&["label", "node", node, "--overwrite", &format!("{LABEL}{value}")]);
    }

    /// A node that joins, with this label from the start.
    fn join(&self, node: &str) {
        let object = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node, "labels": { LABEL: "yes" } } });
        let path = self.stage.bed.layout().root.join(format!("{node}.json"));
        std::fs::write(&path, object.to_string()).unwrap();
        self.stage.kubectl(&["create", "--filename", path.to_str().unwrap()]);
        // What the server gives to new ones, a controller takes away that is not there.
        self.stage.kubectl(&["taint", "node", node, "node.kubernetes.io/not-ready:NoSchedule-"]);
    }

    /// Hostnames and pods of the workers that are not going, by Kubernetes node.
    async fn workers(&self) -> BTreeMap<String, (String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pods = self.cluster.pods(NODESET).await;
        let staying = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null() && is_ready(pod));
        staying.map(|pod| (text(&pod["spec"]["nodeName"]), (text(&pod["spec"]["hostname"]), text(&pod["metadata"]["name"])))).collect()
    }

    /// Waits until these nodes have workers, and no others.
    async fn until_on(&self, nodes: &[&str]) -> Duration {
        until(PATIENCE, &format!("workers on {nodes:?}"), async || {
            let (found, all) = (self.workers().await, self.cluster.pods(NODESET).await.len());
            let is_so = found.keys().map(String::as_str).eq(nodes.iter().copied()) && all == nodes.len();
            if is_so { Ok(()) } else { Err(format!("{found:?} of {all}; {}", self.cluster.nodeset(NODESET).await["status"])) }
        })
        .await
    }

    async fn until_said(&self, words: &str) {
        until(PATIENCE, &format!("the words `{words}`"), async || {
            let said = stage::condition(&self.cluster.nodeset(NODESET).await, "Ready")["message"].as_str().unwrap_or_default().to_owned();
            if said.contains(words) { Ok(()) } else { Err(said) }
        })
        .await;
    }

    async fn until_status(&self, field: &str, number: u64) {
        until(PATIENCE, &format!("{field} {number}"), async || {
            let status = self.cluster.nodeset(NODESET).await["status"].clone();
            if status[field] == number { Ok(()) } else { Err(status.to_string()) }
        })
        .await;
    }

    /// Waits until Slurm has been read twice from now on: what the first reading shows has been looked at before the second.
    async fn a_while(&self) {
        let before = self.cluster.sim.requests("GET nodes");
        until(PATIENCE, "two readings", async || match self.cluster.sim.requests("GET nodes") - before {
            0 | 1 => Err("not yet".to_owned()),
            _ => Ok(()),
        })
        .await;
    }

    fn is_draining(&self, node: &str) -> bool {
        self.cluster.sim.world(|world| world.nodes[node].is_draining)
    }

    async fn until_draining(&self, node: &str, expected: bool) {
        until(PATIENCE, &format!("{node} draining: {expected}"), async || {
            if self.is_draining(node) == expected { Ok(()) } else { Err(format!("{}", self.is_draining(node))) }
        })
        .await;
    }

    async fn patch(&self, patch: &Value) {
        let path = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/nodesets/{NODESET}", self.cluster.namespace);
        assert_eq!(self.stage.edit(&path, patch).await.code, 200);
    }

    async fn delete_controller(&self) -> Value {
        let path = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/controllers/{CONTROLLER}", self.cluster.namespace);
        let before = self.stage.get(&path).await;
        self.stage.delete(&path, "Background").await;
        before
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_follow_what_nodes_say() {
    let stage = Stage::new("daemon").await;
    let cluster = Cluster::start(&stage, "slurm").await;
    let scene = Scene { stage: &stage, cluster: &cluster };
    let running = operator(&stage);
    for node in ["host-0", "host-1"] {
        scene.label(node, "=yes");
    }
    cluster.create_nodeset_with(NODESET, 7, &mode(&json!({}))).await;
    scene.until_on(&["host-0", "host-1"]).await;
    for (node, (hostname, pod)) in scene.workers().await {
        assert_eq!((hostname, pod), (node.clone(), name::daemon_pod(NODESET, &node)));
    }
    scene.until_status("desired", 2).await;

    // One that is labelled, and one that joins.
    scene.label("host-2", "=yes");
    let labelled = scene.until_on(&["host-0", "host-1", "host-2"]).await;
    scene.join("new.example.org");
    let joined = scene.until_on(&["host-0", "host-1", "host-2", "new.example.org"]).await;
    println!("a worker was up {labelled:.1?} after the label, {joined:.1?} after the node");
    assert_eq!(scene.workers().await["new.example.org"].0, "new");

    // Scaling has no say.
    cluster.scale(NODESET, 1).await;
    scene.a_while().await;
    scene.until_on(&["host-0", "host-1", "host-2", "new.example.org"]).await;

    // A node without the label is drained and its job waited for.
    let job = cluster.run_job(NODESET, &["host-1"], 3600).await;
    let other = cluster.run_job(NODESET, &["host-2"], 3600).await;
    until(PATIENCE, "a budget that lets none of two busy ones be evicted", async || {
        let budget = stage.get("/apis/policy/v1/namespaces/slurm/poddisruptionbudgets/slurm-workers-pdb-x").await["spec"].clone();
        if budget["minAvailable"] == 2 { Ok(()) } else { Err(budget.to_string()) }
    })
    .await;
    cluster.end_job(other);
    scene.label("host-1", "-");
    scene.until_draining("host-1", true).await;
    scene.until_said("jobs are running there").await;
    scene.a_while().await;
    assert!(cluster.are_running(&[job]));
    cluster.end_job(job);
    scene.until_on(&["host-0", "host-2", "new.example.org"]).await;
    scene.until_status("desired", 3).await;

    // A cordoned node keeps its worker, which is drained, and gets a new one where that goes.
    stage.kubectl(&["cordon", "host-0"]);
    scene.until_draining("host-0", true).await;
    let pod = name::daemon_pod(NODESET, "host-0");
    stage.kubectl(&["delete", "pod", &pod, "--namespace=slurm"]);
    scene.until_on(&["host-0", "host-2", "new.example.org"]).await;
    scene.until_draining("host-0", true).await;
    stage.kubectl(&["uncordon", "host-0"]);
    scene.until_draining("host-0", false).await;

    // A taint for new pods leaves it alone, one for all drains it.
    stage.kubectl(&["taint", "node", "host-2", "x=y:NoSchedule"]);
    scene.until_status("desired", 2).await;
    scene.a_while().await;
    assert!(!scene.is_draining("host-2"));
    let job = cluster.run_job(NODESET, &["host-2"], 3600).await;
    stage.kubectl(&["taint", "node", "host-2", "x=y:NoExecute"]);
    scene.until_draining("host-2", true).await;
    scene.a_while().await;
    assert!(cluster.are_running(&[job]), "a job was lost");
    stage.kubectl(&["taint", "node", "host-2", "x-"]);
    scene.until_draining("host-2", false).await;
    cluster.end_job(job);
    until(PATIENCE, "the end of the job to be known", async || {
        let is_protected = |pod: &Value| pod["metadata"]["labels"]["nodeset.slinky.slurm.net/pod-protect"] == "true";
        let busy = cluster.pods(NODESET).await.into_iter().find(is_protected);
        busy.map_or(Ok(()), |pod| Err(pod["metadata"]["name"].to_string()))
    })
    .await;

    // A new process at rest writes nothing.
    scene.a_while().await;
    drop(running);
    let (writes, slurm_writes) = (cluster.writes().len(), cluster.slurm_writes());
    let running = operator(&stage);
    scene.a_while().await;
    scene.a_while().await;
    let written = cluster.writes().split_off(writes);
    assert!(written.is_empty(), "{written:?}");
    assert_eq!(cluster.slurm_writes(), slurm_writes);

    // A node that is gone: its pod is left to Kubernetes, and with it gone Slurm is told.
    cluster.kubelet.die_silently(true);
    stage.kubectl(&["delete", "node", "new.example.org"]);
    scene.until_status("desired", 2).await;
    scene.a_while().await;
    assert_eq!(cluster.pods(NODESET).await.len(), 3, "its pod is Kubernetes' to take away");
    stage.kubectl(&["delete", "pod", &name::daemon_pod(NODESET, "new.example.org"), "--namespace=slurm", "--force", "--grace-period=0"]);
    // Down, or drained where it was seen while it went.
    until(PATIENCE, "the ghost to take no jobs", async || {
        let takes_none = cluster.sim.world(|world| world.nodes["new"].is_down || world.nodes["new"].is_draining);
        if takes_none { Ok(()) } else { Err("it is up".to_owned()) }
    })
    .await;
    scene.until_on(&["host-0", "host-2"]).await;
    drop(running);
    drop(cluster);
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doubles_names_and_modes_are_sorted_out_without_losing_a_job() {
    let stage = Stage::new("doubles").await;
    let cluster = Cluster::start(&stage, "slurm").await;
    let scene = Scene { stage: &stage, cluster: &cluster };
    let _operator = operator(&stage);
    for node in ["host-0", "host-1", "host-2"] {
        scene.label(node, "=yes");
    }
    cluster.create_nodeset_with(NODESET, 1, &mode(&json!({}))).await;
    scene.until_on(&["host-0", "host-1", "host-2"]).await;

    // A second pod on a node, as another operator may have left it: it goes when nothing runs there, and the first one stays.
    let mut double = cluster.pods(NODESET).await.into_iter().find(|pod| pod["spec"]["nodeName"] == "host-0").unwrap();
    let first = double["metadata"]["uid"].clone();
    let job = cluster.run_job(NODESET, &["host-0"], 3600).await;
    (double["apiVersion"], double["kind"]) = ("v1".into(), "Pod".into());
    double["metadata"]["name"] = "worker-abcde".into();
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        double["metadata"].as_object_mut().unwrap().remove(field);
    }
    double["spec"].as_object_mut().unwrap().remove("nodeName");
    double.as_object_mut().unwrap().remove("status");
    let made = stage.put("/api/v1/namespaces/slurm/pods/worker-abcde", &double).await;
    assert_eq!(made.code, 201, "{made:?}");
    scene.until_draining("host-0", true).await;
    scene.a_while().await;
    assert!(cluster.are_running(&[job]), "a job was lost");
    cluster.end_job(job);
    scene.until_on(&["host-0", "host-1", "host-2"]).await;
    let left = cluster.pods(NODESET).await.into_iter().find(|pod| pod["spec"]["nodeName"] == "host-0").unwrap();
    assert_eq!(left["metadata"]["uid"], first, "the older one stays");
    until(PATIENCE, "host-0 to take jobs again", async || {
        let node = cluster.sim.world(|world| (world.nodes["host-0"].is_down, world.nodes["host-0"].is_draining));
        if node == (false, false) { Ok(()) } else { Err(format!("{node:?}")) }
    })
    .await;

    // A node may give its worker another name; not one that another has, nor one that is none.
    stage.kubectl(&["annotate", "node", "host-1", &format!("{OVERRIDE}=rack1")]);
    until(PATIENCE, "the new name", async || match scene.workers().await.get("host-1") {
        Some((hostname, _)) if hostname == "rack1" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    stage.kubectl(&["annotate", "node", "host-3", &format!("{OVERRIDE}=rack1")]);
    scene.label("host-3", "=yes");
    scene.until_said("node `host-3` gets no new worker, as its hostname `rack1` is also that of node `host-1`").await;
    stage.kubectl(&["annotate", "node", "host-3", "--overwrite", &format!("{OVERRIDE}=No_Name")]);
    scene.until_said("node `host-3` gets no new worker: annotation nodeset.slinky.slurm.net/hostname-override of node `host-3`").await;
    stage.kubectl(&["annotate", "node", "host-3", &format!("{OVERRIDE}-")]);
    scene.until_on(&["host-0", "host-1", "host-2", "host-3"]).await;

    // Without its Controller nobody is condemned, whatever nodes say meanwhile.
    let deleted = cluster.deletions().len();
    let mut controller = scene.delete_controller().await;
    scene.until_said("Controller `slurm/x`").await;
    scene.label("host-3", "-");
    scene.label("host-4", "=yes");
    scene.patch(&json!({ "spec": { "template": { "spec": { "priorityClassName": "" } } } })).await;
    scene.until_said("Controller `slurm/x`").await;
    assert_eq!(cluster.deletions().len(), deleted);
    assert_eq!(cluster.pods(NODESET).await.len(), 4);
    assert!(!scene.is_draining("host-3"));
    controller["metadata"] = json!({ "name": CONTROLLER });
    let made = stage.put(&format!("/apis/slinky.slurm.net/v1beta1/namespaces/slurm/controllers/{CONTROLLER}"), &controller).await;
    assert_eq!(made.code, 201, "{made:?}");
    scene.until_on(&["host-0", "host-1", "host-2", "host-4"]).await;

    // To numbers and back, under a job each time.
    let job = cluster.run_job(NODESET, &["host-2"], 3600).await;
    scene.patch(&json!({ "spec": { "scalingMode": "StatefulSet", "replicas": 2 } })).await;
    until(PATIENCE, "two numbered ones beside the busy one", async || {
        let names = cluster.names(NODESET).await;
        let expected = [name::daemon_pod(NODESET, "host-2"), "worker-0".to_owned(), "worker-1".to_owned()];
        if names == expected.iter().cloned().collect() { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    assert!(cluster.are_running(&[job]), "a job was lost");
    scene.until_draining("host-2", true).await;
    scene.until_status("desired", 2).await;
    cluster.end_job(job);
    until(PATIENCE, "only numbered ones", async || match cluster.pods(NODESET).await.len() {
        2 => Ok(()),
        other => Err(format!("{other} pods")),
    })
    .await;
    let job = cluster.run_job(NODESET, &["worker-1"], 3600).await;
    scene.patch(&json!({ "spec": { "scalingMode": "DaemonSet" } })).await;
    until(PATIENCE, "the idle numbered one to go", async || {
        let names = cluster.names(NODESET).await;
        let is_so = !names.contains("worker-0") && names.contains("worker-1") && names.len() >= 4;
        if is_so { Ok(()) } else { Err(format!("{names:?}; {}", cluster.nodeset(NODESET).await["status"])) }
    })
    .await;
    scene.a_while().await;
    assert!(cluster.are_running(&[job]), "a job was lost");
    cluster.end_job(job);
    scene.until_on(&["host-0", "host-1", "host-2", "host-4"]).await;
    drop(cluster);
    stage.end();
}
