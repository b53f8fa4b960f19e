//! Reservations of the stand-in.

use serde_json::{Map, Value, json};

/// Every known flag.
pub const FLAGS: [&str; 24] = [
    "MAINT",
    "IGNORE_JOBS",
    "HOURLY",
    "DAILY",
    "WEEKLY",
    "WEEKDAY",
    "WEEKEND",
    "FORCE_START",
    "ALL_NODES",
    "ANY_NODES",
    "FLEX",
    "MAGNETIC",
    "NO_HOLD_JOBS_AFTER_END",
    "NO_USER_DELETE",
    "OVERLAP",
    "PART_NODES",
    "PURGE_COMP",
    "REPLACE",
    "REPLACE_DOWN",
    "SKIP",
    "SPEC_NODES",
    "STATIC",
    "TIME_FLOAT",
    "USER_DELETE",
];

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

    /// Hours between two occurrences, or `None` if it does not recur; all days are treated alike.
    pub fn hours_apart(&self) -> Option<u64> {
        let recurring = [("HOURLY", 1), ("DAILY", 24), ("WEEKLY", 7 * 24), ("WEEKDAY", 24), ("WEEKEND", 24)];
        recurring.iter().find(|(flag, _)| self.flags.iter().any(|own| own == flag)).map(|(_, hours)| *hours)
    }

    /// True if it may begin in the past.
    pub fn is_forced(&self) -> bool {
        self.flags.iter().any(|flag| flag == "FORCE_START")
    }

    /// Moves a recurring reservation to its next occurrence; returns true if it has not ended.
    pub fn goes_on(&mut self, now: u64) -> bool {
        while let Some(hours) = self.hours_apart().filter(|_| self.end <= now) {
            self.start += hours * 3600;
            self.end += hours * 3600;
        }
        self.end > now
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
