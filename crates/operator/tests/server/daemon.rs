//! DaemonSet mode on a real API server: one worker on each matching Kubernetes node. Workers follow changes of the nodes, and no job is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_api::name;
use slipway_sim::kubelet::HOST_LABEL;

use crate::stage::cluster::{CONTROLLER, Cluster, is_ready, operator};
use crate::stage::{Stage, condition, eventually, says};

const NODESET: &str = "worker";
const LABEL: &str = "example.org/slurm";
const OVERRIDE: &str = "nodeset.slinky.slurm.net/hostname-override";

/// Workers on the Kubernetes nodes of one test. Nodes of other tests have another value of the label.
struct Scene<'a> {
    stage: &'a Stage,
    cluster: &'a Cluster<'a>,
}

impl<'a> Scene<'a> {
    /// Creates a NodeSet and waits for workers on the first `hosts` nodes of the cluster.
    async fn set(stage: &'a Stage, cluster: &'a Cluster<'a>, hosts: usize) -> Self {
        let scene = Self { stage, cluster };
        for index in 0..hosts {
            scene.label(index);
        }
        let spec = json!({ "scalingMode": "DaemonSet", "template": { "spec": { "nodeSelector": { LABEL: cluster.namespace } } } });
        cluster.create_nodeset_with(NODESET, 7, &spec).await;
        scene.until_on(&(0..hosts).collect::<Vec<_>>()).await;
        scene
    }

    fn host(&self, index: usize) -> &'a str {
        self.cluster.host(index)
    }

    fn label(&self, host: usize) {
        self.stage.kubectl(&["label", "node", self.host(host), "--overwrite", &format!("{LABEL}={}", self.cluster.namespace)]);
    }

    fn unlabel(&self, host: usize) {
        self.stage.kubectl(&["label", "node", self.host(host), &format!("{LABEL}-")]);
    }

    fn annotate(&self, host: usize, annotation: &str) {
        self.stage.kubectl(&["annotate", "node", self.host(host), "--overwrite", annotation]);
    }

    fn taint(&self, host: usize, taint: &str) {
        self.stage.kubectl(&["taint", "node", self.host(host), taint]);
    }

    /// Adds a Kubernetes node that has the label from the start.
    fn join(&self, node: &str) {
        let labels = json!({ LABEL: self.cluster.namespace, HOST_LABEL: self.cluster.namespace });
        let object = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node, "labels": labels } });
        self.stage.bed.kubectl().args(["create", "--filename=-"]).feed(&object.to_string()).unwrap();
        // The API server taints new nodes. The controller that removes the taint does not run here.
        self.stage.kubectl(&["taint", "node", node, "node.kubernetes.io/not-ready:NoSchedule-"]);
    }

    /// Deletes a worker as a user does.
    fn delete_pod(&self, node: &str, more: &[&str]) {
        let pod = name::daemon_pod(NODESET, node);
        self.stage.kubectl(&[&["delete", "pod", &pod, "--namespace", &self.cluster.namespace], more].concat());
    }

    /// Hostnames and pods of ready workers that are not terminating, by Kubernetes node.
    async fn workers(&self) -> BTreeMap<String, (String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let pods = self.cluster.pods(NODESET).await;
        let staying = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null() && is_ready(pod));
        staying.map(|pod| (text(&pod["spec"]["nodeName"]), (text(&pod["spec"]["hostname"]), text(&pod["metadata"]["name"])))).collect()
    }

    /// Waits until exactly these hosts of the cluster have workers. Returns the time that took.
    async fn until_on(&self, hosts: &[usize]) -> Duration {
        self.until_on_nodes(&hosts.iter().map(|index| self.host(*index)).collect::<Vec<_>>()).await
    }

    async fn until_on_nodes(&self, nodes: &[&str]) -> Duration {
        let (began, expected) = (Instant::now(), nodes.iter().copied().collect::<BTreeSet<_>>());
        eventually(&format!("workers on {nodes:?}"), async || {
            let (found, all) = (self.workers().await, self.cluster.pods(NODESET).await.len());
            let is_so = found.keys().map(String::as_str).eq(expected.iter().copied()) && all == nodes.len();
            if is_so { Ok(()) } else { Err(format!("{found:?} of {all}; {}", self.cluster.nodeset(NODESET).await["status"])) }
        })
        .await;
        began.elapsed()
    }

    async fn until_reported(&self, words: &str) {
        self.cluster.until_condition(NODESET, "Ready", |said| says(said, &[words])).await;
    }

    async fn until_desired(&self, number: u64) {
        eventually(&format!("{number} desired workers"), async || {
            let status = self.cluster.nodeset(NODESET).await["status"].clone();
            if status["desired"] == number { Ok(()) } else { Err(status.to_string()) }
        })
        .await;
    }

    fn is_draining(&self, host: usize) -> bool {
        self.cluster.sim.world(|world| world.nodes[self.host(host)].is_draining)
    }

    async fn until_draining(&self, host: usize, expected: bool) {
        eventually(&format!("{} draining: {expected}", self.host(host)), async || {
            if self.is_draining(host) == expected { Ok(()) } else { Err(format!("{}", self.is_draining(host))) }
        })
        .await;
    }

    /// Runs a job on one of the cluster's hosts until it is ended. Returns its ID.
    async fn run_job(&self, host: usize) -> u64 {
        self.cluster.run_job(NODESET, &[self.host(host)], 3600).await
    }

    async fn patch(&self, patch: &Value) {
        assert_eq!(self.stage.edit(&self.cluster.path("nodesets", NODESET), patch).await.code, 200);
    }
}

