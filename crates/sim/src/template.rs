//! Shape of every object per version, recorded from a real server, so that no field is missing or invented.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};
use slipway_slurm::rest::Version;

/// One object of each kind in one version.
#[derive(Clone, Debug)]
pub struct Shapes {
    pub node: Map<String, Value>,
    pub job: Map<String, Value>,
    pub partition: Map<String, Value>,
    pub reservation: Map<String, Value>,
    pub ping: Map<String, Value>,
    pub statistics: Map<String, Value>,
    pub meta: Map<String, Value>,
}

/// Fields of one object that differ from the recorded one. A version without a field does not show it.
pub type Fields = Vec<(&'static str, Value)>;

/// Renders many objects of one shape. Fields that are the same in all are rendered once: there may be 50,000 of them.
pub struct Mold<'a> {
    shape: &'a Map<String, Value>,
    /// Names of the fields that differ.
    own: Vec<&'static str>,
    /// The others, as text.
    common: String,
}

impl<'a> Mold<'a> {
    pub fn new(shape: &'a Map<String, Value>) -> Self {
        Self { shape, own: Vec::new(), common: String::new() }
    }

    pub fn render(&mut self, fields: &Fields) -> String {
        if !fields.iter().map(|(key, _)| key).eq(&self.own) {
            self.own = fields.iter().map(|(key, _)| *key).collect();
            self.common.clear();
            for (key, value) in self.shape.iter().filter(|(key, _)| !self.own.contains(&key.as_str())) {
                let _ = write!(self.common, "\"{key}\":{value},");
            }
        }
        let mut text = format!("{{{}", self.common);
        for (key, value) in fields.iter().filter(|(key, _)| self.shape.contains_key(*key)) {
            let _ = write!(text, "\"{key}\":{value},");
        }
        // Every shape has fields.
        text.pop();
        text.push('}');
        text
    }
}

macro_rules! recorded {
    ($version:literal) => {
        shapes([
            include_str!(concat!("../../slurm/tests/fixtures/", $version, "-nodes.json")),
            include_str!(concat!("../../slurm/tests/fixtures/", $version, "-jobs.json")),
            include_str!(concat!("../../slurm/tests/fixtures/", $version, "-partitions.json")),
            include_str!(concat!("../../slurm/tests/fixtures/", $version, "-reservations.json")),
            include_str!(concat!("../../slurm/tests/fixtures/", $version, "-ping.json")),
            include_str!(concat!("../../slurm/tests/fixtures/", $version, "-diag.json")),
        ])
    };
}

/// The shapes of all versions.
pub fn all() -> BTreeMap<Version, Shapes> {
    let all = [
        (Version::V42, recorded!("v42")),
        (Version::V43, recorded!("v43")),
        (Version::V44, recorded!("v44")),
        (Version::V45, recorded!("v45")),
    ];
    all.into_iter().collect()
}

fn shapes([nodes, jobs, partitions, reservations, pings, diag]: [&str; 6]) -> Shapes {
    Shapes {
        node: first(nodes, "nodes"),
        job: first(jobs, "jobs"),
        partition: first(partitions, "partitions"),
        reservation: first(reservations, "reservations"),
        ping: first(pings, "pings"),
        statistics: object(diag, "statistics"),
        meta: object(pings, "meta"),
    }
}

fn body(recorded: &str) -> Map<String, Value> {
    let whole: Value = serde_json::from_str(recorded).unwrap_or_default();
    whole["body"].as_object().cloned().unwrap_or_default()
}

fn object(recorded: &str, key: &str) -> Map<String, Value> {
    body(recorded).remove(key).and_then(|object| object.as_object().cloned()).unwrap_or_default()
}

/// `slurm_conf` and `slurm_conf_meta`; only the newest version has them.
pub fn conf() -> Map<String, Value> {
    let mut body = body(include_str!("../../slurm/tests/fixtures/v45-conf.json"));
    body.retain(|key, _| key.starts_with("slurm_conf"));
    body
}

fn first(recorded: &str, list: &str) -> Map<String, Value> {
    let mut body = body(recorded);
    let first = body.get_mut(list).and_then(Value::as_array_mut).and_then(|list| list.first_mut()).map(Value::take);
    first.and_then(|object| object.as_object().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Mold;

    #[test]
    fn a_mold_fills_in_the_fields_that_its_shape_has() {
        let shape = json!({"name": "recorded", "cpus": 1, "tls": {"a": [1]}});
        let mut mold = Mold::new(shape.as_object().unwrap());
        for name in ["a", "b\"c"] {
            let text = mold.render(&vec![("name", json!(name)), ("newer", json!(true))]);
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read, json!({"name": name, "cpus": 1, "tls": {"a": [1]}}));
        }
    }

    #[test]
    fn every_version_has_every_shape() {
        for (version, shapes) in super::all() {
            for (what, shape) in [
                ("node", &shapes.node),
                ("job", &shapes.job),
                ("partition", &shapes.partition),
                ("reservation", &shapes.reservation),
                ("ping", &shapes.ping),
                ("statistics", &shapes.statistics),
                ("meta", &shapes.meta),
            ] {
                assert!(shape.len() >= 3, "{version} has no {what}");
            }
        }
    }
}
