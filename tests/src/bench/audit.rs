//! Requests of the operator in the API server's audit log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::slurm::OPERATOR_USER;

/// The log from a point on.
pub(super) struct Audit {
    path: PathBuf,
    from: u64,
}

/// Number of requests, by verb and resource, such as `patch pods/status`.
pub(super) type Requests = BTreeMap<String, u64>;

impl Audit {
    pub(super) fn from_now(path: &Path) -> Self {
        Self { path: path.to_owned(), from: path.metadata().map_or(0, |found| found.len()) }
    }

    /// Requests of the operator since then.
    pub(super) fn requests(&self) -> Requests {
        let mut bytes = Vec::new();
        // A log that cannot be read has no lines.
        let _ = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.from))?;
            file.read_to_end(&mut bytes)
        });
        let mut counts = Requests::new();
        for request in String::from_utf8_lossy(&bytes).lines().filter(|line| line.contains(OPERATOR_USER)).filter_map(request) {
            *counts.entry(request).or_default() += 1;
        }
        counts
    }
}

/// Verb and resource of a line, without those on leases: holding one means writing it.
fn request(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    let (verb, object) = (event["verb"].as_str()?, &event["objectRef"]);
    let resource = object["resource"].as_str().filter(|resource| *resource != "leases")?;
    Some(match object["subresource"].as_str() {
        Some(sub) => format!("{verb} {resource}/{sub}"),
        None => format!("{verb} {resource}"),
    })
}

const READS: [&str; 3] = ["get ", "list ", "watch "];

fn is_read(request: &str) -> bool {
    READS.iter().any(|verb| request.starts_with(verb))
}

pub(super) fn writes(requests: &Requests) -> u64 {
    requests.iter().filter(|(request, _)| !is_read(request)).map(|(_, count)| count).sum()
}

/// Reads of single objects and lists; a watch is not one.
pub(super) fn reads(requests: &Requests) -> u64 {
    requests.iter().filter(|(request, _)| is_read(request) && !request.starts_with("watch")).map(|(_, count)| count).sum()
}

/// Requests that contain this text.
pub(super) fn of(requests: &Requests, part: &str) -> u64 {
    requests.iter().filter(|(request, _)| request.contains(part)).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_told_apart() {
        let line = |verb: &str, resource: &str| format!(r#"{{"verb":"{verb}","objectRef":{{"resource":"{resource}"}}}}"#);
        let counts: Requests = [("get", "secrets"), ("patch", "pods"), ("watch", "pods"), ("update", "leases")]
            .iter()
            .filter_map(|(verb, resource)| Some((request(&line(verb, resource))?, 1)))
            .collect();
        assert_eq!((writes(&counts), reads(&counts), of(&counts, "secrets")), (1, 1, 1), "{counts:?}");
    }
}
