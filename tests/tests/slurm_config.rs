//! The committed corpora of hostlists and configurations against the real programs: what we call right and wrong is what they do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap is a failed test")]

#[path = "../../crates/slurm/tests/corpus/cases.rs"]
mod cases;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use slipway_bed::cache::Cache;
use slipway_slurm::hostlist::{HostSet, Hostlist, compress};
use slipway_tests::cluster::project_root;
use slipway_tests::expression::expressions;
use slipway_tests::lab::Lab;

/// Set to write what the real programs answered into the corpora.
fn records() -> bool {
    std::env::var_os("SLIPWAY_RECORD").is_some()
}

fn corpus(name: &str) -> PathBuf {
    project_root().join("crates/slurm/tests/corpus").join(name)
}

fn lab() -> Lab {
    Lab::open(&Cache::open().unwrap()).unwrap()
}

/// A text as one word that the shell's `printf %b` turns back into it.
fn printf_word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"=/_.,-".contains(&byte);
    let mut word = String::new();
    for byte in text.bytes() {
        if plain(byte) { word.push(char::from(byte)) } else { write!(word, "\\0{byte:03o}").unwrap() }
    }
    word
}

#[test]
fn a_real_slurmctld_gives_each_configuration_of_the_corpus_the_recorded_verdict() {
    let text = fs::read_to_string(corpus("config.txt")).unwrap();
    let cases = cases::read(&text);
    let mut input = String::new();
    for case in &cases {
        for (file, content) in &case.files {
            writeln!(input, "{} {file} {}", case.name, printf_word(content)).unwrap();
        }
    }
    let started = Instant::now();
    let answers = lab().run(include_str!("../lab/config.sh"), &input).unwrap();
    eprintln!("{} configurations in {:.1} s", cases.len(), started.elapsed().as_secs_f32());
    let verdicts: BTreeMap<&str, (&str, &str)> = answers
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.splitn(3, '\t').collect();
            (fields[0], (fields[1], fields[2]))
        })
        .collect();
    if records() {
        let mut name = "";
        let lines = text.lines().map(|line| {
            name = line.strip_prefix("case ").unwrap_or(name);
            match verdicts.get(name) {
                Some((letter, message)) if line.starts_with("real ") => format!("real {letter} {message}").trim_end().to_owned(),
                _ => line.to_owned(),
            }
        });
        let text: String = lines.map(|line| line + "\n").collect();
        fs::write(corpus("config.txt"), text).unwrap();
        return;
    }
    let differing: Vec<String> = cases
        .iter()
        .filter_map(|case| match verdicts.get(case.name.as_str()) {
            Some((letter, _)) if *letter == case.real.0 => None,
            answer => Some(format!("{}: {answer:?} instead of {:?}", case.name, case.real)),
        })
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

/// Expressions that chance would not find.
const HOSTILE: &str = include_str!("../lab/hostile.txt");

#[test]
fn the_real_scontrol_reads_and_writes_lists_of_hosts_as_we_do() {
    let recorded = || fs::read_to_string(corpus("hostlist.tsv")).unwrap();
    let asked: Vec<String> = if records() {
        HOSTILE.lines().map(str::to_owned).chain(expressions(1, 400)).collect()
    } else {
        let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        eprintln!("seed {seed}");
        let known = recorded()
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split('\t').next().unwrap().to_owned())
            .collect::<Vec<_>>();
        known.into_iter().step_by(4).chain(expressions(seed, 200)).collect()
    };
    let answers = lab().run(include_str!("../lab/hostlist.sh"), &(asked.join("\n") + "\n")).unwrap();
    if records() {
        let marked = |line: &str| {
            let (expression, answer) = line.split_once('\t').unwrap();
            let ours = Hostlist::parse(&expression.replace("\\t", "\t").replace("\\n", "\n"));
            let mark = if ours.is_err() && !answer.starts_with('!') { "\tnarrower" } else { "" };
            format!("{line}{mark}\n")
        };
        let head = "# expression, names, list, sorted list (each name once) as scontrol 26.05 answered; ! is a refusal. `narrower`: we refuse it.\n";
        let text: String = std::iter::once(head.to_owned()).chain(answers.lines().map(marked)).collect();
        fs::write(corpus("hostlist.tsv"), text).unwrap();
        return;
    }
    let narrower: Vec<String> =
        recorded().lines().filter(|line| line.ends_with("\tnarrower")).map(|line| line.split('\t').next().unwrap().to_owned()).collect();
    let mut refused_alone = 0;
    for line in answers.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let text = fields[0].replace("\\t", "\t").replace("\\n", "\n");
        match (Hostlist::parse(&text), fields.as_slice()) {
            (Ok(list), [_, names, written, sorted]) => {
                let ours: Vec<String> = list.names().collect();
                assert_eq!(ours.join(" "), *names, "{line}");
                assert_eq!(compress(ours.iter().map(String::as_str)), *written, "{line}");
                assert_eq!(list.to_set(100_000).unwrap().to_string(), *sorted, "{line}");
                assert_eq!(ours.iter().map(String::as_str).collect::<HostSet>().to_string(), *sorted, "{line}");
            }
            (Ok(_), _) => panic!("scontrol refused what we take: {line}"),
            (Err(_), [_, _]) => {}
            (Err(_), _) if narrower.iter().any(|known| known == fields[0]) => {}
            (Err(why), _) => {
                // Chance spoils one in eight; most of those Slurm refuses too.
                refused_alone += 1;
                eprintln!("we alone refuse it: {why}");
            }
        }
    }
    assert!(refused_alone <= 30, "we alone refused {refused_alone} expressions");
}
