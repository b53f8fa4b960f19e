#![allow(unreachable_pub)] // the KubeSchema derive repeats each struct inside a function

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{ConfigMapKeyRef, External, LocalRef, Metrics, PodTemplate, Raw, SecretKeyRef, ServiceTemplate, claim, rule, schema};

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
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    doc = "Controller runs slurmctld and holds the configuration of its Slurm cluster.",
    validation = rule::name_leaves_room("a Controller", 42),
    validation = rule::cluster_name_stays()
)]
#[x_kube(
    validation = rule::slurm_key_given(),
    validation = rule::slurm_key_named(),
    validation = rule::slurm_key_stays(),
    validation = rule::jwt_key_given(),
    validation = rule::jwt_key_named(),
    validation = rule::jwt_key_stays(),
    validation = rule::external_given(),
    validation = rule::external_reachable(),
    validation = rule::ha_has_a_shared_claim(),
    validation = rule::persistence_stays(),
    validation = rule::state_claim_stays()
)]
#[serde(rename_all = "camelCase")]
pub struct ControllerSpec {
    /// Slurm's ClusterName; `<namespace>_<name>` when empty. It cannot change later: slurmctld refuses the state of a cluster with another
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::cluster_name_is_slurms())]
    pub cluster_name: Option<String>,
    /// Secret key that holds the auth/slurm key, by which the daemons of the cluster know each other. Required unless `external` is true;
    /// the Secret's name cannot change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_key_ref: Option<SecretKeyRef>,
    /// Secret key that holds the auth/jwt (HS256) key, which signs tokens for the REST API. Required unless `external` is true; it cannot
    /// point elsewhere later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt_key_ref: Option<SecretKeyRef>,
    /// Deprecated: the former name of `jwtKeyRef`, used where that is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt_hs256_key_ref: Option<SecretKeyRef>,
    /// ConfigMap key that holds a JSON Web Key Set, by which slurmctld accepts tokens of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_key_ref: Option<ConfigMapKeyRef>,
    /// The Accounting that keeps the records of this cluster's jobs. Left out, there is no accounting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounting_ref: Option<LocalRef>,
    /// Whether slurmctld runs outside this Kubernetes. Then nothing is started, and `externalConfig` says where it listens.
    #[serde(default)]
    pub external: bool,
    /// Where slurmctld listens when `external` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_config: Option<External>,
    /// Backup controllers that take over when the active one fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ha: Option<HighAvailability>,
    /// The slurmctld container: a Kubernetes Container, merged over the one that the operator generates. `image` is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurmctld: Option<Raw>,
    /// How a changed configuration gets to slurmctld: true asks it to read its files again, false starts it anew.
    #[serde(default)]
    pub inplace_reconfigure: bool,
    /// The sidecar that asks slurmctld to read its files again when `inplaceReconfigure` is true: a Kubernetes Container, merged over the
    /// generated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconfigure: Option<Raw>,
    /// The sidecar that prints slurmctld's log file: a Kubernetes Container, merged over the generated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logfile: Option<Raw>,
    /// Pod template of slurmctld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplate>,
    /// Lines appended to slurm.conf as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_conf: Option<String>,
    /// ConfigMaps whose keys become files in `/etc/slurm`, such as `gres.conf` or `topology.yaml`. `slurm.conf` and `slurmdbd.conf` may not
    /// be among them: use `extraConf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_file_refs: Option<Vec<LocalRef>>,
    /// ConfigMaps of scripts that every node runs before a job (Prolog).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prolog_script_refs: Option<Vec<LocalRef>>,
    /// ConfigMaps of scripts that every node runs after a job (Epilog).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epilog_script_refs: Option<Vec<LocalRef>>,
    /// ConfigMaps of scripts that slurmctld runs before a job (PrologSlurmctld).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prolog_slurmctld_script_refs: Option<Vec<LocalRef>>,
    /// ConfigMaps of scripts that slurmctld runs after a job (EpilogSlurmctld).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epilog_slurmctld_script_refs: Option<Vec<LocalRef>>,
    /// Where slurmctld keeps its state: on a volume claim, unless disabled. Every field beside `enabled` and `existingClaim` belongs to the
    /// spec of the claim that the operator asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
    /// The Service of slurmctld, `<name>-controller`, on port 6817.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTemplate>,
    /// Metrics of slurmctld.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
}

impl ControllerSpec {
    /// The auth/jwt key that counts, and the field that names it.
    pub fn jwt_key(&self) -> (Option<&SecretKeyRef>, &'static str) {
        match (&self.jwt_key_ref, &self.jwt_hs256_key_ref) {
            (None, Some(older)) => (Some(older), "spec.jwtHs256KeyRef"),
            (given, _) => (given.as_ref(), "spec.jwtKeyRef"),
        }
    }
}

/// Backup controllers.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(inline, extend("required" = ["enabled"]))]
pub struct HighAvailability {
    /// Whether there are backups. They share one claim, so `persistence.existingClaim` must name one that many pods can write to
    /// (ReadWriteMany).
    #[serde(default)]
    pub enabled: bool,
    /// How many backups stand by.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub backups: i32,
}

fn one() -> i32 {
    1
}

/// Where slurmctld keeps its state.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[schemars(inline, extend("required" = ["enabled"]))]
#[serde(rename_all = "camelCase")]
pub struct Persistence {
    /// Whether the state outlives the pod. It cannot change later; true also where `persistence` is left out.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Name of a claim that exists already, used instead of a new one. It cannot change later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing_claim: Option<String>,
    /// Spec of the claim to make.
    #[serde(flatten)]
    #[schemars(schema_with = "claim::spec")]
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
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
