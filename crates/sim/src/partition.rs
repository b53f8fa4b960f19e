//! Partitions of the stand-in.

use serde_json::{Map, Value, json};

/// A partition: all nodes with one feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRecord {
    pub name: String,
    /// Feature of its nodes.
    pub node_set: String,
    pub state: String,
    /// True if it is in slurm.conf, with state UP; others are removed by the next reconfigure.
    pub is_in_file: bool,
}

impl PartitionRecord {
    /// A partition from slurm.conf: the nodes with the feature of its name.
    pub fn in_file(name: &str) -> Self {
        Self { name: name.to_owned(), node_set: name.to_owned(), state: "UP".to_owned(), is_in_file: true }
    }

    /// The record in a version's shape, with its members.
    pub fn show(&self, shape: &Map<String, Value>, members: &[&str]) -> Value {
        let mut shown = shape.clone();
        let configured = slipway_slurm::hostlist::compress(members.iter().copied());
        shown.insert("name".to_owned(), json!(self.name));
        shown.insert("node_sets".to_owned(), json!(self.node_set));
        shown.insert("nodes".to_owned(), json!({"allowed_allocation": "", "configured": configured, "total": members.len()}));
        if let Some(state) = shown.get_mut("partition").and_then(|partition| partition.get_mut("state")) {
            *state = json!([self.state]);
        }
        Value::Object(shown)
    }
}
