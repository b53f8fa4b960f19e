use std::fmt;

use slipway_api::child::Child;

/// One write. Each can be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make a child what it should be.
    Apply(Box<Child>),
    /// Create the worker pod with this ordinal.
    CreateWorker { ordinal: u32, name: String },
    /// Delete a worker pod, if it is still the one with this UID. Only [`crate::gate`] gives leave to make this.
    DeleteWorker { name: String, uid: String },
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apply(child) => write!(out, "apply {}", child.key),
            Self::CreateWorker { name, .. } => write!(out, "create pod `{name}`"),
            Self::DeleteWorker { name, .. } => write!(out, "delete pod `{name}`"),
        }
    }
}
