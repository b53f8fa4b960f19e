//! Slurm's configuration files: parsing, checking, merging and writing them.
//!
//! - [`file`] parses and writes the `Key=Value` files the way Slurm's own parser does.
//! - [`member`] determines which nodes belong to which partitions by their features.
//! - [`union`] merges several sources into one file and reports overrides.
//! - [`check`] finds mistakes that would stop a daemon, its workers or its jobs, make it hang, or be accepted silently with another meaning. Its
//!   verdicts are those of real daemons of 26.05 on the corpora `tests/corpus/config.txt` and `tests/corpus/slurmdbd.txt`.

pub mod check;
pub mod file;
pub mod member;
pub mod union;

mod hosts;
mod jwks;
mod key;
mod plugstack;
mod rule;
mod slurmdbd;
mod surroundings;
mod topology;
mod tree;
mod value;
mod word;

use std::fmt;

/// Effect of a mistake on the daemons, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The daemon that reads the file exits, immediately or at its next start, and again at every start after that.
    Fatal,
    /// slurmctld keeps running, every slurmd exits.
    KillsWorkers,
    /// The daemons keep running; pending or running jobs are killed.
    EndsJobs,
    /// The daemon runs but its port does not respond: a probe would kill it.
    Hangs,
    /// An error in the daemon's log; another value than the written one is used.
    Error,
    /// Accepted silently, with another meaning.
    Silent,
}

impl Severity {
    /// Effect of a mistake in this file, as the end of a sentence about it.
    fn outcome(self, file: &str) -> String {
        let daemon = if file == "slurmdbd.conf" { "slurmdbd" } else { "slurmctld" };
        match self {
            Self::Fatal => format!("ends {daemon}"),
            Self::KillsWorkers => "ends every slurmd".to_owned(),
            Self::EndsJobs => "ends jobs".to_owned(),
            Self::Hangs => format!("leaves {daemon} without an answer"),
            Self::Error => "is not used".to_owned(),
            Self::Silent => "is taken in silence".to_owned(),
        }
    }
}

/// One mistake: its place, its effect and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub severity: Severity,
    pub file: String,
    /// Counted from 1; 0 if no single line is wrong: something is missing, or the file as a whole is wrong.
    pub line: usize,
    /// The key concerned, in Slurm's spelling if Slurm knows it; `None` if the line or the file itself is wrong.
    pub key: Option<String>,
    /// Problem and remedy, as a sentence.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, file, line, key: _, message } = self;
        let outcome = severity.outcome(file);
        match line {
            0 => write!(out, "{file}: {message} ({outcome})"),
            _ => write!(out, "{file} line {line}: {message} ({outcome})"),
        }
    }
}

/// Findings about one file, as they are collected.
#[derive(Debug)]
pub(crate) struct Findings<'a> {
    file: &'a str,
    all: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub(crate) fn of(file: &'a str) -> Self {
        Self { file, all: Vec::new() }
    }

    /// Adds a problem with a key, or with the line itself if `key` is `None`.
    pub(crate) fn add<'k>(&mut self, severity: Severity, line: usize, key: impl Into<Option<&'k str>>, message: impl Into<String>) {
        let key = key.into().map(crate::name::excerpt);
        self.all.push(Finding { severity, file: self.file.to_owned(), line, key, message: message.into() });
    }

    pub(crate) fn into_all(self) -> Vec<Finding> {
        self.all
    }
}
