//! Conditions in the status of our resources.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// True if the resource does its work; the message names the first thing that is missing and the remedy.
pub const READY: &str = "Ready";

/// True if the spec is used as written; `True` comes with warnings. Absent if there is nothing to report.
pub const SPEC_ACCEPTED: &str = "SpecAccepted";
/// `False` while the served CustomResourceDefinition lacks our fields, absent otherwise.
pub const SCHEMA_CURRENT: &str = "SchemaCurrent";

/// On a Controller: true if slurmctld and every slurmd run the configuration that the spec requests.
pub const CONFIGURATION_APPLIED: &str = "ConfigurationApplied";

/// On a NodeSet: true if the state of its workers in Slurm is known. While it is not, nothing is done that could kill a job.
pub const SLURM_REACHABLE: &str = "SlurmReachable";

/// On a NodeSet with GPUs or other generic resources: true if the pods' limits, the nodes' `Gres`, slurm.conf and gres.conf, and Slurm's records
/// agree.
pub const GRES_AGREES: &str = "GresAgrees";

/// On a NodeSet whose workers are on Kubernetes nodes with topology or features: true if the Slurm nodes have these.
pub const NODE_ANNOTATIONS_APPLIED: &str = "NodeAnnotationsApplied";

/// On a NodeSet: `False` while Slurm has node records that should be deleted or recreated but have to stay; absent otherwise.
pub const RECORDS_CURRENT: &str = "RecordsCurrent";

/// On a NodeSet: `True` while workers may run jobs of which Slurm has lost its record; absent otherwise.
pub const SLURM_STATE_LOST: &str = "SlurmStateLost";

/// Every condition that we write on our resources.
pub const OURS: [&str; 10] = [
    READY,
    SPEC_ACCEPTED,
    SCHEMA_CURRENT,
    CONFIGURATION_APPLIED,
    SLURM_REACHABLE,
    GRES_AGREES,
    NODE_ANNOTATIONS_APPLIED,
    RECORDS_CURRENT,
    SLURM_STATE_LOST,
    RESERVATION_CREATED,
];

/// On a NodeSet with a scheduled update: true if its reservation exists in Slurm. Other programs know the reasons [`CREATED`] and [`NOT_EXISTS`].
pub const RESERVATION_CREATED: &str = "ReservationCreated";
pub const CREATED: &str = "Created";
pub const NOT_EXISTS: &str = "NotExists";

/// Reason for a condition's status. Programs read reasons: add, do not rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Everything exists and responds.
    AllReady,
    /// The spec requests something impossible.
    InvalidSpec,
    /// A Secret or a key in it is missing.
    SecretMissing,
    /// A ConfigMap is missing.
    ConfigMapMissing,
    /// The Controller that the resource refers to is missing.
    ControllerMissing,
    /// The Controller exists but is not ready.
    ControllerNotReady,
    /// Requested pods are not ready yet.
    PodsNotReady,
    /// Work remains, but it waits for something that protects jobs.
    WaitingForSlurm,
    /// Workers are being replaced with ones from a newer template.
    Updating,
    /// A Kubernetes node gets no worker, because its hostname is taken or invalid.
    HostnameTaken,
    /// Something was just requested and its effect is not visible yet.
    Progressing,
    /// The resource is being deleted.
    Deleting,
    /// The last reconcile failed.
    ReconcileFailed,
    /// The spec requests something that this release does not do yet, so nothing is done.
    NotServed,
    /// The spec is in use, with warnings.
    Warnings,
    /// The configuration has an error that would stop daemons or kill jobs; the last good one stays.
    ConfigurationRefused,
    /// A new configuration is being rolled out.
    ConfigurationPending,
    /// The configuration is published, but Slurm cannot be queried to confirm that it is in use.
    ConfigurationUnverified,
    /// slurmctld runs the configuration, but some slurmd does not yet.
    WorkersBehind,
    /// The Accounting that the resource refers to is missing.
    AccountingMissing,
    /// A claim is missing or cannot be used.
    ClaimUnfit,
    /// No slurmctld is active, or one that is not active had to be deleted.
    NobodyInCharge,
    /// The served CustomResourceDefinition is older than the operator.
    SchemaOlder,
    /// The served CustomResourceDefinition is not of this API, or is missing.
    SchemaForeign,
    /// Two sources disagree about GPUs or other generic resources.
    GresMismatch,
    /// Topology or features on a Kubernetes node are invalid, or Slurm refuses them.
    NodeAnnotationRefused,
    /// Slurm's records should be deleted or recreated but have to stay.
    RecordsKept,
    /// Slurm was queried about the workers and responded.
    SlurmAnswers,
    /// The state of the workers in Slurm is unknown.
    SlurmUnknown,
    /// The reservation for a scheduled update exists in Slurm.
    Created,
    /// The reservation existed and has ended.
    NotExists,
    /// The reservation is not created yet.
    ReservationPending,
    /// The reservation cannot be created or changed as the spec requests.
    ReservationRefused,
    /// Workers are up, but Slurm has no record of them.
    SlurmNodeNotRegistered,
    /// Slurm has no record of workers on which it started jobs.
    SlurmStateLost,
}

impl Reason {
    /// True if someone should investigate instead of waiting.
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
            Self::SlurmStateLost => "SlurmStateLost",
        }
    }
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionStatus {
    True,
    False,
    /// No source can be queried.
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

/// Desired content of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// One of [`OURS`].
    pub type_: &'static str,
    pub status: ConditionStatus,
    pub reason: Reason,
    pub message: String,
}

impl ConditionUpdate {
    /// The condition. `lastTransitionTime` stays unless the status changes; otherwise every reconcile would write.
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
