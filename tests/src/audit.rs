//! What an API server wrote down about writes: who, what, and the answer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use slipway_bed::bed::Bed;

/// One write that reached an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub user: String,
    pub verb: String,
    /// The resource with its subresource, such as `pods/status`.
    pub resource: String,
    /// Empty for what belongs to the whole cluster.
    pub namespace: String,
    pub name: String,
    pub code: i64,
}

/// Reads a bed's audit log from a moment on.
pub struct Audit {
    path: PathBuf,
    skip: usize,
}

impl Audit {
    /// From now on: earlier writes are not counted.
    pub fn from_now(bed: &Bed) -> Self {
        let path = bed.layout().audit_log();
        let skip = lines(&path).len();
        Self { path, skip }
    }

    /// How many writes each user made since then.
    pub fn users(&self) -> BTreeMap<String, usize> {
        let mut users = BTreeMap::new();
        for write in self.writes() {
            *users.entry(write.user).or_default() += 1;
        }
        users
    }

    /// The writes of one user since then; leases are left out, because holding one is writing it.
    pub fn writes_of(&self, user: &str) -> Vec<Write> {
        self.writes().into_iter().filter(|write| write.user == user && write.resource != "leases").collect()
    }

    /// The writes of one user that changed more than what is said about an object: no status, no event.
    pub fn acts_of(&self, user: &str) -> Vec<Write> {
        let is_words = |write: &Write| write.resource.ends_with("/status") || write.resource == "events";
        self.writes_of(user).into_iter().filter(|write| !is_words(write)).collect()
    }

    fn writes(&self) -> Vec<Write> {
        lines(&self.path).into_iter().skip(self.skip).filter_map(|line| parse(&line)).collect()
    }
}

fn lines(path: &PathBuf) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn parse(line: &str) -> Option<Write> {
    let event: Value = serde_json::from_str(line).ok()?;
    let object = &event["objectRef"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = match object["subresource"].as_str() {
        Some(sub) => format!("{}/{sub}", text(&object["resource"])),
        None => text(&object["resource"]),
    };
    Some(Write {
        user: text(&event["user"]["username"]),
        verb: text(&event["verb"]),
        resource,
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        code: event["responseStatus"]["code"].as_i64().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_is_one_write() {
        let line = r#"{"verb":"patch","user":{"username":"me"},"objectRef":{"resource":"pods","subresource":"status","name":"w-0"},"responseStatus":{"code":200}}"#;
        let write = parse(line).unwrap();
        assert_eq!((write.user.as_str(), write.resource.as_str(), write.name.as_str(), write.code), ("me", "pods/status", "w-0", 200));
        assert_eq!(parse("not json"), None);
    }
}
