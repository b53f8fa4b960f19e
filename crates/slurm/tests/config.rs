//! Our check against the verdicts that a real slurmctld 26.05 gave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap is a failed test")]

#[path = "corpus/cases.rs"]
mod cases;

use std::collections::BTreeSet;

use cases::Case;
use slipway_slurm::config::Severity;
use slipway_slurm::config::check::{Surroundings, check};

/// The machine on which the verdicts were recorded, as `tests/lab/config.sh` makes it.
fn surroundings() -> Surroundings {
    let set = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>());
    Surroundings {
        cluster_name: Some("c".to_owned()),
        controllers: vec!["ctl".to_owned()],
        slurmctld_port: Some(6817),
        slurm_user: Some("slurm".to_owned()),
        state_folder: Some("/var/spool/slurmctld".to_owned()),
        dynamic_nodes: true,
        paths: set(&["/lab/jwt.key", "/bin/true"]),
        groups: set(&["root", "slurm"]),
        names: set(&["ctl", "localhost"]),
        ..Surroundings::default()
    }
}

/// What a letter of the corpus means for us; `None`: slurmctld is content.
fn severity(letter: &str) -> Option<Severity> {
    match letter {
        "P" | "F" => Some(Severity::Fatal),
        "W" => Some(Severity::KillsWorkers),
        "H" => Some(Severity::Hangs),
        "E" => Some(Severity::Error),
        "U" => None,
        _ => panic!("no verdict: {letter}"),
    }
}

/// What is wrong with our verdict about a case.
fn difference(case: &Case) -> Option<String> {
    let findings = check(&case.files, &surroundings());
    let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
    let worst = findings.iter().map(|finding| finding.severity).min();
    let real = case.ours.as_deref().map_or_else(|| severity(&case.real.0), |ours| severity(ours.split(' ').next().unwrap()));
    let right = match (real, &case.silent) {
        (None, None) => worst.is_none(),
        (None, Some(words)) => worst == Some(Severity::Silent) && told.iter().any(|told| told.contains(words)),
        (Some(real), _) => worst == Some(real),
    };
    (!right).then(|| format!("{}: slurmctld {:?}, we {told:#?}", case.name, case.real))
}

#[test]
fn our_verdict_is_that_of_a_real_slurmctld_for_each_case_of_the_corpus() {
    let cases = cases::read(include_str!("corpus/config.txt"));
    assert!(cases.len() >= 200, "{} cases", cases.len());
    let differing: Vec<String> = cases.iter().filter_map(difference).collect();
    assert!(differing.is_empty(), "{} of {}:\n{}", differing.len(), cases.len(), differing.join("\n"));
}

#[test]
fn every_finding_names_its_place_and_ends_with_what_to_do() {
    for case in cases::read(include_str!("corpus/config.txt")) {
        for finding in check(&case.files, &surroundings()) {
            let lines = case.files.get(&finding.file).unwrap().lines().count();
            assert!(finding.line <= lines, "{}: {finding}", case.name);
            assert!(!finding.message.contains('\n') && finding.message.len() < 400, "{}: {finding}", case.name);
            assert!(finding.message.contains(": ") || finding.message.contains("; "), "{}: {finding}", case.name);
        }
    }
}
