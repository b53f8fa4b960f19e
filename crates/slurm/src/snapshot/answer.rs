//! Answers with three values.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

/// Why something is not known. None of these permits anything that could end a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nothing was ever read, for this reason.
    NeverRead(String),
    /// The last good reading is too old; the reason says what has failed since. The age is not among the words: it changes from look to look, and
    /// they stand in conditions.
    Stale { age: Duration, trouble: String },
    /// The list lacks nodes that were there before, and nothing else says that they are gone.
    Partial { missing: usize },
    /// Slurm gave something for the job or node that cannot be read.
    Unclear(String),
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverRead(trouble) => write!(out, "Slurm was never read: {trouble}"),
            Self::Stale { trouble, .. } => write!(out, "Slurm was not read for too long: {trouble}"),
            Self::Partial { missing } => write!(out, "{missing} nodes are suddenly missing in Slurm's list, which may be incomplete"),
            Self::Unclear(what) => out.write_str(what),
        }
    }
}

/// Yes, no, or not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    Unknown(Why),
}

impl Answer {
    pub fn is_yes(&self) -> bool {
        *self == Self::Yes
    }

    pub fn is_no(&self) -> bool {
        *self == Self::No
    }
}

impl From<bool> for Answer {
    fn from(is: bool) -> Self {
        if is { Self::Yes } else { Self::No }
    }
}

/// When the last job of a node must have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// No job is on the node.
    Free,
    /// At that moment at the latest.
    At(Timestamp),
    /// A job without a limit is on the node.
    Never,
    Unknown(Why),
}
