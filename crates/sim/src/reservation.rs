//! Reservations of the stand-in.

use serde_json::{Map, Value, json};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationRecord {
    pub name: String,
    pub nodes: Vec<String>,
    pub users: Vec<String>,
    pub flags: Vec<String>,
    pub start: u64,
    pub end: u64,
}

impl ReservationRecord {
    pub fn is_active(&self, now: u64) -> bool {
        self.start <= now && now < self.end
    }

    /// The record in a version's shape.
    pub fn show(&self, shape: &Map<String, Value>) -> Value {
        let mut shown = shape.clone();
        let number = |number: u64| json!({"set": true, "infinite": false, "number": number});
        let mut put = |key: &str, value: Value| {
            if let Some(place) = shown.get_mut(key) {
                *place = value;
            }
        };
        let mut flags = self.flags.clone();
        if !flags.iter().any(|flag| flag == "SPEC_NODES") {
            flags.push("SPEC_NODES".to_owned());
        }
        put("name", json!(self.name));
        put("node_list", json!(slipway_slurm::hostlist::compress(self.nodes.iter().map(String::as_str))));
        put("node_count", json!(self.nodes.len()));
        put("users", json!(self.users.join(",")));
        put("flags", json!(flags));
        put("start_time", number(self.start));
        put("end_time", number(self.end));
        Value::Object(shown)
    }
}
