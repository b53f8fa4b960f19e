//! Three-valued answers.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

/// Reason why something is unknown. None of these permits an action that could kill a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nothing was ever read, for this reason.
    NeverRead(String),
    /// The last successful read is too old; the reason names the failure since then. The message omits the age: it changes all the time, and
    /// conditions contain the message.
    Stale { age: Duration, trouble: String },
    /// The list lacks nodes that it had before, and nothing else confirms that they are gone.
    Partial { missing: usize },
    /// The queue was read before this node became free.
    QueueBehind(String),
    /// Slurm's data about the job or node cannot be interpreted.
    Unclear(String),
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverRead(trouble) => write!(out, "Slurm was never read: {trouble}"),
            // A read that takes long has not failed yet.
            Self::Stale { trouble, .. } if trouble.is_empty() => out.write_str("Slurm was not read for too long: it has not answered yet"),
            Self::Stale { trouble, .. } => write!(out, "Slurm was not read for too long: {trouble}"),
            Self::Partial { missing } => write!(out, "{missing} nodes are suddenly missing in Slurm's list, which may be incomplete"),
            Self::QueueBehind(node) => write!(out, "Slurm's queue has not been read since node `{node}` became free"),
            Self::Unclear(what) => out.write_str(what),
        }
    }
}

/// Yes, no, or unknown.
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

/// Latest end of a node's last job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// No job is on the node.
    Free,
    /// At this time at the latest.
    At(Timestamp),
    /// A job without a time limit is on the node.
    Never,
    Unknown(Why),
}
