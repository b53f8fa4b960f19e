//! Workers of a NodeSet: how many, where, and what Kubernetes and Slurm say about each.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use slipway_bed::failure::{Context, Failure};

use crate::eventually::eventually;
use crate::manifest::WORKER;
use crate::slurm::Slurm;

/// Selects the pods of workers.
pub(crate) const SELECTOR: &str = "--selector=app.kubernetes.io/name=slurmd";
const PATIENCE: Duration = Duration::from_mins(1);

impl Slurm {
    /// Asks for so many workers, by the scale subresource.
    pub fn scale(&self, replicas: u32) -> Result<(), Failure> {
        self.kubectl(&["scale", &format!("nodesets.slinky.slurm.net/{WORKER}"), &format!("--replicas={replicas}")]).map(drop)
    }

    /// Names of the worker pods, in order.
    pub fn pods(&self) -> Result<Vec<String>, Failure> {
        let names = self.kubectl(&["get", "pods", SELECTOR, "--output=jsonpath={.items[*].metadata.name}"])?;
        let mut names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// Waits until these worker pods are there and no others.
    pub async fn until_pods(&self, expected: &[&str]) -> Result<(), Failure> {
        eventually(&format!("the pods {expected:?}"), PATIENCE, async || {
            let found = self.pods().map_err(|failure| failure.to_string())?;
            let jobs = || self.on_controller(&["squeue", "--states=all", "--format=%i %T %N %r"]).unwrap_or_default();
            if found == expected { Ok(()) } else { Err(format!("there are {found:?}, and jobs\n{}", jobs())) }
        })
        .await
    }

    /// Waits until so many worker pods are there.
    pub async fn until_pod_count(&self, expected: usize) -> Result<(), Failure> {
        eventually(&format!("{expected} worker pods"), PATIENCE, async || {
            let found = self.pods().map_err(|failure| failure.to_string())?;
            if found.len() == expected { Ok(()) } else { Err(format!("there are {found:?}; {}", self.nodes())) }
        })
        .await
    }

    /// Waits until a pod is gone, or another has its name.
    pub async fn until_gone(&self, pod: &str, uid: &str) -> Result<(), Failure> {
        eventually(&format!("pod {pod} to leave"), PATIENCE, async || {
            if self.uid(pod) == uid { Err(format!("it is there; {}", self.nodes())) } else { Ok(()) }
        })
        .await
    }

    /// UIDs of the worker pods, by name.
    pub fn uids(&self) -> Result<BTreeMap<String, String>, Failure> {
        Ok(self.pods()?.into_iter().map(|pod| (pod.clone(), self.uid(&pod))).collect())
    }

    /// Waits until so many workers have the newest template, and the NodeSet is ready.
    pub async fn until_updated(&self, expected: u64) -> Result<(), Failure> {
        eventually(&format!("{expected} workers to be updated and all ready"), crate::slurm::PATIENCE, async || {
            let status = self.resource("nodeset", WORKER)?["status"].clone();
            let is_ready = self.is_ready("nodeset", WORKER);
            if status["updatedReplicas"] == expected && is_ready.is_ok() { Ok(()) } else { Err(format!("{is_ready:?}: {status}")) }
        })
        .await
    }

    /// A pod's UID; empty when there is none of this name.
    pub fn uid(&self, pod: &str) -> String {
        self.kubectl(&["get", "pod", pod, "--ignore-not-found", "--output=jsonpath={.metadata.uid}"]).unwrap_or_default()
    }

    /// The pod of a node of Slurm: the names differ where there is a worker for each Kubernetes node.
    pub fn pod_of(&self, node: &str) -> Result<String, Failure> {
        let selector = format!("{SELECTOR},nodeset.slinky.slurm.net/pod-hostname={node}");
        let names = self.kubectl(&["get", "pods", &selector, "--output=jsonpath={.items[*].metadata.name}"])?;
        names.split_whitespace().next().map(str::to_owned).ok_or_else(|| Failure::new(format!("node {node} has no pod")))
    }

    /// One pod, whole.
    pub fn pod(&self, name: &str) -> Result<Value, Failure> {
        let text = self.kubectl(&["get", "pod", name, "--output=json"])?;
        serde_json::from_str(&text).context(|| format!("pod {name} is no JSON"))
    }

    /// The Kubernetes node of a pod; empty while it has none.
    pub fn host_of(&self, pod: &str) -> Result<String, Failure> {
        self.kubectl(&["get", "pod", pod, "--output=jsonpath={.spec.nodeName}"])
    }

    /// State and reason of a node, as sinfo shows them.
    pub fn node(&self, name: &str) -> Result<String, Failure> {
        let shown = self.on_controller(&["sinfo", "--noheader", "--Node", "--nodes", name, "--format=%T %E"])?;
        Ok(shown.lines().next().unwrap_or_default().trim().to_owned())
    }

    /// All nodes with state and reason, in one line, for whoever wonders why.
    pub fn nodes(&self) -> String {
        let shown = self.on_controller(&["sinfo", "--noheader", "--Node", "--format=%N %T %E"]).unwrap_or_default();
        shown.lines().map(str::trim).collect::<Vec<_>>().join(", ")
    }

    /// Waits until sinfo shows this state and reason.
    pub async fn until_node(&self, name: &str, expected: &str) -> Result<(), Failure> {
        eventually(&format!("node {name} to be `{expected}`"), PATIENCE, async || {
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

    /// Waits until everything that is to be said about jobs that ended has been said: pods and NodeSet show that all workers are idle.
    pub async fn until_at_rest(&self) -> Result<(), Failure> {
        self.until_all_show("Idle", false).await
    }

    /// Waits until everything that is to be said about jobs on every worker has been said: pods and NodeSet show them, and no pod can be evicted.
    pub async fn until_all_busy(&self) -> Result<(), Failure> {
        self.until_all_show("Allocated", true).await
    }

    async fn until_all_show(&self, state: &str, is_protected: bool) -> Result<(), Failure> {
        eventually(&format!("all workers to show {state}"), PATIENCE, async || {
            let text = self.kubectl(&["get", "pods", SELECTOR, "--output=json"]).map_err(|failure| failure.to_string())?;
            let pods: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            let pods = pods["items"].as_array().cloned().unwrap_or_default();
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
