//! Writes of the operator in the API server's audit log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::OPERATOR_USER;

/// The operator's writes since a point in time. Parsed events are kept, so that each line is read once.
pub struct AuditLog {
    path: PathBuf,
    read: u64,
    writes: Vec<Value>,
}

impl AuditLog {
    /// The log from now on: on a shared server earlier entries belong to other tests.
    pub fn from_now(path: &Path) -> Self {
        let read = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        Self { path: path.to_owned(), read, writes: Vec::new() }
    }

    /// All writes so far that match `ours`.
    pub fn writes(&mut self, ours: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut added = Vec::new();
        if let Ok(mut file) = File::open(&self.path) {
            file.seek(SeekFrom::Start(self.read)).unwrap();
            file.read_to_end(&mut added).unwrap();
        }
        // The last line may be incomplete.
        let whole = added.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.read += u64::try_from(whole).unwrap();
        let events = String::from_utf8_lossy(&added[..whole])
            .lines()
            .filter(|line| line.contains(OPERATOR_USER))
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|event| event["user"]["username"] == OPERATOR_USER && !is_read(event) && ours(event))
            .collect::<Vec<_>>();
        self.writes.extend(events);
        self.writes.clone()
    }
}

fn is_read(event: &Value) -> bool {
    event["verb"] == "get" || event["verb"] == "list"
}
