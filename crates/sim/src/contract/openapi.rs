//! Checks the fields that we read and write against slurmrestd's own OpenAPI document.
//!
//! The client ignores missing fields and slurmrestd ignores unknown ones, so a renamed field would go unnoticed. The server's document shows it.

use serde::Serialize;
use serde_json::{Map, Value};
use slipway_slurm::rest::Version;
use slipway_slurm::rest::model::{
    ConfInForce, Job, JobSubmit, JobUpdate, Node, NodeState, NodeUpdate, Number, Partition, PartitionState, PartitionWrite, Ping,
    Reservation, ReservationWrite, Statistics,
};

/// Fields that only some versions have, with the first and the last of them.
const SOME: &[(&str, Version, Version)] = &[
    ("nodes/ get nodes.topology", Version::V43, Version::V45),
    ("nodes/ post topology_str", Version::V43, Version::V45),
    ("ping/ get pings.mode", Version::V42, Version::V44),
];

/// Fields that we read or write in this version and that its document lacks, and calls that it does not list.
pub fn undocumented(document: &Value, version: Version) -> Vec<String> {
    let mut check = Check { document, version, missing: Vec::new() };
    check.reads("nodes/", "nodes", &Node::default());
    check.reads("jobs/", "jobs", &Job::default());
    check.reads("partitions/", "partitions", &Partition::default());
    check.reads("reservations/", "reservations", &Reservation::default());
    check.reads("ping/", "pings", &Ping::default());
    check.reads("diag/", "statistics", &Statistics::default());
    check.writes("nodes/", "", &node_update());
    check.writes("job/submit", "job", &job_submit());
    check.writes("job/{job_id}", "", &job_update());
    if version.writes_reservations() {
        check.writes("reservation", "", &reservation_write());
    }
    if version.tells_its_configuration() {
        check.reads("conf", "slurm_conf_meta", &ConfInForce::default());
    }
    if version.writes_partitions() {
        let write = PartitionWrite { node_sets: Some(String::new()), ..PartitionWrite::state("p", PartitionState::Up) };
        check.writes("partitions/", "partitions", &write);
    }
    check.missing
}

struct Check<'a> {
    document: &'a Value,
    version: Version,
    missing: Vec<String>,
}

impl Check<'_> {
    fn reads(&mut self, path: &str, key: &str, sample: &impl Serialize) {
        let answer = self.of(path, "get", &["responses", "200"]);
        self.compare(&format!("{path} get"), &answer, key, sample);
    }

    fn writes(&mut self, path: &str, key: &str, sample: &impl Serialize) {
        let body = self.of(path, "post", &["requestBody"]);
        self.compare(&format!("{path} post"), &body, key, sample);
    }

    /// Schema of an answer or a request body.
    fn of(&self, path: &str, method: &str, way: &[&str]) -> Value {
        let operation = &self.document["paths"][format!("/slurm/{}/{path}", self.version)][method];
        way.iter().fold(operation, |value, step| &value[*step])["content"]["application/json"]["schema"].clone()
    }

    fn compare(&mut self, what: &str, schema: &Value, key: &str, sample: &impl Serialize) {
        let (mut schema, mut what) = (self.object(schema), what.to_owned());
        if key.is_empty() {
            what.push(' ');
        } else {
            schema = self.object(&schema["properties"][key]);
            what = format!("{what} {key}.");
        }
        if let Ok(Value::Object(sample)) = serde_json::to_value(sample) {
            self.fields(&what, &schema, &sample);
        }
    }

    fn fields(&mut self, what: &str, schema: &Value, sample: &Map<String, Value>) {
        for (name, value) in sample {
            let path = format!("{what}{name}");
            let is_here = SOME.iter().all(|(some, first, last)| *some != path || (*first <= self.version && self.version <= *last));
            match (schema["properties"].get(name), value) {
                (None, _) if is_here => self.missing.push(format!("{} {path}", self.version)),
                (Some(inner), Value::Object(fields)) => {
                    let inner = self.object(inner);
                    // A number that we write wrapped may be bare in the schema: slurmrestd reads both.
                    if inner["properties"].is_object() {
                        self.fields(&format!("{path}."), &inner, fields);
                    }
                }
                _ => {}
            }
        }
    }

    /// Resolves references, and goes from a list to its elements.
    fn object(&self, schema: &Value) -> Value {
        let mut schema = schema.clone();
        while let Some(next) = match (schema["$ref"].as_str(), &schema["items"]) {
            (Some(reference), _) => self.document.pointer(reference.trim_start_matches('#')).cloned(),
            (None, Value::Null) => None,
            (None, items) => Some(items.clone()),
        } {
            schema = next;
        }
        schema
    }
}

/// An update with every writable field set.
fn node_update() -> NodeUpdate {
    NodeUpdate {
        state: [NodeState::Drain].into(),
        reason: Some(String::new()),
        comment: Some(String::new()),
        extra: Some(String::new()),
        features: Some(Vec::new()),
        active_features: Some(Vec::new()),
        address: Some(["10.0.0.1".into()]),
        topology: Some(String::new()),
        weight: Some(Number::Unset),
    }
}

fn job_submit() -> JobSubmit {
    JobSubmit {
        name: String::new(),
        partition: Some(String::new()),
        script: String::new(),
        current_working_directory: String::new(),
        environment: Vec::new(),
        minimum_nodes: Some(1),
        required_nodes: vec![String::new()],
        time_limit: Some(Number::Unset),
        hold: Some(true),
        comment: Some(String::new()),
    }
}

fn job_update() -> JobUpdate {
    JobUpdate {
        time_limit: Some(Number::Unset),
        hold: Some(true),
        partition: Some(String::new()),
        comment: Some(String::new()),
        admin_comment: Some(String::new()),
    }
}

fn reservation_write() -> ReservationWrite {
    ReservationWrite {
        name: String::new(),
        start_time: Some(Number::Unset),
        duration: Some(Number::Unset),
        end_time: Some(Number::Unset),
        node_list: vec![String::new()],
        users: vec![String::new()],
        flags: vec![String::new()],
        comment: Some(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_the_document_lost_is_named() {
        let of_nodes = |field: &str| {
            let nodes = json!({"type": "array", "items": {"$ref": "#/components/schemas/node"}});
            let schema = json!({"properties": {"nodes": nodes}});
            json!({
                "paths": {"/slurm/v0.0.45/nodes/": {"get": {"responses": {"200": {"content": {"application/json": {"schema": schema}}}}}}},
                "components": {"schemas": {"node": {"properties": {field: {"type": "string"}}}}},
            })
        };
        let lost = "v0.0.45 nodes/ get nodes.name".to_owned();
        assert!(!undocumented(&of_nodes("name"), Version::V45).contains(&lost));
        assert!(undocumented(&of_nodes("renamed"), Version::V45).contains(&lost));
        assert!(undocumented(&json!({}), Version::V42).contains(&"v0.0.42 nodes/ post state".to_owned()));
    }

    #[test]
    fn what_only_some_versions_have_is_not_missed_in_the_others() {
        for version in Version::NEWEST_FIRST {
            let missing = undocumented(&json!({}), version);
            let mode = format!("{version} ping/ get pings.mode");
            assert_eq!(missing.contains(&mode), version < Version::V45, "{missing:?}");
        }
    }
}
