//! slurmctld's reports about itself.

use serde::{Deserialize, Serialize};

use super::lenient;
use super::number::Number;

/// One configured controller. A ping does not verify the token: slurmrestd responds without authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Ping {
    #[serde(deserialize_with = "lenient::text")]
    pub hostname: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub responding: bool,
    /// True if it is the first in the configuration. That does not show which one is active: an active standby stays a standby here.
    #[serde(deserialize_with = "lenient::or_default")]
    pub primary: bool,
    /// `primary`, `backup1`, ...; empty since v0.0.45.
    #[serde(deserialize_with = "lenient::text")]
    pub mode: String,
}

/// The configuration that slurmctld runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ConfInForce {
    /// Hash of the files that were read: the same files give the same number.
    #[serde(rename = "HashValue", deserialize_with = "lenient::wide")]
    pub hash: u64,
    /// Time when slurmctld started or last read its files.
    #[serde(rename = "BOOT_TIME")]
    pub booted_at: Number,
    #[serde(rename = "SLURM_VERSION", deserialize_with = "lenient::text")]
    pub release: String,
}

/// Some of slurmctld's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Statistics {
    /// Time of the response, by slurmctld's clock.
    pub req_time: Number,
    /// Start of counting; 0 for a while after a reconfigure.
    pub req_time_start: Number,
    #[serde(deserialize_with = "lenient::wide")]
    pub server_thread_count: u64,
    /// Queued messages to slurmds.
    #[serde(deserialize_with = "lenient::wide")]
    pub agent_queue_size: u64,
    /// Queued messages to slurmdbd; they are lost if there are too many.
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
