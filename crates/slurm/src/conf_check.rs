//! Slurm's configuration files: reading, checking, joining and writing them.
//!
//! - [`file`] reads and writes the `Key=Value` files the way Slurm's own parser does.
//! - [`member`] tells which nodes belong to which partitions by their features.
//! - [`union`] joins what several sources say into one file and tells what overrode what.
//! - [`check`] finds what would end a daemon, its workers or its jobs, leave it hanging, or be taken in silence and mean something else.
//!   Its verdicts are those of real daemons of 26.05 on the corpora `tests/corpus/config.txt` and `tests/corpus/slurmdbd.txt`.

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
mod topology;
mod tree;
mod value;
mod word;

use std::fmt;

/// What the daemons would do with a mistake, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The daemon that reads the file ends, at once or at its next start, and with it every start after that.
    Fatal,
    /// slurmctld lives, every slurmd ends.
    KillsWorkers,
    /// The daemons live, jobs that wait or run end.
    EndsJobs,
    /// The daemon runs and its port does not answer: a probe would end it.
    Hangs,
    /// An error in the daemon's log; something else than what was written is used.
    Error,
    /// Taken without a word, and not what was meant.
    Silent,
}

impl Severity {
    /// What comes of a mistake in this file, as the end of a sentence about it.
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

/// One mistake: where it is, what comes of it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub severity: Severity,
    pub file: String,
    /// Counted from 1; 0 where no line is to blame: something is missing, or it is the file as a whole.
    pub line: usize,
    /// The key that it is about, in Slurm's spelling where Slurm knows it; none where the line or the file as such is wrong.
    pub key: Option<String>,
    /// What is wrong and what to do, as a sentence.
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

/// Findings about one file, as they are gathered.
#[derive(Debug)]
pub(crate) struct Findings<'a> {
    file: &'a str,
    all: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub(crate) fn of(file: &'a str) -> Self {
        Self { file, all: Vec::new() }
    }

    /// Adds what is wrong with a key, or with a line as such where the key is `None`.
    pub(crate) fn add<'k>(&mut self, severity: Severity, line: usize, key: impl Into<Option<&'k str>>, message: impl Into<String>) {
        let key = key.into().map(crate::name::excerpt);
        self.all.push(Finding { severity, file: self.file.to_owned(), line, key, message: message.into() });
    }

    pub(crate) fn into_all(self) -> Vec<Finding> {
        self.all
    }
}
