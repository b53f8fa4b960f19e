#![allow(unreachable_pub)] // the KubeSchema derive repeats each struct inside a function

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{LocalRef, PodTemplate, Raw, ServiceTemplate, rule, schema};

/// Slurm's REST server (slurmrestd) for one Controller.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "slinky.slurm.net",
    version = "v1beta1",
    kind = "RestApi",
    plural = "restapis",
    singular = "restapi",
    shortname = "slurmrestd",
    namespaced,
    status = "RestApiStatus",
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    doc = "RestApi runs slurmrestd for a Controller.",
    validation = rule::name_leaves_room("a RestApi", 55)
)]
#[x_kube(validation = rule::controller_named())]
#[serde(rename_all = "camelCase")]
pub struct RestApiSpec {
    /// The Controller, in the same namespace, that slurmrestd talks to.
    pub controller_ref: LocalRef,
    /// How many slurmrestd pods to run.
    #[serde(default = "one")]
    #[x_kube(validation = rule::not_negative("replicas"))]
    pub replicas: i32,
    /// The slurmrestd container: a Kubernetes Container, merged over the one that the operator generates. `image` is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurmrestd: Option<Raw>,
    /// Pod template of slurmrestd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplate>,
    /// The Service of slurmrestd, `<name>-restapi`, on port 6820.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceTemplate>,
}

fn one() -> i32 {
    1
}

/// What was last seen of a RestApi.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RestApiStatus {
    /// Whether slurmrestd is up, and what it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
