//! The committed corpora about generic resources against the real programs: the resources of a node, and if a job can use them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use slipway_bed::cache::Cache;
use slipway_bed::turn::Turn;
use slipway_tests::cluster::project_root;
use slipway_tests::lab::Lab;

/// The lines of a corpus, split into columns.
fn corpus(name: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(project_root().join("crates/slurm/tests/corpus").join(name)).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// A text as one word that the shell's `printf %b` decodes.
fn printf_word(text: &str) -> String {
    text.replace(' ', "\\0040").replace('\'', "\\0047")
}

/// Result of one case.
#[derive(Debug)]
struct Outcome {
    gres: String,
    state: String,
    reason: String,
    ran: String,
    found: String,
}

/// Starts a slurmctld and a slurmd for each case: GresTypes, gres.conf, Gres, and the request of a job.
fn try_all<'a>(cases: impl IntoIterator<Item = [&'a str; 4]>) -> BTreeMap<usize, Outcome> {
    let mut input = String::new();
    for (index, case) in cases.into_iter().enumerate() {
        let [types, conf, gres, job] = case.map(printf_word);
        writeln!(input, "{index:03} {types} {conf} {gres} {job}").unwrap();
    }
    let cache = Cache::open().unwrap();
    let _turn = Turn::take_blocking(&cache, 0).unwrap();
    let lab = Lab::open(&cache).unwrap();
    let answers = lab.run(include_str!("../../lab/gres.sh"), &input).unwrap();
    let outcome = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [case, gres, state, reason, ran, found] = fields[..] else { panic!("{line}") };
        let [gres, state, reason, ran, found] = [gres, state, reason, ran, found].map(str::to_owned);
        (case.parse().unwrap(), Outcome { gres, state, reason, ran, found })
    };
    answers.lines().map(outcome).collect()
}

#[test]
fn a_real_slurmd_reads_each_gres_of_the_corpus_as_recorded() {
    let lines = corpus("gres.tsv");
    let outcomes = try_all(lines.iter().map(|fields| ["fake", "-", fields[0].as_str(), "-"]));
    let differing: Vec<String> = lines
        .iter()
        .enumerate()
        .filter(|(index, fields)| outcomes[index].found != fields[1])
        .map(|(index, fields)| format!("{fields:?}: {:?}", outcomes[&index]))
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn real_nodes_get_the_recorded_resources_and_jobs_can_have_them() {
    let lines: Vec<Vec<String>> = corpus("gres_nodes.tsv").into_iter().filter(|fields| fields[0] == "0").collect();
    let outcomes = try_all(lines.iter().map(|fields| [&fields[2], &fields[3], &fields[4], &fields[7]].map(String::as_str)));
    let differing: Vec<String> = lines
        .iter()
        .enumerate()
        .filter(|(index, fields)| {
            let Outcome { gres, state, reason, ran, .. } = &outcomes[index];
            let is_refused = state.contains("INVALID_REG");
            *gres != fields[5] || *reason != fields[6] || *ran != fields[8] || is_refused != (fields[6] != "-")
        })
        .map(|(index, fields)| format!("{fields:?}: {:?}", outcomes[&index]))
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert!(lines.len() > 20, "{} lines", lines.len());
}
