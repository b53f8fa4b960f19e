#![allow(unreachable_pub)] // the KubeSchema derive repeats each struct inside a function

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{LocalRef, PodTemplate, Raw, SecretKeyRef, ServiceTemplate, rule, schema};

/// Login pods of a Slurm cluster (sackd, sshd, sssd).
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "slinky.slurm.net",
    version = "v1beta1",
    kind = "LoginSet",
    plural = "loginsets",
    singular = "loginset",
    shortname = "loginsets",
    shortname = "lss",
    shortname = "sackd",
    namespaced,
    status = "LoginSetStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas", label_selector_path = ".status.selector"),
    printcolumn(name = "REPLICAS", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    doc = "LoginSet runs login pods, from which users submit jobs to a Controller.",
    validation = rule::name_leaves_room("a LoginSet", 63)
)]
#[x_kube(validation = rule::controller_named(), validation = rule::controller_stays(), validation = rule::sssd_named())]
#[serde(rename_all = "camelCase")]
pub struct LoginSetSpec {
    /// The Controller, in the same namespace, that users of these pods submit jobs to. It cannot change later.
    pub controller_ref: LocalRef,
    /// How many login pods to run.
    #[serde(default = "one")]
    #[x_kube(validation = rule::not_negative("replicas"))]
    pub replicas: i32,
    /// The login container: a Kubernetes Container, merged over the one that the operator generates. `image` is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<Raw>,
    /// The init container that lays out the configuration: a Kubernetes Container, merged over the generated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initconf: Option<Raw>,
    /// Pod template of the login pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplate>,
    /// Content of root's authorized_keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_ssh_authorized_keys: Option<String>,
    /// Lines appended to sshd_config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_sshd_config: Option<String>,
    /// Secret key that holds sssd.conf, by which the pods know their users.
    pub sssd_conf_ref: SecretKeyRef,
    /// How the Deployment replaces its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// The Service of the login pods, of the same name as the LoginSet, on port 22.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTemplate>,
}

fn one() -> i32 {
    1
}

/// How a Deployment replaces its pods.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(inline)]
#[x_kube(validation = rule::strategy_is_known(), validation = rule::recreation_is_not_rolling())]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// `RollingUpdate` or `Recreate`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Details of `RollingUpdate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingPods>,
}

/// Details of a rolling update of pods.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(inline)]
#[x_kube(validation = rule::rolling_moves())]
#[serde(rename_all = "camelCase")]
pub struct RollingPods {
    /// How many pods, or which share of them, may be there beyond `replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    #[x_kube(validation = rule::share_of_pods("maxSurge"))]
    pub max_surge: Option<IntOrString>,
    /// How many pods, or which share of them, may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int_or_string")]
    #[x_kube(validation = rule::share_of_pods("maxUnavailable"))]
    pub max_unavailable: Option<IntOrString>,
}

/// What was last seen of a LoginSet.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoginSetStatus {
    /// Pods that exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Label selector of the pods, in text form.
    pub selector: String,
    /// Whether the login pods are up, and what they wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
