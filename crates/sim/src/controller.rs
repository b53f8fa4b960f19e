//! slurmctld, as the stand-in shows it.

use serde_json::{Map, Value, json};

/// One configured controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerRecord {
    pub host: String,
    pub is_responding: bool,
}

impl ControllerRecord {
    pub fn new(host: &str) -> Self {
        Self { host: host.to_owned(), is_responding: true }
    }

    /// Its entry in a ping, in a version's shape; `place` is its position in the configuration.
    pub fn show(&self, place: usize, shape: &Map<String, Value>) -> Value {
        let mut shown = shape.clone();
        let mut put = |key: &str, value: Value| {
            if let Some(known) = shown.get_mut(key) {
                *known = value;
            }
        };
        put("hostname", json!(self.host));
        put("responding", json!(self.is_responding));
        put("primary", json!(place == 0));
        put("pinged", json!(if self.is_responding { "UP" } else { "DOWN" }));
        put("mode", json!(if place == 0 { "primary".to_owned() } else { format!("backup{place}") }));
        put("status", json!(if self.is_responding { "No error" } else { "Unable to contact slurm controller (connect failure)" }));
        Value::Object(shown)
    }
}

/// The configuration as a number: the one in the file, and the one that slurmctld has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    pub in_file: u64,
    pub in_force: u64,
    /// Time at which it was read.
    pub read_at: u64,
}
