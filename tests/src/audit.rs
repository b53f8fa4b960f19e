//! Writes in an API server's audit log: the user, the object and the response.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
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
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    pub code: i64,
}

/// Reads a bed's audit log from a point in time on. Of the scenarios' namespaces it reads only those of one scenario.
pub struct Audit {
    path: PathBuf,
    /// End of the log at that time.
    from: u64,
    /// The namespaces of this scenario.
    ours: BTreeSet<String>,
}

/// Namespaces that belong to no scenario: writes there count for every scenario.
const COMMON: [&str; 4] = ["", "default", "kube-system", "slipway-system"];

impl Audit {
    /// Starts now: earlier writes are not counted.
    pub fn from_now(bed: &Bed, ours: impl IntoIterator<Item = String>) -> Self {
        let path = bed.layout().audit_log();
        let from = path.metadata().map_or(0, |found| found.len());
        Self { path, from, ours: ours.into_iter().collect() }
    }

    /// The writes of one user since then, without leases: holding a lease means writing it.
    pub fn writes_of(&self, user: &str) -> Vec<Write> {
        self.writes().into_iter().filter(|write| write.user == user && write.resource != "leases").collect()
    }

    /// The writes of one user, without status and events.
    pub fn acts_of(&self, user: &str) -> Vec<Write> {
        let is_words = |write: &Write| write.resource.ends_with("/status") || write.resource == "events";
        self.writes_of(user).into_iter().filter(|write| !is_words(write)).collect()
    }

    fn writes(&self) -> Vec<Write> {
        let mut bytes = Vec::new();
        // A log that cannot be read has no lines, so a test that expects a write fails.
        let _ = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.from))?;
            file.read_to_end(&mut bytes)
        });
        String::from_utf8_lossy(&bytes).lines().filter_map(parse).filter(|write| self.concerns(write)).collect()
    }

    fn concerns(&self, write: &Write) -> bool {
        self.ours.contains(&write.namespace) || COMMON.contains(&write.namespace.as_str())
    }
}

fn parse(line: &str) -> Option<Write> {
    let event: Value = serde_json::from_str(line).ok()?;
    if event["verb"] == "get" || event["verb"] == "list" {
        return None;
    }
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

    #[test]
    fn writes_in_the_namespaces_of_other_scenarios_are_theirs() {
        let path = std::env::temp_dir().join(format!("slipway-audit-{}.log", std::process::id()));
        let line =
            |namespace: &str| format!(r#"{{"user":{{"username":"me"}},"objectRef":{{"resource":"pods","namespace":"{namespace}"}}}}"#);
        let lines = ["ours", "ours", "theirs", "kube-system", ""].map(|namespace| line(namespace) + "\n");
        std::fs::write(&path, lines.concat()).unwrap();
        let from = u64::try_from(lines[0].len()).unwrap();
        let audit = Audit { path: path.clone(), from, ours: BTreeSet::from(["ours".to_owned()]) };
        let namespaces: Vec<String> = audit.writes_of("me").into_iter().map(|write| write.namespace).collect();
        assert_eq!(namespaces, ["ours", "kube-system", ""]);
        std::fs::remove_file(&path).unwrap();
    }
}
