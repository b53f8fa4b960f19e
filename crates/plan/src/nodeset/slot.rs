//! Slot of a worker in its NodeSet.

use std::fmt;

/// Slot of a worker in its NodeSet. At most one worker is wanted per slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// StatefulSet mode: the worker with this ordinal.
    Ordinal(u32),
    /// DaemonSet mode: the worker on this Kubernetes node.
    Node(String),
}

impl Slot {
    /// The ordinal, or `None` in DaemonSet mode.
    pub fn ordinal(&self) -> Option<u32> {
        match self {
            Self::Ordinal(ordinal) => Some(*ordinal),
            Self::Node(_) => None,
        }
    }

    /// The Kubernetes node, or `None` in StatefulSet mode.
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
