//! Lists that are sent only if something changed.

use super::model::Number;
use crate::hostlist;
use crate::name::NodeName;

/// A timestamp of the server: requests only changes since then. Taken from a response, never from a local clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gate(u64);

impl Gate {
    pub(crate) fn of(last_update: Number) -> Option<Self> {
        last_update.get().filter(|seconds| *seconds > 0).map(Self)
    }

    pub fn as_seconds(self) -> u64 {
        self.0
    }
}

/// Result of a list call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gated {
    /// Nothing changed since the gate; no element was sent.
    Unchanged,
    /// The whole table was sent, in so many bytes; the gate is `None` if the server gave no timestamp for the next request.
    Whole { gate: Option<Gate>, bytes: u64 },
}

impl Gated {
    /// Size of what was sent, or `None` if nothing changed.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Unchanged => None,
            Self::Whole { bytes, .. } => Some(bytes),
        }
    }
}

/// Several nodes in one request: a hostlist expression that slurmctld expands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(String);

impl Hosts {
    /// These nodes, in Slurm's shortest notation, or `None` if there is none: Slurm would interpret that differently.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a NodeName>) -> Option<Self> {
        let expression = hostlist::compress(names.into_iter().map(NodeName::as_str));
        (!expression.is_empty()).then_some(Self(expression))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}
