//! What slurmctld says about itself.

use serde::{Deserialize, Serialize};

use super::lenient;
use super::number::Number;

/// One configured controller. A ping proves no token: slurmrestd answers it without asking who we are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Ping {
    #[serde(deserialize_with = "lenient::text")]
    pub hostname: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub responding: bool,
    /// It is the first of the configuration. That does not say who is in charge: a standby in charge stays a standby here.
    #[serde(deserialize_with = "lenient::or_default")]
    pub primary: bool,
    /// `primary`, `backup1`, ...; empty since v0.0.45.
    #[serde(deserialize_with = "lenient::text")]
    pub mode: String,
}

/// The configuration that slurmctld runs with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ConfInForce {
    /// Of the files that were read: the same files give the same number.
    #[serde(rename = "HashValue", deserialize_with = "lenient::wide")]
    pub hash: u64,
    /// When slurmctld started or last read its files.
    #[serde(rename = "BOOT_TIME")]
    pub booted_at: Number,
    #[serde(rename = "SLURM_VERSION", deserialize_with = "lenient::text")]
    pub release: String,
}

/// A few of slurmctld's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Statistics {
    /// The moment of the answer, by slurmctld's clock.
    pub req_time: Number,
    /// Since when is counted; 0 for a while after a reconfigure.
    pub req_time_start: Number,
    #[serde(deserialize_with = "lenient::wide")]
    pub server_thread_count: u64,
    /// Messages to slurmds that wait.
    #[serde(deserialize_with = "lenient::wide")]
    pub agent_queue_size: u64,
    /// Messages to slurmdbd that wait; they are lost when there are too many.
    #[serde(deserialize_with = "lenient::wide")]
    pub dbd_agent_queue_size: u64,
    #[serde(deserialize_with = "lenient::wide")]
    pub jobs_submitted: u64,
    #[serde(deserialize_with = "lenient::wide")]
    pub jobs_started: u64,
    #[serde(deserialize_with = "lenient::wide")]
    pub jobs_pending: u64,
    #[serde(deserialize_with = "lenient::wide")]
    pub jobs_running: u64,
}
