//! Kinds of calls, and their observers.

use std::time::Duration;

/// Purpose of a call: the label of its metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    Ping,
    GetConf,
    GetDiag,
    ListNodes,
    GetNode,
    UpdateNodes,
    CreateNode,
    DeleteNode,
    ListJobs,
    GetJob,
    ListJobStates,
    SubmitJob,
    UpdateJob,
    RequeueJob,
    CancelJob,
    ListPartitions,
    GetPartition,
    WritePartition,
    DeletePartition,
    ListReservations,
    GetReservation,
    WriteReservation,
    DeleteReservation,
    Reconfigure,
}

impl CallKind {
    /// True if it reads or writes one record, or sets the same for several.
    pub fn is_about_one_record(self) -> bool {
        matches!(self, Self::GetNode | Self::UpdateNodes | Self::CreateNode | Self::DeleteNode | Self::GetJob)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::GetConf => "get_conf",
            Self::GetDiag => "get_diag",
            Self::ListNodes => "list_nodes",
            Self::GetNode => "get_node",
            Self::UpdateNodes => "update_nodes",
            Self::CreateNode => "create_node",
            Self::DeleteNode => "delete_node",
            Self::ListJobs => "list_jobs",
            Self::GetJob => "get_job",
            Self::ListJobStates => "list_job_states",
            Self::SubmitJob => "submit_job",
            Self::UpdateJob => "update_job",
            Self::RequeueJob => "requeue_job",
            Self::CancelJob => "cancel_job",
            Self::ListPartitions => "list_partitions",
            Self::GetPartition => "get_partition",
            Self::WritePartition => "write_partition",
            Self::DeletePartition => "delete_partition",
            Self::ListReservations => "list_reservations",
            Self::GetReservation => "get_reservation",
            Self::WriteReservation => "write_reservation",
            Self::DeleteReservation => "delete_reservation",
            Self::Reconfigure => "reconfigure",
        }
    }
}

/// A completed call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub kind: CallKind,
    /// `ok`, `unchanged`, or the reason of the failure.
    pub outcome: &'static str,
    /// Including the wait for a free slot.
    pub took: Duration,
    /// Bytes of the response body.
    pub bytes: u64,
}

/// Receives every completed call, for metrics.
pub trait Observer: Send + Sync {
    fn ended(&self, call: &Call);
}

/// Ignores all calls.
impl Observer for () {
    fn ended(&self, _: &Call) {}
}
