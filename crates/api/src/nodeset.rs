#![allow(unreachable_pub)] // the KubeSchema derive repeats each struct inside a function
#![allow(clippy::duplicated_attributes)] // several columns have the same type

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LocalRef, PodTemplate, Raw, SecretKeyRef, UpdateStrategy, rule, schema, template};

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
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    doc = "NodeSet runs a set of slurmd pods for a Controller."
)]
#[x_kube(validation = rule::controller_named(), validation = rule::controller_stays(), validation = rule::claims_stay())]
#[serde(rename_all = "camelCase")]
pub struct NodeSetSpec {
    /// The Controller, in the same namespace, that the nodes belong to. It cannot change later.
    pub controller_ref: LocalRef,
    /// How many nodes to run. It does not count where `scalingMode` is `DaemonSet`.
    #[serde(default = "one")]
    #[x_kube(validation = rule::not_negative("replicas"))]
    pub replicas: i32,
    /// How nodes are counted and named: `StatefulSet` runs `replicas` of them, numbered from 0; `DaemonSet` runs one on every Kubernetes
    /// node that fits, named after it.
    #[serde(default)]
    pub scaling_mode: ScalingMode,
    /// The slurmd container: a Kubernetes Container, merged over the one that the operator generates. `image` is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurmd: Option<Raw>,
    /// Access to the nodes by ssh, for users who have a job there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<Ssh>,
    /// The sidecar that prints slurmd's log file: a Kubernetes Container, merged over the generated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logfile: Option<Raw>,
    /// Pod template of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "template::with_hostname_prefix")]
    pub template: Option<PodTemplate>,
    /// What the nodes tell slurmctld about themselves: `Key=Value` items of a node line, with blanks between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::extra_conf_is_items(), validation = rule::extra_conf_includes_nothing())]
    pub extra_conf: Option<String>,
    /// The partition made of these nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<Partition>,
    /// Claims of each node: Kubernetes PersistentVolumeClaims, passed on field by field. The pod gets each as a volume of the same name. They cannot
    /// change later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::claims")]
    pub volume_claim_templates: Option<Vec<Raw>>,
    /// How nodes get a changed template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// How many former templates to keep.
    #[serde(default)]
    #[x_kube(validation = rule::not_negative("revisionHistoryLimit"))]
    pub revision_history_limit: i32,
    /// What becomes of the nodes' claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim_retention_policy: Option<ClaimRetention>,
    /// For how many seconds a node must be ready before it counts as available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::not_negative("minReadySeconds"))]
    pub min_ready_seconds: Option<i32>,
    /// How many digits the numbers of nodes have at least: with 3, the first is `000`. A change counts for nodes that are made from then on, and
    /// for their claims, which have the number in their names too.
    #[serde(default)]
    #[schemars(schema_with = "schema::integer")]
    #[x_kube(validation = rule::padding_fits_slurm())]
    pub ordinal_padding: i64,
    /// Whether a node comes back on the Kubernetes node that it ran on first, as long as that one exists, matches the template and takes pods.
    #[serde(default)]
    pub pin_to_node: bool,
    /// Whether nodes that run jobs are protected from evictions.
    #[serde(default = "yes")]
    pub workload_disruption_protection: bool,
    /// When to delete Slurm's records of nodes that are gone: `Never`, or `NodeNotFound` once nobody wants the node any more: its number was scaled
    /// away or, where `scalingMode` is `DaemonSet`, its Kubernetes node is gone. Records that a job, a reservation or an administrator holds stay.
    #[serde(default)]
    pub prune_slurm_node_records: PruneRecords,
    /// Whether several nodes of Slurm may share one Kubernetes node.
    #[serde(default)]
    pub oversubscribe_node: bool,
}

/// How nodes are counted and named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ScalingMode {
    DaemonSet,
    #[default]
    StatefulSet,
}

/// When to delete Slurm's records of nodes that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum PruneRecords {
    #[default]
    Never,
    NodeNotFound,
}

/// Access to the nodes by ssh.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(inline, extend("required" = ["enabled", "sssdConfRef"]))]
#[x_kube(validation = rule::sssd_named_for_ssh())]
#[serde(rename_all = "camelCase")]
pub struct Ssh {
    /// Whether the nodes run sshd. Only users with a job on a node get in.
    #[serde(default)]
    pub enabled: bool,
    /// Lines appended to sshd_config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_sshd_config: Option<String>,
    /// Secret key that holds sssd.conf, by which the nodes know their users.
    pub sssd_conf_ref: SecretKeyRef,
}

/// The partition made of the nodes of one NodeSet.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(inline, extend("required" = ["enabled"]))]
pub struct Partition {
    /// Whether to write the partition line.
    #[serde(default)]
    pub enabled: bool,
    /// Text appended to the partition line, such as `Default=YES MaxTime=UNLIMITED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[^\n]+$"))]
    #[x_kube(validation = rule::partition_is_one_line())]
    pub config: Option<String>,
}

/// What becomes of the nodes' claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRetention {
    /// When the NodeSet is deleted: `Retain` or `Delete`.
    #[serde(default)]
    pub when_deleted: Retention,
    /// When a node leaves because the NodeSet shrinks: `Retain` or `Delete`. Claims of a node that is only replaced are kept.
    #[serde(default)]
    pub when_scaled: Retention,
}

/// Whether claims are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Retention {
    #[default]
    Retain,
    Delete,
}

fn one() -> i32 {
    1
}

fn yes() -> bool {
    true
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
    /// How often two templates had the same hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Whether the nodes are up, and what they wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Which Kubernetes node each node is pinned to, by its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal_to_node: Option<BTreeMap<String, String>>,
    /// Label selector of the pods, in text form.
    pub selector: String,
}
