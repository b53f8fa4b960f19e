//! The committed corpora of hostlists and configurations against the real programs: our verdicts have to match theirs.

#[path = "../../../crates/slurm/tests/corpus/cases.rs"]
mod cases;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use self::cases::Case;
use slipway_bed::cache::Cache;
use slipway_bed::turn::Turn;
use slipway_slurm::hostlist::{HostSet, Hostlist, compress};
use slipway_tests::cluster::project_root;
use slipway_tests::expression::expressions;
use slipway_tests::lab::Lab;

/// The cases to record, or `None` to compare. `SLIPWAY_RECORD=jwks` runs the cases that have `jwks` in their name and writes the answers of the real
/// programs into the corpora; an empty value does so for all.
fn records() -> Option<String> {
    std::env::var("SLIPWAY_RECORD").ok()
}

fn corpus(name: &str) -> PathBuf {
    project_root().join("crates/slurm/tests/corpus").join(name)
}

/// A lab and the turn that it takes, once the machine has room for its many short runs.
fn lab() -> (Lab, Turn) {
    let cache = Cache::open().unwrap();
    let turn = Turn::take_blocking(&cache, 0).unwrap();
    (Lab::open(&cache).unwrap(), turn)
}

/// A text as one word that the shell's `printf %b` decodes.
fn printf_word(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"=/_.,-".contains(&byte);
    let mut word = String::new();
    for byte in text.bytes() {
        if plain(byte) { word.push(char::from(byte)) } else { write!(word, "\\0{byte:03o}").unwrap() }
    }
    word
}

/// Runs the cases of a corpus, or those to be recorded, and compares the daemon's verdicts with the recorded ones, or records them.
fn compare(name: &str, main: &str, script: &str) {
    let text = fs::read_to_string(corpus(name)).unwrap();
    let recorded = records();
    let wanted = recorded.clone().unwrap_or_default();
    let cases: Vec<Case> = cases::read(&text, main).into_iter().filter(|case| case.name.contains(&wanted)).collect();
    let mut input = String::new();
    for case in &cases {
        for (file, content) in &case.files {
            writeln!(input, "{} {file} {} {}", case.name, case.mode, printf_word(content)).unwrap();
        }
    }
    let (lab, _turn) = lab();
    let started = Instant::now();
    let answers = lab.run(script, &input).unwrap();
    eprintln!("{} configurations in {:.1} s", cases.len(), started.elapsed().as_secs_f32());
    let verdicts: BTreeMap<&str, (&str, &str)> = answers
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.splitn(3, '\t').collect();
            (fields[0], (fields[1], fields[2]))
        })
        .collect();
    if recorded.is_some() {
        let mut case = "";
        let lines = text.lines().map(|line| {
            case = line.strip_prefix("case ").unwrap_or(case);
            match verdicts.get(case) {
                Some((letter, message)) if line.starts_with("real ") => format!("real {letter} {message}").trim_end().to_owned(),
                _ => line.to_owned(),
            }
        });
        let text: String = lines.map(|line| line + "\n").collect();
        fs::write(corpus(name), text).unwrap();
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

#[test]
fn a_real_slurmctld_gives_each_configuration_of_the_corpus_the_recorded_verdict() {
    compare("config.txt", "slurm.conf", include_str!("../../lab/config.sh"));
}

#[test]
fn a_real_slurmdbd_gives_each_configuration_of_the_corpus_the_recorded_verdict() {
    compare("slurmdbd.txt", "slurmdbd.conf", include_str!("../../lab/slurmdbd.sh"));
}

/// Words that the compiler split: slurmctld contains `rl_log_f` and compares the rest separately.
const IN_PIECES: [&str; 1] = ["rl_log_freq="];

#[test]
fn the_real_programs_know_each_word_of_our_table() {
    let table = fs::read_to_string(project_root().join("crates/slurm/src/conf_check/words.tsv")).unwrap();
    let mut input = String::new();
    let mut count = 0;
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        // Only slurmdbd reports these, and its corpus has them.
        for word in fields[2].split(' ').filter(|word| !IN_PIECES.contains(word) && fields[0] != "StorageParameters") {
            writeln!(input, "{} {} {word}", fields[0], fields[1]).unwrap();
            count += 1;
        }
    }
    // The script must find neither, or it finds everything.
    input.push_str("SchedulerParameters silent bf_nosuch=\nDebugFlags fatal Nosuch\n");
    let (lab, _turn) = lab();
    let unknown = lab.run(include_str!("../../lab/words.sh"), &input).unwrap();
    assert!(count > 300, "{count} words");
    let expected = "SchedulerParameters bf_nosuch=: in no program\nDebugFlags Nosuch: scontrol: error: Invalid DebugFlag: Nosuch\n";
    assert_eq!(unknown, expected);
}

/// Expressions that random generation would not find.
const HOSTILE: &str = include_str!("../../lab/hostile.txt");

#[test]
fn the_real_scontrol_reads_and_writes_lists_of_hosts_as_we_do() {
    let recorded = || fs::read_to_string(corpus("hostlist.tsv")).unwrap();
    let asked: Vec<String> = if records().is_some() {
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
    let (lab, _turn) = lab();
    let answers = lab.run(include_str!("../../lab/hostlist.sh"), &(asked.join("\n") + "\n")).unwrap();
    if records().is_some() {
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
                // One random expression in eight is spoiled; Slurm refuses most of those too.
                refused_alone += 1;
                eprintln!("we alone refuse it: {why}");
            }
        }
    }
    assert!(refused_alone <= 30, "we alone refused {refused_alone} expressions");
}
