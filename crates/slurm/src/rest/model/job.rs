//! Jobs: in the queue, and for submission.

use serde::{Deserialize, Serialize};

use super::flag::{Flags, flags};
use super::lenient;
use super::number::Number;

flags! {
    /// Exactly one base state, and additional flags.
    JobState {
        Pending = "PENDING", Running = "RUNNING", Suspended = "SUSPENDED", Completed = "COMPLETED", Cancelled = "CANCELLED",
        Failed = "FAILED", Timeout = "TIMEOUT", NodeFail = "NODE_FAIL", Preempted = "PREEMPTED", BootFail = "BOOT_FAIL",
        Deadline = "DEADLINE", OutOfMemory = "OUT_OF_MEMORY",
        LaunchFailed = "LAUNCH_FAILED", Requeued = "REQUEUED", RequeueHold = "REQUEUE_HOLD", SpecialExit = "SPECIAL_EXIT",
        Resizing = "RESIZING", Configuring = "CONFIGURING", Completing = "COMPLETING", Stopped = "STOPPED",
        ReconfigFail = "RECONFIG_FAIL", PowerUpNode = "POWER_UP_NODE", Revoked = "REVOKED", RequeueFed = "REQUEUE_FED",
        ResvDelHold = "RESV_DEL_HOLD", Signaling = "SIGNALING", StageOut = "STAGE_OUT", Expediting = "EXPEDITING",
    }
}

pub type JobStates = Flags<JobState>;

impl JobStates {
    /// True if it may hold nodes: it runs, is suspended, is completing, or is in an unknown state.
    pub fn holds_nodes(&self) -> bool {
        let waits = self.has(&JobState::Pending) && !self.has_any(&[JobState::Completing, JobState::Configuring]);
        !self.is_terminal() && !waits
    }

    /// True if it has ended. An unknown state does not count as ended.
    pub fn is_terminal(&self) -> bool {
        const ENDS: &[JobState] = &[
            JobState::Completed,
            JobState::Cancelled,
            JobState::Failed,
            JobState::Timeout,
            JobState::NodeFail,
            JobState::Preempted,
            JobState::BootFail,
            JobState::Deadline,
            JobState::OutOfMemory,
        ];
        self.has_any(ENDS) && !self.has(&JobState::Completing)
    }
}

/// A job in the queue; ended ones stay there for a few minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Job {
    #[serde(deserialize_with = "lenient::wide")]
    pub job_id: u64,
    pub array_job_id: Number,
    pub array_task_id: Number,
    pub het_job_id: Number,
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    #[serde(deserialize_with = "lenient::text")]
    pub user_name: String,
    #[serde(deserialize_with = "lenient::text")]
    pub account: String,
    /// One name, or several with commas while the job is pending.
    #[serde(deserialize_with = "lenient::text")]
    pub partition: String,
    #[serde(deserialize_with = "lenient::text")]
    pub qos: String,
    pub job_state: JobStates,
    #[serde(deserialize_with = "lenient::text")]
    pub state_reason: String,
    /// A hostlist expression.
    #[serde(deserialize_with = "lenient::text")]
    pub nodes: String,
    /// A hostlist expression.
    #[serde(deserialize_with = "lenient::text")]
    pub required_nodes: String,
    #[serde(deserialize_with = "lenient::text")]
    pub batch_host: String,
    pub node_count: Number,
    pub priority: Number,
    /// Minutes.
    pub time_limit: Number,
    pub submit_time: Number,
    /// The estimate while the job is pending.
    pub start_time: Number,
    /// The end of the time limit while the job runs.
    pub end_time: Number,
    #[serde(deserialize_with = "lenient::text")]
    pub resv_name: String,
    #[serde(deserialize_with = "lenient::text")]
    pub admin_comment: String,
    #[serde(deserialize_with = "lenient::text")]
    pub comment: String,
    #[serde(deserialize_with = "lenient::text")]
    pub extra: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub hold: bool,
}

/// The part of a [`Job`] that decides about nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct QueuedJob {
    #[serde(deserialize_with = "lenient::wide")]
    pub job_id: u64,
    /// One name, or several with commas while the job is pending.
    #[serde(deserialize_with = "lenient::text")]
    pub partition: String,
    pub job_state: JobStates,
    /// A hostlist expression.
    #[serde(deserialize_with = "lenient::text")]
    pub nodes: String,
    /// A hostlist expression.
    #[serde(deserialize_with = "lenient::text")]
    pub required_nodes: String,
    /// Minutes.
    pub time_limit: Number,
    /// The end of the time limit while the job runs.
    pub end_time: Number,
}

/// A batch job to submit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobSubmit {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    pub script: String,
    pub current_working_directory: String,
    /// Slurm refuses a batch job with an empty one.
    pub environment: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_nodes: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_nodes: Vec<String>,
    /// Minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A change of a job. Omitted fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobUpdate {
    /// Minutes. Raising it needs an administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Number>,
    /// `false` releases a held job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_comment: Option<String>,
}

/// Result of a submission. An accepted job that cannot start yet is no failure: the warning has the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Submitted {
    #[serde(deserialize_with = "lenient::wide")]
    pub job_id: u64,
    #[serde(deserialize_with = "lenient::text")]
    pub job_submit_user_msg: String,
}

/// Result of a cancellation. Slurm responds with 200 to all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    Now,
    AlreadyEnded,
}

/// One entry of the response to a cancellation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CancelStatus {
    #[serde(deserialize_with = "lenient::or_default")]
    pub error: CancelError,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CancelError {
    #[serde(deserialize_with = "lenient::text")]
    pub string: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub code: i64,
}

/// Result for one element of a changed array.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UpdateResult {
    #[serde(deserialize_with = "lenient::text")]
    pub error: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub error_code: i64,
}

/// One job of `jobs/state/`, the cheapest poll. The id is text here, and an array element is `4_1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct JobBrief {
    #[serde(deserialize_with = "lenient::text")]
    pub job_id: String,
    pub state: JobStates,
}
