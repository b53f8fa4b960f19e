//! Which place a worker fills.

use std::fmt;

/// The place of a worker in its NodeSet. No two workers are wanted in one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// One of so many, by its number: StatefulSet mode.
    Ordinal(u32),
    /// The one on this Kubernetes node: DaemonSet mode.
    Node(String),
}

impl Slot {
    /// Its number, where it has one.
    pub fn ordinal(&self) -> Option<u32> {
        match self {
            Self::Ordinal(ordinal) => Some(*ordinal),
            Self::Node(_) => None,
        }
    }

    /// The Kubernetes node that it is for, where it is for one.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Ordinal(_) => None,
            Self::Node(node) => Some(node),
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordinal(ordinal) => write!(out, "{ordinal}"),
            Self::Node(node) => write!(out, "node `{node}`"),
        }
    }
}
