#![allow(unreachable_pub)] // the KubeSchema derive repeats each struct inside a function

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{LocalRef, PodTemplate, Raw, SecretKeyRef, ServiceTemplate};

/// A Slurm controller (slurmctld) and the cluster configuration that belongs to it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "slinky.slurm.net",
    version = "v1beta1",
    kind = "Controller",
    root = "SlurmController", // kube has a `Controller` of its own
    plural = "controllers",
    singular = "controller",
    shortname = "slurmctld",
    namespaced,
    status = "ControllerStatus",
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    doc = "Controller runs slurmctld and holds the configuration of its Slurm cluster."
)]
#[x_kube(
    validation = Rule::new("has(self.slurmKeyRef)").message("slurmKeyRef must be set when external is false"),
    validation = Rule::new("has(self.jwtKeyRef)").message("jwtKeyRef or jwtHs256KeyRef must be set when external is false")
)]
#[serde(rename_all = "camelCase")]
pub struct ControllerSpec {
    /// Slurm's ClusterName; `<namespace>_<name>` when empty. It cannot change later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// Secret key that holds the auth/slurm key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_key_ref: Option<SecretKeyRef>,
    /// Secret key that holds the auth/jwt (HS256) key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt_key_ref: Option<SecretKeyRef>,
    /// The slurmctld container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurmctld: Option<Raw>,
    /// The sidecar that prints slurmctld's log file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logfile: Option<Raw>,
    /// Pod template of slurmctld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplate>,
    /// Text appended to slurm.conf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_conf: Option<String>,
    /// ConfigMaps whose keys become files in `/etc/slurm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_file_refs: Option<Vec<LocalRef>>,
    /// Where slurmctld keeps its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
    /// The Service of slurmctld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTemplate>,
}

/// Where slurmctld keeps its state: on a volume claim unless disabled.
///
/// Every field beside `enabled` and `existingClaim` belongs to the spec of the claim that the operator asks for.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[schemars(inline, extend("required" = ["enabled"]))]
#[serde(rename_all = "camelCase")]
pub struct Persistence {
    /// Whether the state outlives the pod.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Name of a claim that exists already, used instead of a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing_claim: Option<String>,
    /// Spec of the claim to make.
    #[serde(flatten)]
    pub claim: Raw,
}

impl Default for Persistence {
    fn default() -> Self {
        Self { enabled: true, existing_claim: None, claim: Raw::default() }
    }
}

fn yes() -> bool {
    true
}

/// What was last seen of a Controller.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControllerStatus {
    /// Whether the controller is up, and what it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
