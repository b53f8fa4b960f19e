//! Conditions: what a resource says about itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Whether the resource does its work; its message names the first thing that is missing and what to do about it.
pub const READY: &str = "Ready";

/// Why a condition has its status. Reasons are read by programs: add, do not rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Everything is there and answers.
    AllReady,
    /// The spec asks for something that cannot be.
    InvalidSpec,
    /// A Secret or a key in it is missing.
    SecretMissing,
    /// A ConfigMap is missing.
    ConfigMapMissing,
    /// The Controller that the resource refers to is missing.
    ControllerMissing,
    /// The Controller is there but not ready.
    ControllerNotReady,
    /// Pods were asked for and are not ready yet.
    PodsNotReady,
    /// More could be done, but it waits for something that protects jobs.
    WaitingForSlurm,
    /// Something was just asked for and its effect is not visible yet.
    Progressing,
    /// The resource is being deleted.
    Deleting,
    /// The last pass failed.
    ReconcileFailed,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AllReady => "AllReady",
            Self::InvalidSpec => "InvalidSpec",
            Self::SecretMissing => "SecretMissing",
            Self::ConfigMapMissing => "ConfigMapMissing",
            Self::ControllerMissing => "ControllerMissing",
            Self::ControllerNotReady => "ControllerNotReady",
            Self::PodsNotReady => "PodsNotReady",
            Self::WaitingForSlurm => "WaitingForSlurm",
            Self::Progressing => "Progressing",
            Self::Deleting => "Deleting",
            Self::ReconcileFailed => "ReconcileFailed",
        }
    }
}

/// Builds the `Ready` condition. `lastTransitionTime` stays as it was unless the status changes, or every pass would write.
pub fn ready(is_ready: bool, reason: Reason, message: String, generation: Option<i64>, before: &[Condition], now: Time) -> Condition {
    let status = if is_ready { "True" } else { "False" };
    let since = before.iter().find(|known| known.type_ == READY && known.status == status).map(|known| known.last_transition_time.clone());
    Condition {
        type_: READY.to_owned(),
        status: status.to_owned(),
        reason: reason.as_str().to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: since.unwrap_or(now),
    }
}
