//! Seeds: the corpora and recorded responses of the tests, in each target's format.

use std::path::{Path, PathBuf};

use serde_json::Value;
use slipway_slurm::rest::Version;

use super::PART;
use super::config::FILES;
use super::rest::{Asked, input};

#[path = "../../tests/corpus/cases.rs"]
#[allow(dead_code, reason = "verdicts are of no use here")]
mod cases;

/// File name and content.
pub type Seed = (String, Vec<u8>);

/// Writes seeds into the folder in `SEEDS`, before the engine reads it.
pub fn write(seeds: Vec<Seed>) {
    let folder = PathBuf::from(std::env::var_os("SEEDS").expect("SEEDS names the folder of the corpus"));
    for (name, seed) in seeds {
        std::fs::write(folder.join(name), seed).expect("a folder that can be written");
    }
}

/// Each expression of the corpus, with the next one as the second part.
pub fn hostlists() -> Vec<Seed> {
    let lines = include_str!("../../tests/corpus/hostlist.tsv").lines().filter(|line| !line.starts_with('#'));
    let expressions: Vec<String> =
        lines.map(|line| line.split('\t').next().unwrap_or_default().replace("\\t", "\t").replace("\\n", "\n")).collect();
    let pairs = expressions.iter().zip(expressions.iter().cycle().skip(1));
    let inputs = pairs.map(|(one, other)| [one.as_bytes(), &[PART], other.as_bytes()].concat());
    inputs.enumerate().map(|(index, input)| (format!("corpus-{index}"), input)).collect()
}

pub fn configs() -> Vec<Seed> {
    let corpora =
        [("slurm.conf", include_str!("../../tests/corpus/config.txt")), ("slurmdbd.conf", include_str!("../../tests/corpus/slurmdbd.txt"))];
    let cases = corpora.into_iter().flat_map(|(main, text)| cases::read(text, main).into_iter().map(move |case| (main, case)));
    let seed = |(main, case): (&str, cases::Case)| {
        let texts = FILES.map(|name| case.files.get(name).cloned().unwrap_or_default().into_bytes());
        (format!("{main}-{}", case.name), texts.join(&PART))
    };
    cases.map(seed).collect()
}

/// The recorded responses, each for its call.
pub fn answers() -> Vec<Seed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = if folder.ends_with("fuzz") { folder.join("../tests/fixtures") } else { folder.join("tests/fixtures") };
    let mut seeds = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the recorded answers").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let recorded: Value = serde_json::from_slice(&std::fs::read(entry.path()).expect("a recorded answer")).expect("JSON");
        let (number, what) = name.trim_start_matches('v').trim_end_matches(".json").split_once('-').expect("v45-what.json");
        let version = Version::parse(&format!("v0.0.{number}")).unwrap_or(Version::V45);
        let body = match &recorded["body"] {
            Value::String(text) => text.clone().into_bytes(),
            json => serde_json::to_vec(json).expect("JSON"),
        };
        let status = recorded["status"].as_u64().and_then(|status| u16::try_from(status).ok()).expect("a status");
        let is_json = recorded["content_type"] == "application/json";
        seeds.push((name.clone(), input(version, asked(what), status, is_json, &body)));
    }
    seeds.sort();
    seeds
}

/// The call of the recorded response of this name.
fn asked(what: &str) -> Asked {
    match what {
        "nodes" | "nodes-unchanged" | "token-refused" => Asked::Nodes,
        "node-absent" => Asked::Node,
        "jobs" | "jobs-unchanged" => Asked::Jobs,
        "jobs-state" => Asked::JobStates,
        "job-absent" => Asked::Job,
        "cancel-absent" => Asked::Cancel,
        "submitted-held" => Asked::Submit,
        "partitions" => Asked::Partitions,
        "partition-absent" => Asked::Partition,
        "reservations" => Asked::Reservations,
        "reservation-absent" => Asked::Reservation,
        "reserved" => Asked::WriteReservation,
        "delete-busy" => Asked::DeleteNode,
        "diag" => Asked::Diag,
        "conf" => Asked::Conf,
        "job-updated" | "job-update-absent" => Asked::UpdateJob,
        "requeue-pending" | "requeue-absent" => Asked::Requeue,
        "partition-write-refused" => Asked::WritePartition,
        "partition-delete-absent" => Asked::DeletePartition,
        "resume-idle" | "update-absent" => Asked::UpdateNodes,
        _ => Asked::Ping,
    }
}
