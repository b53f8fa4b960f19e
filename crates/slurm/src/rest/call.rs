//! Kinds of calls, and who wants to know about them.

use std::time::Duration;

/// What a call is for: the label of its metrics.
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

/// One call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub kind: CallKind,
    /// `ok`, `unchanged`, or the reason of the failure.
    pub outcome: &'static str,
    /// With the wait for a free place.
    pub took: Duration,
    /// Bytes of the answer's body.
    pub bytes: u64,
}

/// Hears of every call that has ended: where metrics hang.
pub trait Observer: Send + Sync {
    fn ended(&self, call: &Call);
}

/// Nobody listens.
impl Observer for () {
    fn ended(&self, _: &Call) {}
}
