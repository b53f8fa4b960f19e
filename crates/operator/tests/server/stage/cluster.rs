//! A Slurm cluster with a simulated slurmrestd and worker pods that do not run, in a namespace of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_api::annotation;
use slipway_runtime::clock::{Clock, SystemClock};
use slipway_sim::partition::PartitionRecord;
use slipway_sim::{Kubelet, Release, Served, Sim};
use slipway_slurm::rest::clock::Clock as SlurmClock;

use super::{Answer, Operator, Stage, eventually, until_condition};

/// Name of the Controller of every cluster: clusters differ by namespace.
pub const CONTROLLER: &str = "x";
const KEY: &str = "a key of thirty-two bytes or more";
const HOSTS: usize = 8;

/// A cluster with its simulators of Slurm and of the kubelets.
pub struct Cluster<'a> {
    pub stage: &'a Stage,
    pub namespace: String,
    pub sim: Sim,
    pub kubelet: Kubelet,
    served: Served,
}

/// One write of the operator.
#[derive(Clone, Debug)]
pub struct Written {
    pub verb: String,
    pub resource: String,
    pub subresource: String,
    pub name: String,
}

/// Starts the operator so that it reaches the simulators.
pub fn operator(stage: &Stage) -> Operator {
    stage.operator_outside("slipway", &["--slurm-url-template=http://127.0.0.1:{port}"])
}

impl<'a> Cluster<'a> {
    /// A cluster in the stage's namespace.
    pub async fn start(stage: &'a Stage) -> Self {
        Self::start_in(stage, stage.namespace.clone()).await
    }

    /// A cluster in a namespace of its own. It must exist before the operator starts.
    pub async fn start_named(stage: &'a Stage, name: &str) -> Self {
        Self::start_in(stage, stage.namespace_named(name).await).await
    }

