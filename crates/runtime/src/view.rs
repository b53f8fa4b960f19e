//! Slim views of objects that come in thousands.
//!
//! A full pod costs a hundred kilobytes of memory, most of it in fields that nobody here reads. A view keeps what is read. It is for
//! reading only: writing a view back would erase the rest.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize};

/// A pod, as far as the operator reads it.
#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
#[resource(inherit = Pod)]
pub struct PodView {
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub status: PodStatusView,
}

/// The status of a [`PodView`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatusView {
    #[serde(default)]
    pub phase: String,
    #[serde(default)]
    pub conditions: Vec<PodConditionView>,
    #[serde(default)]
    pub init_container_statuses: Vec<ContainerView>,
    #[serde(default)]
    pub container_statuses: Vec<ContainerView>,
}

/// A condition of a [`PodView`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PodConditionView {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    #[serde(default)]
    pub message: Option<String>,
}

/// A container of a [`PodView`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ContainerView {
    pub name: String,
    #[serde(default)]
    pub state: ContainerStateView,
}

/// What a container of a [`PodView`] is doing, when it is not running.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ContainerStateView {
    #[serde(default)]
    pub waiting: Option<WaitingView>,
}

/// Why a container of a [`PodView`] waits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WaitingView {
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub message: Option<String>,
}

impl PodView {
    pub fn is_ready(&self) -> bool {
        self.status.phase == "Running" && self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Whether its containers ended and will not come back.
    pub fn is_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Failed" | "Succeeded")
    }

    pub fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// What keeps the pod from running, in words: why it has no node, or why a container waits.
    pub fn trouble(&self) -> Option<String> {
        let unscheduled = self.condition("PodScheduled").filter(|condition| condition.status == "False");
        if let Some(condition) = unscheduled {
            return Some(condition.message.clone().unwrap_or_else(|| "no node was found for it".to_owned()));
        }
        let mut containers = self.status.init_container_statuses.iter().chain(&self.status.container_statuses);
        containers.find_map(ContainerView::trouble)
    }

    fn condition(&self, type_: &str) -> Option<&PodConditionView> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

impl ContainerView {
    fn trouble(&self) -> Option<String> {
        let WaitingView { reason, message } = self.state.waiting.as_ref()?;
        let reason = reason.as_deref().filter(|reason| !matches!(*reason, "ContainerCreating" | "PodInitializing"))?;
        let detail = message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
        Some(format!("container {} waits: {reason}{detail}", self.name))
    }
}

/// Reads the few metadata fields that are used and leaves the heavy ones (`managedFields`, annotations) unread.
fn slim<'de, D: Deserializer<'de>>(input: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Slim {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        labels: Option<BTreeMap<String, String>>,
        owner_references: Option<Vec<OwnerReference>>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
    }
    let Slim { name, namespace, uid, resource_version, labels, owner_references, creation_timestamp, deletion_timestamp } =
        Slim::deserialize(input)?;
    Ok(ObjectMeta {
        name,
        namespace,
        uid,
        resource_version,
        labels,
        owner_references,
        creation_timestamp,
        deletion_timestamp,
        ..ObjectMeta::default()
    })
}

#[cfg(test)]
mod tests;
