#![allow(unreachable_pub)] // the KubeSchema derive repeats each struct inside a function
#![allow(clippy::duplicated_attributes)] // several columns have the same type

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{LocalRef, PodTemplate, Raw};

/// A set of Slurm compute nodes (slurmd), each in a pod of its own.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "slinky.slurm.net",
    version = "v1beta1",
    kind = "NodeSet",
    plural = "nodesets",
    singular = "nodeset",
    shortname = "nodesets",
    shortname = "nss",
    shortname = "slurmd",
    namespaced,
    status = "NodeSetStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas", label_selector_path = ".status.selector"),
    printcolumn(name = "DESIRED", type_ = "integer", json_path = ".status.desired"),
    printcolumn(name = "REPLICAS", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "UPDATED", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(name = "READY", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "IDLE", type_ = "integer", json_path = ".status.slurmIdle", priority = 1),
    printcolumn(name = "ALLOCATED", type_ = "integer", json_path = ".status.slurmAllocated", priority = 1),
    printcolumn(name = "DOWN", type_ = "integer", json_path = ".status.slurmDown", priority = 1),
    printcolumn(name = "DRAIN", type_ = "integer", json_path = ".status.slurmDrain", priority = 1),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    doc = "NodeSet runs a set of slurmd pods for a Controller."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeSetSpec {
    /// The Controller that the nodes belong to.
    pub controller_ref: LocalRef,
    /// How many nodes to run.
    #[serde(default = "one")]
    pub replicas: i32,
    /// The slurmd container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurmd: Option<Raw>,
    /// The sidecar that prints slurmd's log file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logfile: Option<Raw>,
    /// Pod template of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplate>,
    /// Further `Key=Value` items for slurmd's `--conf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_conf: Option<String>,
    /// The partition made of these nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<Partition>,
    /// Whether several nodes of Slurm may share one Kubernetes node.
    #[serde(default)]
    pub oversubscribe_node: bool,
}

/// The partition made of the nodes of one NodeSet.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(inline, extend("required" = ["enabled"]))]
pub struct Partition {
    /// Whether to write the partition line.
    #[serde(default)]
    pub enabled: bool,
    /// Text appended to the partition line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[^\n]+$"))]
    pub config: Option<String>,
}

fn one() -> i32 {
    1
}

/// What was last seen of a NodeSet.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSetStatus {
    /// Pods that exist, terminating ones included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Pods made from the present template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// Pods that are running and ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Pods that have been ready for long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Wanted pods that are not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    /// Pods that should exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<i32>,
    /// Slurm nodes that are idle; absent while Slurm's state is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_idle: Option<i32>,
    /// Slurm nodes that run jobs; absent while Slurm's state is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_allocated: Option<i32>,
    /// Slurm nodes that are down; absent while Slurm's state is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_down: Option<i32>,
    /// Slurm nodes that drain or are drained; absent while Slurm's state is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_drain: Option<i32>,
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Hash of the present pod template.
    pub node_set_hash: String,
    /// Whether the nodes are up, and what they wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Label selector of the pods, in text form.
    pub selector: String,
}
