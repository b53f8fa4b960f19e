//! A pod of slurmctld as observed.

use std::time::Duration;

use jiff::Timestamp;

use crate::PodId;

/// A pod that runs slurmctld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerPod {
    pub id: PodId,
    pub is_ready: bool,
    pub is_going: bool,
    pub age: Duration,
    /// Revision of the StatefulSet that it was created from.
    pub revision: String,
    /// Hash of the published configuration in its annotations, and the time from which it could read it.
    pub told: Option<(String, Timestamp)>,
    /// True if it has the label that the Service selects.
    pub is_active: bool,
}