/// Runs a test with workers on this number of hosts.
async fn on_hosts(name: &str, hosts: usize, happens: impl AsyncFnOnce(&Scene<'_>)) {
    let stage = Stage::new(name).await;
    let cluster = Cluster::start(&stage).await;
    let running = operator(&stage);
    happens(&Scene::set(&stage, &cluster, hosts).await).await;
    drop((running, cluster));
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_with_the_label_has_a_worker_and_scaling_has_no_say() {
    on_hosts("daemon", 2, async |scene| {
        for (node, (hostname, pod)) in scene.workers().await {
            assert_eq!((hostname, pod), (node.clone(), name::daemon_pod(NODESET, &node)));
        }
        scene.until_desired(2).await;

        // One node gets the label, another joins.
        scene.label(2);
        let labelled = scene.until_on(&[0, 1, 2]).await;
        let short = format!("{}-new", scene.cluster.namespace);
        let new = format!("{short}.example.org");
        scene.join(&new);
        let all = [scene.host(0), scene.host(1), scene.host(2), &new];
        let joined = scene.until_on_nodes(&all).await;
        eprintln!("a worker was up {labelled:.1?} after the label, {joined:.1?} after the node");
        assert_eq!(scene.workers().await[&new].0, short);

        scene.cluster.scale(NODESET, 1).await;
        scene.cluster.until_read(2).await;
        scene.until_on_nodes(&all).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_loses_the_label_is_drained_and_its_job_waited_for() {
    on_hosts("daemon-label", 3, async |scene| {
        let cluster = scene.cluster;
        let (job, other) = (scene.run_job(1).await, scene.run_job(2).await);
        let budget = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets/slurm-workers-pdb-x", cluster.namespace);
        eventually("a budget that lets none of two busy ones be evicted", async || {
            let budget = scene.stage.get(&budget).await["spec"].clone();
            if budget["minAvailable"] == 2 { Ok(()) } else { Err(budget.to_string()) }
        })
        .await;
        cluster.end_job(other);
        scene.unlabel(1);
        scene.until_draining(1, true).await;
        scene.until_reported("jobs are running there").await;
        cluster.until_read(2).await;
        assert!(cluster.are_running(&[job]));
        cluster.end_job(job);
        scene.until_on(&[0, 2]).await;
        scene.until_desired(2).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cordoned_node_keeps_its_worker_and_gets_a_new_one_where_that_goes() {
    on_hosts("daemon-rest", 2, async |scene| {
        scene.stage.kubectl(&["cordon", scene.host(0)]);
        scene.until_draining(0, true).await;
        scene.delete_pod(scene.host(0), &[]);
        scene.until_on(&[0, 1]).await;
        scene.until_draining(0, true).await;
        scene.stage.kubectl(&["uncordon", scene.host(0)]);
        scene.until_draining(0, false).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taint_for_new_pods_leaves_a_worker_alone_and_one_for_all_drains_it() {
    on_hosts("daemon-taint", 3, async |scene| {
        let cluster = scene.cluster;
        scene.taint(2, "x=y:NoSchedule");
        scene.until_desired(2).await;
        cluster.until_read(2).await;
        assert!(!scene.is_draining(2));
        let job = scene.run_job(2).await;
        scene.taint(2, "x=y:NoExecute");
        scene.until_draining(2, true).await;
        cluster.until_read(2).await;
        assert!(cluster.are_running(&[job]), "a job was lost");
        scene.taint(2, "x-");
        scene.until_draining(2, false).await;
        assert!(cluster.are_running(&[job]), "a job was lost");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_process_at_rest_writes_nothing() {
    let stage = Stage::new("daemon-quiet").await;
    let cluster = Cluster::start(&stage).await;
    let running = operator(&stage);
    let scene = Scene::set(&stage, &cluster, 3).await;
    let job = scene.run_job(2).await;
    let busy = async |expected: bool| {
        eventually(&format!("a busy worker to be known: {expected}"), async || {
            let is_protected = |pod: &Value| pod["metadata"]["labels"]["nodeset.slinky.slurm.net/pod-protect"] == "true";
            let found = cluster.pods(NODESET).await.iter().any(is_protected);
            if found == expected { Ok(()) } else { Err(format!("{found}")) }
        })
        .await;
    };
    busy(true).await;
    cluster.end_job(job);
    busy(false).await;
    cluster.until_settled(NODESET, 3).await;
    cluster.until_read(2).await;
    drop(running);
    let (writes, slurm_writes) = (cluster.writes().len(), cluster.slurm_writes());
    let running = operator(&stage);
    cluster.until_read(4).await;
    let written = cluster.writes().split_off(writes);
    assert!(written.is_empty(), "{written:?}");
    assert_eq!(cluster.slurm_writes(), slurm_writes);
    drop((running, cluster));
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pod_of_a_node_that_is_gone_is_left_to_kubernetes_and_with_it_gone_slurm_is_told() {
    on_hosts("daemon-gone", 3, async |scene| {
        let (cluster, gone) = (scene.cluster, scene.host(2));
        cluster.kubelet.die_silently(true);
        scene.stage.kubectl(&["delete", "node", gone]);
        scene.until_desired(2).await;
        cluster.until_read(2).await;
        assert_eq!(cluster.pods(NODESET).await.len(), 3, "its pod is Kubernetes' to take away");
        scene.delete_pod(gone, &["--force", "--grace-period=0"]);
        // DOWN, or drained if its pod was seen while terminating.
        eventually("the stale node to take no jobs", async || {
            let takes_none = cluster.sim.world(|world| world.nodes[gone].is_down || world.nodes[gone].is_draining);
            if takes_none { Ok(()) } else { Err("it is up".to_owned()) }
        })
        .await;
        scene.until_on(&[0, 1]).await;
    })
    .await;
}

/// Creates a second pod on a node, as another operator may have left behind.
async fn make_double(scene: &Scene<'_>, mut double: Value) {
    (double["apiVersion"], double["kind"]) = ("v1".into(), "Pod".into());
    double["metadata"]["name"] = "worker-abcde".into();
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        double["metadata"].as_object_mut().unwrap().remove(field);
    }
    double["spec"].as_object_mut().unwrap().remove("nodeName");
    double.as_object_mut().unwrap().remove("status");
    let made = scene.stage.put(&format!("/api/v1/namespaces/{}/pods/worker-abcde", scene.cluster.namespace), &double).await;
    assert_eq!(made.code, 201, "{made:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_pod_on_a_node_goes_when_nothing_runs_there_and_the_first_one_stays() {
    on_hosts("daemon-two", 2, async |scene| {
        let cluster = scene.cluster;
        let on_first = async || cluster.pods(NODESET).await.into_iter().find(|pod| pod["spec"]["nodeName"] == scene.host(0)).unwrap();
        let first = on_first().await;
        let job = scene.run_job(0).await;
        make_double(scene, first.clone()).await;
        scene.until_draining(0, true).await;
        cluster.until_read(2).await;
        assert!(cluster.are_running(&[job]), "a job was lost");
        cluster.end_job(job);
        scene.until_on(&[0, 1]).await;
        assert_eq!(on_first().await["metadata"]["uid"], first["metadata"]["uid"], "the older one stays");
        eventually("it to take jobs again", async || {
            let node = cluster.sim.world(|world| (world.nodes[scene.host(0)].is_down, world.nodes[scene.host(0)].is_draining));
            if node == (false, false) { Ok(()) } else { Err(format!("{node:?}")) }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_may_name_its_worker_but_not_as_another_is_named_and_not_with_what_is_no_name() {
    on_hosts("daemon-name", 3, async |scene| {
        scene.annotate(1, &format!("{OVERRIDE}=rack1"));
        eventually("the new name", async || match scene.workers().await.get(scene.host(1)) {
            Some((hostname, _)) if hostname == "rack1" => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        let (one, three) = (scene.host(1), scene.host(3));
        scene.annotate(3, &format!("{OVERRIDE}=rack1"));
        scene.label(3);
        scene.until_reported(&format!("node `{three}` gets no new worker, as its hostname `rack1` is also that of node `{one}`")).await;
        scene.annotate(3, &format!("{OVERRIDE}=No_Name"));
        scene.until_reported(&format!("node `{three}` gets no new worker: annotation {OVERRIDE} of node `{three}`")).await;
        scene.annotate(3, &format!("{OVERRIDE}-"));
        scene.until_on(&[0, 1, 2, 3]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_controller_nobody_is_condemned_whatever_nodes_say_meanwhile() {
    on_hosts("daemon-ctl", 4, async |scene| {
        let cluster = scene.cluster;
        let deleted = cluster.deletions().len();
        let path = cluster.path("controllers", CONTROLLER);
        let mut controller = scene.stage.get(&path).await;
        scene.stage.delete(&path, "Background").await;
        let missing = scene.stage.here("Controller `slurm/x`");
        scene.until_reported(&missing).await;
        scene.unlabel(3);
        scene.label(4);
        scene.patch(&json!({ "spec": { "template": { "spec": { "priorityClassName": "" } } } })).await;
        eventually("the change to be seen", async || {
            let nodeset = cluster.nodeset(NODESET).await;
            let (seen, wanted) = (condition(&nodeset, "Ready")["observedGeneration"].clone(), nodeset["metadata"]["generation"].clone());
            if seen == wanted { Ok(()) } else { Err(format!("{seen} of {wanted}")) }
        })
        .await;
        scene.until_reported(&missing).await;
        assert_eq!(cluster.deletions().len(), deleted);
        assert_eq!(cluster.pods(NODESET).await.len(), 4);
        assert!(!scene.is_draining(3));
        controller["metadata"] = json!({ "name": CONTROLLER });
        let made = scene.stage.put(&path, &controller).await;
        assert_eq!(made.code, 201, "{made:?}");
        scene.until_on(&[0, 1, 2, 4]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_nodes_to_numbers_and_back_no_job_is_lost() {
    on_hosts("daemon-mode", 4, async |scene| {
        let cluster = scene.cluster;
        let job = scene.run_job(2).await;
        scene.patch(&json!({ "spec": { "scalingMode": "StatefulSet", "replicas": 2 } })).await;
        eventually("two numbered ones beside the busy one", async || {
            let names = cluster.names(NODESET).await;
            let expected = [name::daemon_pod(NODESET, scene.host(2)), "worker-0".to_owned(), "worker-1".to_owned()];
            if names == expected.iter().cloned().collect() { Ok(()) } else { Err(format!("{names:?}")) }
        })
        .await;
        assert!(cluster.are_running(&[job]), "a job was lost");
        scene.until_draining(2, true).await;
        scene.until_desired(2).await;
        cluster.end_job(job);
        eventually("only numbered ones", async || match cluster.pods(NODESET).await.len() {
            2 => Ok(()),
            other => Err(format!("{other} pods")),
        })
        .await;

        let job = cluster.run_job(NODESET, &["worker-1"], 3600).await;
        scene.patch(&json!({ "spec": { "scalingMode": "DaemonSet" } })).await;
        eventually("the idle numbered one to go", async || {
            let names = cluster.names(NODESET).await;
            let is_so = !names.contains("worker-0") && names.contains("worker-1") && names.len() >= 4;
            if is_so { Ok(()) } else { Err(format!("{names:?}; {}", cluster.nodeset(NODESET).await["status"])) }
        })
        .await;
        cluster.until_read(2).await;
        assert!(cluster.are_running(&[job]), "a job was lost");
        cluster.end_job(job);
        scene.until_on(&[0, 1, 2, 3]).await;
    })
    .await;
}
