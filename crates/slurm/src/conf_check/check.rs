//! Effects of configuration files on the daemons.

use std::collections::{BTreeMap, BTreeSet};

use super::file::{ConfFile, FaultKind, Setting, is_record};
use super::key::{self, Scope};
use super::{Finding, Findings, Severity, hosts, jwks, plugstack, rule, slurmdbd, topology, value};
use crate::name::{excerpt, spoken};

pub use super::surroundings::{SlurmdbdPod, Surroundings};

/// Maximum size of a ConfigMap or a Secret, all its keys together.
pub const MAX_BYTES: usize = 1 << 20;

/// Checks the files of one pod by their names: `slurm.conf`, `cgroup.conf`, `gres.conf`, `topology.yaml`, `plugstack.conf`, `slurmdbd.conf`, and
/// the file that `jwks=` names. Others only count towards the size. The worst findings come first.
pub fn check(files: &BTreeMap<String, String>, around: &Surroundings) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut gather = |findings: Findings<'_>| all.extend(findings.into_all());
    let bytes: usize = files.iter().map(|(name, text)| name.len() + text.len()).sum();
    if bytes > MAX_BYTES {
        let mut findings = Findings::of("the configuration");
        let message = format!("it has {bytes} bytes, and a ConfigMap carries {MAX_BYTES}: shorten it");
        findings.add(Severity::Fatal, 0, None, message);
        gather(findings);
    }
    let parsed = |name: &str| files.get(name).map(|text| ConfFile::parse(text));
    let mut topologies = BTreeSet::new();
    if let Some(text) = files.get("topology.yaml") {
        let mut findings = Findings::of("topology.yaml");
        let nodes = parsed("slurm.conf").map(|file| hosts::static_nodes(&file)).unwrap_or_default();
        topologies = topology::check(&mut findings, text, |node| nodes.contains(node) || around.nodes.contains(node));
        gather(findings);
    }
    if let Some(text) = files.get("plugstack.conf") {
        let mut findings = Findings::of("plugstack.conf");
        plugstack::check(&mut findings, text, around);
        gather(findings);
    }
    let mut checked = BTreeSet::new();
    for (name, scope) in
        [("slurm.conf", Scope::Slurm), ("slurmdbd.conf", Scope::Slurmdbd), ("cgroup.conf", Scope::Cgroup), ("gres.conf", Scope::Gres)]
    {
        let (Some(text), Some(file)) = (files.get(name), parsed(name)) else { continue };
        let mut findings = Findings::of(name);
        check_text(&mut findings, text, &file, scope);
        check_keys(&mut findings, &file, scope);
        check_repetition(&mut findings, &file, scope);
        match scope {
            Scope::Slurm => {
                hosts::check(&mut findings, &file, around);
                rule::check(&mut findings, &file, files, &topologies, around);
            }
            Scope::Slurmdbd => slurmdbd::check(&mut findings, &file, files, around),
            _ => {}
        }
        gather(findings);
        if let Some((name, text)) = rule::jwks(&file, files).filter(|(name, _)| checked.insert(*name)) {
            let mut findings = Findings::of(name);
            jwks::check(&mut findings, text);
            gather(findings);
        }
    }
    all.sort();
    all
}

/// Severity of an unreadable line: the daemon that reads the file exits. Only workers read gres.conf.
fn unreadable(scope: Scope) -> Severity {
    if matches!(scope, Scope::Gres | Scope::GresRecord) { Severity::KillsWorkers } else { Severity::Fatal }
}

fn check_text(findings: &mut Findings<'_>, text: &str, file: &ConfFile, scope: Scope) {
    if text.starts_with('\u{feff}') {
        findings.add(unreadable(scope), 1, None, "the file starts with a byte order mark: save it without one");
    }
    for fault in &file.faults {
        let line = fault.line;
        match &fault.kind {
            FaultKind::NotASetting(rest) if !rest.starts_with('\u{feff}') => {
                let message =
                    format!("`{}` is no Key=Value: give the key a value, and put a value with blanks in double quotes", excerpt(rest));
                findings.add(unreadable(scope), line, None, message);
            }
            FaultKind::NotASetting(_) => {}
            FaultKind::Include(path) => {
                let message = format!(
                    "Include reads `{}`, which the pods do not have and the operator does not check: put its lines here",
                    excerpt(path)
                );
                // slurmctld waits for the file; slurmdbd checks its mode first.
                let severity = if scope == Scope::Slurmdbd { Severity::Fatal } else { Severity::Hangs };
                findings.add(severity, line, "Include", message);
            }
            FaultKind::OpenQuote(key) => {
                findings.add(Severity::Silent, line, key.as_str(), format!("{key} opens a quote and never closes it: close it"));
            }
            FaultKind::ContinuedAtEnd => {
                findings.add(Severity::Silent, line, None, "the last line ends with `\\` and nothing follows: take the `\\` away");
            }
            FaultKind::Cut => {
                let message =
                    "a `#` stands right behind a value and starts a comment: write `\\#` if it belongs to the value, else a blank first";
                findings.add(Severity::Silent, line, None, message);
            }
            FaultKind::Control(character) => {
                let message = format!("the line has {}, at which Slurm may stop reading it: take it out", spoken(*character));
                findings.add(Severity::Silent, line, None, message);
            }
        }
    }
}

fn check_keys(findings: &mut Findings<'_>, file: &ConfFile, scope: Scope) {
    for entry in &file.entries {
        let inner = match scope {
            Scope::Slurm => Scope::of_record(&entry.head().key),
            Scope::Gres if !entry.head().is("AutoDetect") => Some(Scope::GresRecord),
            _ => None,
        };
        for (index, setting) in entry.settings.iter().enumerate() {
            let scope = if index == 0 { scope } else { inner.unwrap_or(scope) };
            match key::find(scope, &setting.key) {
                Some(key) => value::check(findings, entry.line, key, setting),
                None => unknown_key(findings, entry.line, scope, setting),
            }
        }
    }
}

fn unknown_key(findings: &mut Findings<'_>, line: usize, scope: Scope, setting: &Setting) {
    let remedy = match key::closest(scope, &setting.key) {
        Some(near) => format!("did you mean {near}?"),
        None => "correct it or take it out".to_owned(),
    };
    let key = setting.key.as_str();
    findings.add(unreadable(scope), line, key, format!("{} is no key that Slurm knows here: {remedy}", excerpt(&setting.key)));
}

/// True for keys that may be on several lines.
pub(super) fn is_repeatable(key: &str) -> bool {
    let several = ["SlurmctldHost", "Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld", "Name", "PowerAction"];
    is_record(key) || several.iter().any(|known| known.eq_ignore_ascii_case(key))
}

fn check_repetition(findings: &mut Findings<'_>, file: &ConfFile, scope: Scope) {
    if scope == Scope::Gres {
        return;
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for entry in file.entries.iter().filter(|entry| !is_record(&entry.head().key)) {
        for setting in entry.settings.iter().filter(|setting| !is_repeatable(&setting.key)) {
            if let Some(first) = seen.insert(setting.key.to_ascii_lowercase(), entry.line) {
                let message = format!("{} stands in line {first} already, and the last one counts: take one out", excerpt(&setting.key));
                findings.add(Severity::Error, entry.line, setting.key.as_str(), message);
            }
        }
    }
}

#[cfg(test)]
mod tests;
