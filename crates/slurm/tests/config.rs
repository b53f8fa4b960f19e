//! Our check, compared with the verdicts of a real slurmctld and a real slurmdbd of 26.05.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap is a failed test")]

#[path = "corpus/cases.rs"]
mod cases;

use std::collections::BTreeSet;

use cases::Case;
use slipway_slurm::conf_check::Severity;
use slipway_slurm::conf_check::check::{SlurmdbdPod, Surroundings, check};

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The machine on which slurmctld's verdicts were recorded, as `tests/lab/config.sh` creates it.
fn slurmctld(_: &Case) -> Surroundings {
    Surroundings {
        cluster_name: Some("c".to_owned()),
        controllers: vec!["ctl".to_owned()],
        slurmctld_port: Some(6817),
        slurm_user: Some("slurm".to_owned()),
        state_folder: Some("/var/spool/slurmctld".to_owned()),
        dynamic_nodes: true,
        paths: Some(set(&["/lab/jwt.key", "/bin/true"])),
        groups: Some(set(&["root", "slurm"])),
        names: Some(set(&["ctl", "localhost"])),
        ..Surroundings::default()
    }
}

/// The machine on which slurmdbd's verdicts were recorded, as `tests/lab/slurmdbd.sh` creates it.
fn slurmdbd(case: &Case) -> Surroundings {
    Surroundings {
        slurm_user: Some("slurm".to_owned()),
        slurmdbd: SlurmdbdPod { host: Some("dbd".to_owned()), port: Some(6819), mode: Some(u32::from_str_radix(&case.mode, 8).unwrap()) },
        paths: Some(set(&["/lab/jwt.key", "/dev", "/run/slurmdbd"])),
        names: Some(set(&["dbd", "db", "localhost"])),
        ..Surroundings::default()
    }
}

/// Every case with the machine on which its verdict was recorded.
fn corpora() -> Vec<(Case, Surroundings)> {
    let slurmctld = cases::read(include_str!("corpus/config.txt"), "slurm.conf").into_iter().map(|case| (slurmctld(&case), case));
    let slurmdbd = cases::read(include_str!("corpus/slurmdbd.txt"), "slurmdbd.conf").into_iter().map(|case| (slurmdbd(&case), case));
    slurmctld.chain(slurmdbd).map(|(around, case)| (case, around)).collect()
}

/// Severity of a letter in the corpus, or `None` if the daemon accepts the file.
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

/// Difference between our verdict about a case and the recorded one, or `None`.
fn difference(case: &Case, around: &Surroundings) -> Option<String> {
    let findings = check(&case.files, around);
    let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
    let worst = findings.iter().map(|finding| finding.severity).min();
    let real = case.ours.as_deref().map_or_else(|| severity(&case.real.0), |ours| severity(ours.split(' ').next().unwrap()));
    let right = match (real, &case.silent) {
        (None, None) => worst.is_none(),
        (None, Some(words)) => worst == Some(Severity::Silent) && told.iter().any(|told| told.contains(words)),
        (Some(real), _) => worst == Some(real),
    };
    (!right).then(|| format!("{}: real {:?}, we {told:#?}", case.name, case.real))
}

#[test]
fn our_verdict_is_that_of_the_real_daemons_for_each_case_of_the_corpora() {
    let corpora = corpora();
    assert!(corpora.len() >= 350, "{} cases", corpora.len());
    let differing: Vec<String> = corpora.iter().filter_map(|(case, around)| difference(case, around)).collect();
    assert!(differing.is_empty(), "{} of {}:\n{}", differing.len(), corpora.len(), differing.join("\n"));
}

#[test]
fn every_finding_names_its_place_and_ends_with_what_to_do() {
    for (case, around) in corpora() {
        for finding in check(&case.files, &around) {
            let lines = case.files.get(&finding.file).unwrap().lines().count();
            assert!(finding.line <= lines, "{}: {finding}", case.name);
            // Every finding has a line, except for missing settings and for the file as a whole.
            let whole = ["is missing", "no partition is the default", "is gone", "the file's mode"];
            let nowhere = lines == 0 || whole.iter().any(|words| finding.message.contains(words));
            assert!(finding.line > 0 || nowhere, "{}: {finding}", case.name);
            assert!(!finding.message.contains('\n') && finding.message.len() < 400, "{}: {finding}", case.name);
            assert!(finding.message.contains(": ") || finding.message.contains("; "), "{}: {finding}", case.name);
        }
    }
}

/// The line number in a message such as `Parse error in file slurm.conf line 24: "just words"`.
fn line_of(message: &str) -> Option<usize> {
    let (_, rest) = message.strip_prefix("error: Parse error in file ")?.split_once(" line ")?;
    rest.split(':').next()?.parse().ok()
}

#[test]
fn where_slurm_names_a_line_it_is_ours() {
    let named: Vec<(Case, Surroundings, usize)> =
        corpora().into_iter().filter_map(|(case, around)| line_of(&case.real.1).map(|line| (case, around, line))).collect();
    assert!(named.len() >= 4, "{} cases", named.len());
    for (case, around, line) in named {
        let findings = check(&case.files, &around);
        let there = findings.iter().any(|finding| (finding.severity, finding.line) == (Severity::Fatal, line));
        assert!(there, "{}: line {line} is not in {findings:#?}", case.name);
    }
}
