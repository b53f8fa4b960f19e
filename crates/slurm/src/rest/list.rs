//! Lists that are only sent when something changed.

use super::model::Number;
use crate::hostlist;
use crate::name::NodeName;

/// A moment of the server: "tell me only if anything changed since". Made from an answer, never from a local clock.
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

/// How a list was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gated {
    /// Nothing changed since the gate; no element was sent.
    Unchanged,
    /// The whole table was sent; `None` when the server gave no moment to ask from.
    Whole { gate: Option<Gate> },
}

/// Several nodes in one request: a hostlist expression that slurmctld expands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(String);

impl Hosts {
    /// These nodes, as short as Slurm can read it. `None` when there is none: Slurm would take that for something else.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a NodeName>) -> Option<Self> {
        let expression = hostlist::compress(names.into_iter().map(NodeName::as_str));
        (!expression.is_empty()).then_some(Self(expression))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}
