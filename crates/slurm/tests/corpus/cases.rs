//! Reads `config.txt` and `slurmdbd.txt`; used by the pure tests and by those against the real daemons.

use std::collections::BTreeMap;
use std::fmt::Write;

/// One configuration and what a real daemon made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The letter and the message.
    pub(crate) real: (String, String),
    /// What is said although the daemon says nothing.
    pub(crate) silent: Option<String>,
    /// Our verdict and why, where it is not the recorded one.
    pub(crate) ours: Option<String>,
    /// Of each file, in octal.
    pub(crate) mode: String,
    /// The file that the corpus is about and what stands beside it.
    pub(crate) files: BTreeMap<String, String>,
}

/// All cases of the corpus about the file `main`; panics on a line that is none.
pub(crate) fn read(text: &str, main: &str) -> Vec<Case> {
    let mut base = Vec::new();
    let mut cases: Vec<Case> = Vec::new();
    let mut conf: Vec<String> = Vec::new();
    let mut file: Option<String> = None;
    for line in text.lines().chain(["case end-of-corpus"]) {
        if line.starts_with('#') || line.is_empty() || line == "base" {
            continue;
        }
        let (mark, rest) = line.split_once(' ').unwrap_or_else(|| panic!("no mark: {line}"));
        if mark == "case" {
            if let Some(done) = cases.last_mut() {
                let lines = conf.join("\n") + "\n";
                done.files.entry(main.to_owned()).or_insert(lines);
                if main == "slurm.conf" {
                    done.files.entry("cgroup.conf".to_owned()).or_insert_with(|| "CgroupPlugin=disabled\n".to_owned());
                }
            }
            conf.clone_from(&base);
            file = None;
            let real = (String::new(), String::new());
            let mode = "600".to_owned();
            cases.push(Case { name: rest.to_owned(), real, silent: None, ours: None, mode, files: BTreeMap::new() });
            continue;
        }
        let Some(case) = cases.last_mut() else {
            assert_eq!(mark, "|", "before the first case: {line}");
            base.push(rest.to_owned());
            continue;
        };
        let unescaped = || unescape(rest, &base);
        let has_key = |line: &String, key: &str| line.split('=').next().is_some_and(|known| known.eq_ignore_ascii_case(key));
        match mark {
            "real" => {
                let (letter, message) = rest.split_once(' ').unwrap_or((rest, ""));
                case.real = (letter.to_owned(), message.to_owned());
            }
            "ours" => case.ours = Some(rest.to_owned()),
            "mode" => rest.clone_into(&mut case.mode),
            "silent" => case.silent = Some(rest.to_owned()),
            "+" => conf.push(unescaped()),
            "-" => conf.retain(|line| !has_key(line, rest)),
            "=" => {
                let key = rest.split('=').next().unwrap_or_default();
                let place = conf.iter_mut().find(|line| has_key(line, key)).unwrap_or_else(|| panic!("the base has no {key}"));
                *place = unescaped();
            }
            "file" => file = Some(rest.to_owned()),
            "|" => {
                let content = format!("{}\n", unescaped());
                let content = content.strip_suffix("\\{cut}\n").map_or_else(|| content.clone(), str::to_owned);
                case.files.entry(file.clone().expect("a file before its lines")).or_default().push_str(&content);
            }
            _ => panic!("no mark: {line}"),
        }
    }
    cases.pop();
    cases
}

fn unescape(text: &str, base: &[String]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let mut length = 1;
        match after.as_bytes().first() {
            Some(b'n') => out.push('\n'),
            Some(b'r') => out.push('\r'),
            Some(b't') => out.push('\t'),
            Some(b'0') => out.push('\0'),
            Some(b'\\') => out.push('\\'),
            Some(b'u') => {
                out.push('\u{feff}');
                length = "u{feff}".len();
            }
            Some(b'{') => {
                let inside = &after[1..after.find('}').expect("a closing brace")];
                length = inside.len() + 2;
                match inside.split_once(':') {
                    Some((count, what)) => out.push_str(&what.repeat(count.parse().expect("a count"))),
                    None if inside == "base" => base.iter().for_each(|line| writeln!(out, "{line}").unwrap()),
                    None => write!(out, "\\{{{inside}}}").unwrap(),
                }
            }
            _ => panic!("no escape: {text}"),
        }
        rest = &after[length..];
    }
    out + rest
}
