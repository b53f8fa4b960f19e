#![allow(unreachable_pub)] // the KubeSchema derive repeats each struct inside a function

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::{Metadata, Raw, rule, schema};

/// The user's share of a Service.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct ServiceTemplate {
    /// Labels and annotations of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// A Kubernetes ServiceSpec to start from, passed on field by field. The operator adds its port to `ports` and its labels to
    /// `selector`, and leaves out `externalIPs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Raw>,
    /// Port of the Service. Left out or 0, it is the port that the daemon itself listens on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    #[x_kube(validation = rule::port("service.port", "leave it out for the daemon's own port"))]
    pub port: Option<i32>,
    /// Port on every Kubernetes node, for a Service of type NodePort or LoadBalancer. Left out or 0, Kubernetes chooses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    #[x_kube(validation = rule::port("service.nodePort", "leave it out and Kubernetes chooses one"))]
    pub node_port: Option<i32>,
}
