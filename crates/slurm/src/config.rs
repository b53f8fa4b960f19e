//! Slurm's configuration files: reading, checking, joining and writing them.
//!
//! - [`file`] reads and writes the `Key=Value` files the way Slurm's own parser does.
//! - [`union`] joins what several sources say into one file and tells what overrode what.
//! - [`check`] finds what would end slurmctld or its workers, leave them hanging, or be taken in silence and mean something else.
//!   Its verdicts are those of a real slurmctld 26.05 on the corpus in `tests/corpus/config.txt`.

pub mod check;
pub mod file;
pub mod union;

mod hosts;
mod key;
mod rule;
mod topology;
mod value;
mod word;

use std::fmt;

/// What the daemons would do with a mistake, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// slurmctld ends, at once or at its next start, and with it every start after that.
    Fatal,
    /// slurmctld lives, every slurmd ends.
    KillsWorkers,
    /// slurmctld runs and its port does not answer: a probe would end it.
    Hangs,
    /// An error in slurmctld's log; something else than what was written is used.
    Error,
    /// Taken without a word, and not what was meant.
    Silent,
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Fatal => "ends slurmctld",
            Self::KillsWorkers => "ends every slurmd",
            Self::Hangs => "leaves slurmctld without an answer",
            Self::Error => "is not used",
            Self::Silent => "is taken in silence",
        })
    }
}

/// One mistake: where it is, what comes of it, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub severity: Severity,
    pub file: String,
    /// Counted from 1; 0 is the file as a whole.
    pub line: usize,
    /// What is wrong and what to do, as a sentence.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, file, line, message } = self;
        match line {
            0 => write!(out, "{file}: {message} ({severity})"),
            _ => write!(out, "{file} line {line}: {message} ({severity})"),
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

    pub(crate) fn add(&mut self, severity: Severity, line: usize, message: impl Into<String>) {
        self.all.push(Finding { severity, file: self.file.to_owned(), line, message: message.into() });
    }

    pub(crate) fn into_all(self) -> Vec<Finding> {
        self.all
    }
}
