//! Workers of a NodeSet: their number, their Kubernetes nodes, and their state in Kubernetes and Slurm.

use std::collections::BTreeMap;

use serde_json::Value;
use slipway_bed::failure::Failure;

use crate::eventually::eventually;
use crate::manifest::WORKER;
use crate::slurm::Slurm;

/// Selects worker pods.
const SELECTOR: &str = "app.kubernetes.io/name=slurmd";

impl Slurm {
    /// Sets the number of workers through the scale subresource.
    pub fn scale(&self, replicas: u32) -> Result<(), Failure> {
        self.kubectl(&["scale", &format!("nodesets.slinky.slurm.net/{WORKER}"), &format!("--replicas={replicas}")]).map(drop)
    }

    /// Names of the worker pods, in order.
    pub fn pods(&self) -> Result<Vec<String>, Failure> {
        Ok(self.uids()?.into_keys().collect())
    }

    /// The worker pods that also have these labels, as full objects.
    fn worker_pods(&self, labels: &str) -> Result<Vec<Value>, Failure> {
        let list = self.cluster.get(&format!("{}?labelSelector={SELECTOR}{labels}", self.pods_path()))?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    fn pods_path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    /// Waits until exactly these worker pods exist.
    pub async fn until_pods(&self, expected: &[&str]) -> Result<(), Failure> {
        eventually(&format!("the pods {expected:?}"), async || {
            let found = self.pods().map_err(|failure| failure.to_string())?;
            let jobs = || self.on_controller(&["squeue", "--states=all", "--format=%i %T %N %r"]).unwrap_or_default();
            if found == expected { Ok(()) } else { Err(format!("there are {found:?}, and jobs\n{}", jobs())) }
        })
        .await
    }

    /// Waits until this many worker pods exist.
    pub async fn until_pod_count(&self, expected: usize) -> Result<(), Failure> {
        eventually(&format!("{expected} worker pods"), async || {
            let found = self.pods().map_err(|failure| failure.to_string())?;
            if found.len() == expected { Ok(()) } else { Err(format!("there are {found:?}; {}", self.nodes())) }
        })
        .await
    }

    /// Waits until a pod is gone, or another has its name.
    pub async fn until_gone(&self, pod: &str, uid: &str) -> Result<(), Failure> {
        eventually(&format!("pod {pod} to leave"), async || match self.find_pod(pod).map_err(|failure| failure.to_string())? {
            Some(found) if found["metadata"]["uid"] == uid => Err(format!("it is there; {}", self.nodes())),
            _ => Ok(()),
        })
        .await
    }

    /// UIDs of the worker pods, by name.
    pub fn uids(&self) -> Result<BTreeMap<String, String>, Failure> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(self.worker_pods("")?.iter().map(|pod| (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]))).collect())
    }

    /// Waits until this many workers have the newest template and the NodeSet is ready.
    pub async fn until_updated(&self, expected: u64) -> Result<(), Failure> {
        eventually(&format!("{expected} workers to be updated and all ready"), async || {
            let status = self.resource("nodeset", WORKER)?["status"].clone();
            let is_ready = self.is_ready("nodeset", WORKER);
            if status["updatedReplicas"] == expected && is_ready.is_ok() { Ok(()) } else { Err(format!("{is_ready:?}: {status}")) }
        })
        .await
    }

    /// A pod's UID; empty if there is no pod of this name.
    pub fn uid(&self, pod: &str) -> String {
        let found = self.find_pod(pod).ok().flatten().unwrap_or_default();
        found["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
    }

    /// The pod of a Slurm node. The names differ if there is one worker on each Kubernetes node.
    pub fn pod_of(&self, node: &str) -> Result<String, Failure> {
        let pods = self.worker_pods(&format!(",nodeset.slinky.slurm.net/pod-hostname={node}"))?;
        let name = pods.first().and_then(|pod| pod["metadata"]["name"].as_str()).map(str::to_owned);
        name.ok_or_else(|| Failure::new(format!("node {node} has no pod")))
    }

    /// One pod, as a full object.
    pub fn pod(&self, name: &str) -> Result<Value, Failure> {
        self.cluster.get(&format!("{}/{name}", self.pods_path()))
    }

    fn find_pod(&self, name: &str) -> Result<Option<Value>, Failure> {
        self.cluster.find(&format!("{}/{name}", self.pods_path()))
    }

    /// The Kubernetes node of a pod; empty while it has none.
    pub fn host_of(&self, pod: &str) -> Result<String, Failure> {
        Ok(self.pod(pod)?["spec"]["nodeName"].as_str().unwrap_or_default().to_owned())
    }

    /// State and reason of a node, as sinfo shows them.
    pub fn node(&self, name: &str) -> Result<String, Failure> {
        let shown = self.on_controller(&["sinfo", "--noheader", "--Node", "--nodes", name, "--format=%T %E"])?;
        Ok(shown.lines().next().unwrap_or_default().trim().to_owned())
    }

    /// All nodes with state and reason on one line, for failure messages.
    pub fn nodes(&self) -> String {
        let shown = self.on_controller(&["sinfo", "--noheader", "--Node", "--format=%N %T %E"]).unwrap_or_default();
        shown.lines().map(str::trim).collect::<Vec<_>>().join(", ")
    }

    /// Waits until sinfo shows this state and reason.
    pub async fn until_node(&self, name: &str, expected: &str) -> Result<(), Failure> {
        eventually(&format!("node {name} to be `{expected}`"), async || {
            let found = self.node(name).map_err(|failure| failure.to_string())?;
            if found == expected { Ok(()) } else { Err(format!("it is `{found}`")) }
        })
        .await
    }

    /// Drains a node as an administrator would.
    pub fn drain(&self, node: &str, reason: &str) -> Result<(), Failure> {
        let (node, reason) = (format!("nodename={node}"), format!("reason={reason}"));
        self.on_controller(&["scontrol", "update", &node, "state=drain", &reason]).map(drop)
    }

    /// The nodes of running jobs, in the order of the jobs.
    pub fn busy(&self) -> Result<Vec<String>, Failure> {
        let shown = self.on_controller(&["squeue", "--noheader", "--states=RUNNING", "--sort=i", "--format=%N"])?;
        Ok(shown.split_whitespace().map(str::to_owned).collect())
    }

    /// Waits until every report about ended jobs is written: pods and NodeSet show that all workers are idle, and the budget counts none of them. It is
    /// lowered last.
    pub async fn until_at_rest(&self) -> Result<(), Failure> {
        self.until_all_show("Idle", false).await?;
        let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets/slurm-workers-pdb-{}", self.namespace, self.controller);
        eventually("the budget to count no worker", async || {
            let budget = self.cluster.get(&path).map_err(|failure| failure.to_string())?;
            let counted = &budget["spec"]["minAvailable"];
            if *counted == 0 { Ok(()) } else { Err(format!("it counts {counted}")) }
        })
        .await
    }

    /// Waits until every report about jobs on all workers is written: pods and NodeSet show them, and no pod can be evicted.
    pub async fn until_all_busy(&self) -> Result<(), Failure> {
        self.until_all_show("Allocated", true).await
    }

    async fn until_all_show(&self, state: &str, is_protected: bool) -> Result<(), Failure> {
        eventually(&format!("all workers to show {state}"), async || {
            let pods = self.worker_pods("").map_err(|failure| failure.to_string())?;
            let shows = |pod: &&Value| {
                let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let is_so = conditions.iter().any(|it| it["type"] == format!("SlurmNodeState{state}") && it["status"] == "True");
                is_so && (pod["metadata"]["labels"]["nodeset.slinky.slurm.net/pod-protect"] == "true") == is_protected
            };
            let (showing, counted) =
                (pods.iter().filter(shows).count(), self.resource("nodeset", WORKER)?["status"][format!("slurm{state}")].as_u64());
            let is_all = showing == pods.len() && counted == u64::try_from(showing).ok();
            if is_all { Ok(()) } else { Err(format!("{showing} of {} do, and the NodeSet counts {counted:?}", pods.len())) }
        })
        .await
    }
}
