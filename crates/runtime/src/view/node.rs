//! Kubernetes nodes.

use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize};
use slipway_api::annotation;

/// Annotations that are read; all others are dropped.
const ANNOTATIONS: [&str; 4] = [annotation::NODE_CORDON_REASON, annotation::HOSTNAME_OVERRIDE, annotation::TOPOLOGY, annotation::FEATURES];

/// A Kubernetes node, reduced to what the operator reads. Most of a full node is a list of images.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = Node)]
pub struct NodeView {
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: NodeSpecView,
    #[serde(default)]
    pub status: NodeStatusView,
}

/// The spec of a [`NodeView`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeSpecView {
    /// True if the node is cordoned.
    #[serde(default)]
    pub unschedulable: bool,
    #[serde(default)]
    pub taints: Vec<TaintView>,
}

/// A taint of a [`NodeView`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaintView {
    pub key: String,
    #[serde(default)]
    pub value: Option<String>,
    pub effect: String,
}

/// The status of a [`NodeView`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeStatusView {
    #[serde(default)]
    pub conditions: Vec<NodeConditionView>,
}

/// A condition of a [`NodeView`], without the heartbeat, which changes every few minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeConditionView {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub message: Option<String>,
}

impl NodeView {
    /// The condition of this type, if its status is `True`.
    pub fn true_condition(&self, type_: &str) -> Option<&NodeConditionView> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
    }
}

fn slim<'de, D: Deserializer<'de>>(input: D) -> Result<ObjectMeta, D::Error> {
    super::slim(input, &ANNOTATIONS)
}

#[cfg(test)]
mod tests;
