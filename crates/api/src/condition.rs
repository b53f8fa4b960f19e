//! Conditions: what a resource says about itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Whether the resource does its work; its message names the first thing that is missing and what to do about it.
pub const READY: &str = "Ready";

/// Whether the spec is taken as it was written. Absent where there is nothing to say about it; `True` with warnings.
pub const SPEC_ACCEPTED: &str = "SpecAccepted";
/// `False` while the served CustomResourceDefinition lacks fields of ours, absent otherwise.
pub const SCHEMA_CURRENT: &str = "SchemaCurrent";

/// On a Controller: whether slurmctld and every slurmd run the configuration that the spec asks for.
pub const CONFIGURATION_APPLIED: &str = "ConfigurationApplied";

/// On a NodeSet: whether it is known what Slurm says about its workers. While it is not, nothing is done that could end a job.
pub const SLURM_REACHABLE: &str = "SlurmReachable";

/// On a NodeSet with GPUs or other generic resources: whether the pods' limits, the nodes' `Gres`, slurm.conf and gres.conf, and what Slurm has agree.
pub const GRES_AGREES: &str = "GresAgrees";

/// On a NodeSet whose workers are on Kubernetes nodes with topology or features: whether the nodes in Slurm have these.
pub const NODE_ANNOTATIONS_APPLIED: &str = "NodeAnnotationsApplied";

/// On a NodeSet: `False` while Slurm has records of its nodes that should be deleted or made anew and have to stay; absent otherwise.
pub const RECORDS_CURRENT: &str = "RecordsCurrent";

/// Every condition that we write on our resources.
pub const OURS: [&str; 9] = [
    READY,
    SPEC_ACCEPTED,
    SCHEMA_CURRENT,
    CONFIGURATION_APPLIED,
    SLURM_REACHABLE,
    GRES_AGREES,
    NODE_ANNOTATIONS_APPLIED,
    RECORDS_CURRENT,
    RESERVATION_CREATED,
];

/// On a NodeSet with a scheduled update: whether its reservation exists in Slurm. The reasons that others know are [`CREATED`] and [`NOT_EXISTS`].
pub const RESERVATION_CREATED: &str = "ReservationCreated";
pub const CREATED: &str = "Created";
pub const NOT_EXISTS: &str = "NotExists";

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
    /// Workers are replaced by ones from a newer template.
    Updating,
    /// A Kubernetes node gets no worker, because the hostname for it is another's or none.
    HostnameTaken,
    /// Something was just asked for and its effect is not visible yet.
    Progressing,
    /// The resource is being deleted.
    Deleting,
    /// The last pass failed.
    ReconcileFailed,
    /// The spec asks for something that this release does not do yet, so nothing is done.
    NotServed,
    /// The spec is in use, and there are doubts about it.
    Warnings,
    /// The configuration holds a mistake that would end daemons or jobs; the last good one stays.
    ConfigurationRefused,
    /// A new configuration is on its way.
    ConfigurationPending,
    /// The configuration is published, and nobody can be asked whether it is in use.
    ConfigurationUnverified,
    /// slurmctld runs the configuration and some slurmd does not yet.
    WorkersBehind,
    /// The Accounting that the resource refers to is missing.
    AccountingMissing,
    /// A claim is missing or cannot be used.
    ClaimUnfit,
    /// No slurmctld is in charge, or one that is not had to be taken away.
    NobodyInCharge,
    /// The served CustomResourceDefinition is older than the operator.
    SchemaOlder,
    /// The served CustomResourceDefinition is of another make.
    SchemaForeign,
    /// Two places say something different about GPUs or other generic resources.
    GresMismatch,
    /// Topology or features on a Kubernetes node are none, or Slurm does not take them.
    NodeAnnotationRefused,
    /// Records of Slurm should be deleted or made anew, and have to stay.
    RecordsKept,
    /// Slurm was asked about the workers, and answered.
    SlurmAnswers,
    /// What Slurm says about the workers is not known.
    SlurmUnknown,
    /// The reservation for a scheduled update is in Slurm.
    Created,
    /// It was, and is over.
    NotExists,
    /// It is not made yet.
    ReservationPending,
    /// It cannot be made or changed as the spec asks.
    ReservationRefused,
    /// Workers are up, and Slurm has no record of them.
    SlurmNodeNotRegistered,
}

impl Reason {
    /// Whether somebody should look, rather than wait.
    pub fn is_trouble(self) -> bool {
        !matches!(
            self,
            Self::AllReady
                | Self::PodsNotReady
                | Self::ControllerNotReady
                | Self::WaitingForSlurm
                | Self::Progressing
                | Self::Updating
                | Self::Deleting
                | Self::ConfigurationPending
                | Self::ConfigurationUnverified
                | Self::WorkersBehind
                | Self::SlurmAnswers
                | Self::RecordsKept
                | Self::Created
                | Self::NotExists
                | Self::ReservationPending
        )
    }

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
            Self::HostnameTaken => "HostnameTaken",
            Self::Progressing => "Progressing",
            Self::Updating => "Updating",
            Self::Deleting => "Deleting",
            Self::ReconcileFailed => "ReconcileFailed",
            Self::NotServed => "NotServed",
            Self::Warnings => "Warnings",
            Self::ConfigurationRefused => "ConfigurationRefused",
            Self::ConfigurationPending => "ConfigurationPending",
            Self::ConfigurationUnverified => "ConfigurationUnverified",
            Self::WorkersBehind => "WorkersBehind",
            Self::AccountingMissing => "AccountingMissing",
            Self::ClaimUnfit => "ClaimUnfit",
            Self::NobodyInCharge => "NobodyInCharge",
            Self::SchemaOlder => "SchemaOlder",
            Self::SchemaForeign => "SchemaForeign",
            Self::GresMismatch => "GresMismatch",
            Self::NodeAnnotationRefused => "NodeAnnotationRefused",
            Self::RecordsKept => "RecordsKept",
            Self::SlurmAnswers => "SlurmAnswers",
            Self::SlurmUnknown => "SlurmUnknown",
            Self::Created => CREATED,
            Self::NotExists => NOT_EXISTS,
            Self::ReservationPending => "ReservationPending",
            Self::ReservationRefused => "ReservationRefused",
            Self::SlurmNodeNotRegistered => "SlurmNodeNotRegistered",
        }
    }
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    True,
    False,
    /// Nobody can be asked.
    Unknown,
}

impl ConditionStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(is_true: bool) -> Self {
        if is_true { Self::True } else { Self::False }
    }
}

/// What a condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// One of [`OURS`].
    pub type_: &'static str,
    pub status: ConditionStatus,
    pub reason: Reason,
    pub message: String,
}

impl ConditionUpdate {
    /// The condition. `lastTransitionTime` stays as it was unless the status changes, or every pass would write.
    pub fn condition(self, generation: Option<i64>, before: &[Condition], now: Time) -> Condition {
        let Self { type_, status, reason, message } = self;
        let status = status.as_str();
        let since =
            before.iter().find(|known| known.type_ == type_ && known.status == status).map(|known| known.last_transition_time.clone());
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.as_str().to_owned(),
            message,
            observed_generation: generation,
            last_transition_time: since.unwrap_or(now),
        }
    }
}