    /// Creates an external Controller, which needs no pod, and a RestApi that leads to the simulator.
    async fn start_in(stage: &'a Stage, namespace: String) -> Self {
        let sim = Sim::new(Release::R2605, 0, KEY.as_bytes(), SlurmClock::new(|| SystemClock.now()));
        let served = Served::start(sim.clone(), SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        stage.note_sim(&namespace, &sim);
        let kubelet = Kubelet::start(stage.client.clone(), &namespace, HOSTS, sim.clone()).await.unwrap();
        let cluster = Self { stage, namespace, sim, kubelet, served };
        // No controller manager runs here to create the service account.
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys" }, "stringData": { "key": KEY } });
        for (resource, object) in [("serviceaccounts/default", account), ("secrets/keys", secret)] {
            let made = stage.put(&format!("/api/v1/namespaces/{}/{resource}", cluster.namespace), &object).await;
            assert_eq!(made.code, 201, "{made:?}");
        }
        let elsewhere = json!({ "external": true, "externalConfig": { "host": "ctl.example.com", "port": 6817 } });
        cluster.make("controllers", &super::controller(CONTROLLER, &elsewhere)).await;
        let restapi = json!({
            "apiVersion": "slinky.slurm.net/v1beta1", "kind": "RestApi", "metadata": { "name": "r" },
            "spec": { "controllerRef": { "name": CONTROLLER }, "slurmrestd": { "image": "slurmrestd" },
                      "service": { "port": cluster.served.address.port() } },
        });
        cluster.make("restapis", &restapi).await;
        cluster
    }

    async fn make(&self, plural: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let made = self.stage.put(&self.path(plural, name), object).await;
        assert_eq!(made.code, 201, "{made:?}");
    }

    pub fn path(&self, plural: &str, name: &str) -> String {
        format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/{plural}/{name}", self.namespace)
    }

    /// Creates a NodeSet, and its partition in Slurm.
    pub async fn create_nodeset(&self, name: &str, replicas: u32) {
        self.create_nodeset_with(name, replicas, &json!({})).await;
    }

    pub async fn create_nodeset_with(&self, name: &str, replicas: u32, spec: &Value) {
        let mut object = json!({
            "apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": { "name": name },
            "spec": { "controllerRef": { "name": CONTROLLER }, "replicas": replicas, "slurmd": { "image": "slurmd" } },
        });
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        self.sim.world(|world| {
            if !world.partitions.iter().any(|partition| partition.name == name) {
                world.partitions.push(PartitionRecord::in_file(name));
            }
        });
        self.make("nodesets", &object).await;
    }

    pub async fn nodeset(&self, name: &str) -> Value {
        self.stage.get(&self.path("nodesets", name)).await
    }

    pub async fn scale(&self, name: &str, replicas: u32) {
        let answer = self.stage.edit(&self.scale_path(name), &json!({ "spec": { "replicas": replicas } })).await;
        assert_eq!(answer.code, 200, "{answer:?}");
    }

    pub fn scale_path(&self, name: &str) -> String {
        format!("{}/scale", self.path("nodesets", name))
    }

    /// Patches a pod as a user does.
    pub async fn edit_pod(&self, name: &str, patch: &Value) -> Answer {
        self.stage.edit(&format!("/api/v1/namespaces/{}/pods/{name}", self.namespace), patch).await
    }

    /// All worker pods of a NodeSet.
    pub async fn pods(&self, nodeset: &str) -> Vec<Value> {
        let selector = format!("app.kubernetes.io%2Fname%3Dslurmd%2Capp.kubernetes.io%2Finstance%3D{nodeset}");
        let list = self.stage.get(&format!("/api/v1/namespaces/{}/pods?labelSelector={selector}", self.namespace)).await;
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Names of the worker pods that are not terminating.
    pub async fn names(&self, nodeset: &str) -> BTreeSet<String> {
        self.uids(nodeset).await.into_keys().collect()
    }

    /// UIDs of the worker pods that are not terminating, by name.
    pub async fn uids(&self, nodeset: &str) -> BTreeMap<String, String> {
        let pods = self.pods(nodeset).await;
        let staying = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        staying.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]))).collect()
    }

    /// Waits until each node in Slurm has its comment: these are written last, one by one.
    pub async fn until_described(&self) {
        eventually("a comment on each node", async || {
            match self.sim.world(|world| world.nodes.values().filter(|node| node.comment.is_empty()).count()) {
                0 => Ok(()),
                bare => Err(format!("{bare} have none")),
            }
        })
        .await;
    }

    /// Number of worker pods that show the end of their jobs.
    pub async fn with_deadline(&self, nodeset: &str) -> usize {
        self.pods(nodeset).await.iter().filter(|pod| pod["metadata"]["annotations"][annotation::POD_DEADLINE].is_string()).count()
    }

    /// Waits until a condition of a NodeSet is as meant.
    pub async fn until_condition(&self, nodeset: &str, type_: &str, is_meant: impl Fn(&Value) -> bool) {
        until_condition(async || self.nodeset(nodeset).await, type_, is_meant).await;
    }

    /// Waits until exactly `count` pods exist, none is terminating, and all show Slurm's state. Returns the time that took.
    pub async fn until_settled(&self, nodeset: &str, count: usize) -> Duration {
        let began = Instant::now();
        eventually(&format!("{count} workers of `{}/{nodeset}`", self.namespace), async || {
            let pods = self.pods(nodeset).await;
            let shows = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null() && is_ready(pod) && !slurm_states(pod).is_empty();
            let shown = pods.iter().filter(shows).count();
            if (shown, pods.len()) == (count, count) { Ok(()) } else { Err(format!("{shown} of {} show Slurm's state", pods.len())) }
        })
        .await;
        began.elapsed()
    }

    /// Waits until Slurm has been polled this many times from now on: the result of one poll is processed before the next.
    pub async fn until_read(&self, times: u64) {
        let before = self.sim.requests("GET nodes");
        eventually(&format!("{times} readings of Slurm"), async || match self.sim.requests("GET nodes") - before {
            read if read >= times => Ok(()),
            read => Err(format!("there were {read}")),
        })
        .await;
    }

    /// Name of a Kubernetes node of this cluster.
    pub fn host(&self, index: usize) -> &str {
        &self.kubelet.hosts()[index]
    }

    /// Starts a job on exactly these nodes immediately. Returns its ID.
    pub fn start_job(&self, partition: &str, nodes: &[&str], seconds: u64) -> u64 {
        self.sim.world(|world| {
            let (id, _) = world.submit(&job(partition, nodes, seconds)).unwrap();
            if let Some(job) = world.jobs.get_mut(&id) {
                job.eligible_at = world.now;
            }
            world.advance_to(world.now);
            assert!(world.jobs[&id].is_running(), "{:?} cannot start: {:?}", world.jobs[&id], world.nodes.get(nodes[0]));
            id
        })
    }

    /// Submits a job as a user does and waits until it runs. Returns its ID.
    pub async fn run_job(&self, partition: &str, nodes: &[&str], seconds: u64) -> u64 {
        let (id, _) = self.sim.world(|world| world.submit(&job(partition, nodes, seconds))).unwrap();
        eventually("the job to run", async || {
            let state = self.sim.world(|world| world.jobs[&id].state);
            if state == "RUNNING" { Ok(()) } else { Err(state.to_owned()) }
        })
        .await;
        id
    }

    /// Ends a job as completed.
    pub fn end_job(&self, id: u64) {
        self.sim.world(|world| world.end_job(id, "COMPLETED"));
    }

    /// True if all these jobs are running: none was requeued or lost.
    pub fn are_running(&self, jobs: &[u64]) -> bool {
        self.sim.world(|world| jobs.iter().all(|id| world.jobs.get(id).is_some_and(slipway_sim::job::JobRecord::is_running)))
    }

    /// The operator's writes in this namespace.
    pub fn writes(&self) -> Vec<Written> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let here = self.stage.audit().into_iter().filter(|event| event["objectRef"]["namespace"] == self.namespace.as_str());
        here.map(|event| {
            let object = &event["objectRef"];
            Written {
                verb: text(&event["verb"]),
                resource: text(&object["resource"]),
                subresource: text(&object["subresource"]),
                name: text(&object["name"]),
            }
        })
        .collect()
    }

    /// Names of the pods that the operator deleted.
    pub fn deletions(&self) -> Vec<String> {
        let deletes = |write: &Written| write.verb == "delete" && write.resource == "pods";
        self.writes().into_iter().filter(deletes).map(|write| write.name).collect()
    }

    /// Number of requests that change Slurm nodes.
    pub fn slurm_writes(&self) -> u64 {
        self.sim.requests("POST node") + self.sim.requests("DELETE node")
    }
}

fn job(partition: &str, nodes: &[&str], seconds: u64) -> Value {
    json!({
        "script": format!("#!/bin/sh\nsleep {seconds}\n"), "partition": partition, "required_nodes": nodes,
        "time_limit": { "set": true, "infinite": false, "number": seconds.div_ceil(60) + 1 },
    })
}

pub fn is_ready(pod: &Value) -> bool {
    super::condition(pod, "Ready")["status"] == "True"
}

/// The Slurm node states that a pod shows, without their prefix.
pub fn slurm_states(pod: &Value) -> Vec<String> {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ours = conditions.iter().filter(|condition| condition["status"] == "True").filter_map(|condition| condition["type"].as_str());
    ours.filter_map(|type_| type_.strip_prefix("SlurmNodeState")).map(str::to_owned).collect()
}
