//! Partitions, as far as an operator reads them.

use serde::{Deserialize, Serialize};

use super::flag::{Flags, flags};
use super::lenient;

flags! {
    PartitionState { Inactive = "INACTIVE", Unknown = "UNKNOWN", Up = "UP", Down = "DOWN", Drain = "DRAIN" }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Partition {
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    #[serde(deserialize_with = "lenient::text")]
    pub node_sets: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub nodes: PartitionNodes,
    #[serde(deserialize_with = "lenient::or_default")]
    pub partition: PartitionStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct PartitionNodes {
    /// A hostlist expression.
    #[serde(deserialize_with = "lenient::text")]
    pub configured: String,
    #[serde(deserialize_with = "lenient::wide")]
    pub total: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct PartitionStatus {
    pub state: Flags<PartitionState>,
}

/// Creates a partition, or changes the one of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartitionWrite {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_sets: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionStatus>,
}

impl PartitionWrite {
    /// Sets the state of a partition.
    pub fn state(name: impl Into<String>, state: PartitionState) -> Self {
        Self { name: name.into(), node_sets: None, partition: Some(PartitionStatus { state: [state].into() }) }
    }
}
