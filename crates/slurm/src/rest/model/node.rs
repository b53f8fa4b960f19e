//! Slurm's node records.

use serde::{Deserialize, Serialize};

use super::flag::{Flags, flags};
use super::lenient;
use super::number::Number;

flags! {
    /// Exactly one base state, and additional flags.
    NodeState {
        Unknown = "UNKNOWN", Down = "DOWN", Idle = "IDLE", Allocated = "ALLOCATED", Error = "ERROR", Mixed = "MIXED", Future = "FUTURE",
        Invalid = "INVALID",
        Reserved = "RESERVED", Undrain = "UNDRAIN", Cloud = "CLOUD", Resume = "RESUME", Drain = "DRAIN", Completing = "COMPLETING",
        NotResponding = "NOT_RESPONDING", PoweredDown = "POWERED_DOWN", Fail = "FAIL", PoweringUp = "POWERING_UP",
        Maintenance = "MAINTENANCE", RebootRequested = "REBOOT_REQUESTED", RebootCanceled = "REBOOT_CANCELED",
        PoweringDown = "POWERING_DOWN", DynamicFuture = "DYNAMIC_FUTURE", RebootIssued = "REBOOT_ISSUED", Planned = "PLANNED",
        InvalidReg = "INVALID_REG", PowerDown = "POWER_DOWN", PowerUp = "POWER_UP", PowerDrain = "POWER_DRAIN",
        DynamicNorm = "DYNAMIC_NORM", External = "EXTERNAL", Blocked = "BLOCKED", PowerDownAsap = "POWER_DOWN_ASAP",
        PowerDownForce = "POWER_DOWN_FORCE",
    }
}

pub type NodeStates = Flags<NodeState>;

impl NodeStates {
    /// True if it has a known base state. Without one, a missing flag proves nothing.
    pub fn is_clear(&self) -> bool {
        const BASES: &[NodeState] =
            &[NodeState::Down, NodeState::Idle, NodeState::Allocated, NodeState::Error, NodeState::Mixed, NodeState::Future];
        self.has_any(BASES)
    }

    /// True if a job runs on the node or is completing.
    pub fn is_busy(&self) -> bool {
        self.has_any(&[NodeState::Allocated, NodeState::Mixed, NodeState::Completing])
    }

    /// True if it takes no new job and has none.
    pub fn is_drained(&self) -> bool {
        self.has(&NodeState::Drain) && !self.is_busy()
    }

    /// True if it can get a job now, according to the record.
    pub fn is_usable(&self) -> bool {
        const NOT_NOW: &[NodeState] = &[
            NodeState::Drain,
            NodeState::Fail,
            NodeState::NotResponding,
            NodeState::Maintenance,
            NodeState::PoweredDown,
            NodeState::PoweringDown,
            NodeState::RebootRequested,
            NodeState::RebootIssued,
            NodeState::InvalidReg,
        ];
        self.has_any(&[NodeState::Idle, NodeState::Mixed, NodeState::Allocated]) && !self.has_any(NOT_NOW)
    }

    /// True if the state will change by itself soon.
    pub fn is_in_transition(&self) -> bool {
        self.has_any(&[NodeState::Completing, NodeState::PoweringUp, NodeState::PoweringDown, NodeState::RebootIssued])
            || (self.has(&NodeState::Drain) && self.is_busy())
    }
}

/// A node record. Load and free memory are left out on purpose: they change although nothing else does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Node {
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    #[serde(deserialize_with = "lenient::text")]
    pub hostname: String,
    #[serde(deserialize_with = "lenient::text")]
    pub address: String,
    pub state: NodeStates,
    pub next_state_after_reboot: NodeStates,
    #[serde(deserialize_with = "lenient::text")]
    pub reason: String,
    pub reason_changed_at: Number,
    #[serde(deserialize_with = "lenient::text")]
    pub reason_set_by_user: String,
    #[serde(deserialize_with = "lenient::text")]
    pub comment: String,
    #[serde(deserialize_with = "lenient::text")]
    pub extra: String,
    #[serde(deserialize_with = "lenient::words")]
    pub features: Vec<String>,
    #[serde(deserialize_with = "lenient::words")]
    pub active_features: Vec<String>,
    #[serde(deserialize_with = "lenient::words")]
    pub partitions: Vec<String>,
    #[serde(deserialize_with = "lenient::wide")]
    pub cpus: u64,
    /// May be 0 although a job runs: only the state is reliable.
    #[serde(deserialize_with = "lenient::wide")]
    pub alloc_cpus: u64,
    /// MiB.
    #[serde(deserialize_with = "lenient::wide")]
    pub real_memory: u64,
    /// MiB.
    #[serde(deserialize_with = "lenient::wide")]
    pub alloc_memory: u64,
    #[serde(deserialize_with = "lenient::wide")]
    pub sockets: u64,
    /// Per socket.
    #[serde(deserialize_with = "lenient::wide")]
    pub cores: u64,
    /// Per core.
    #[serde(deserialize_with = "lenient::wide")]
    pub threads: u64,
    /// Cores that no job gets.
    #[serde(deserialize_with = "lenient::wide")]
    pub specialized_cores: u64,
    /// MiB that no job gets.
    #[serde(deserialize_with = "lenient::wide")]
    pub specialized_memory: u64,
    #[serde(deserialize_with = "lenient::text")]
    pub gres: String,
    #[serde(deserialize_with = "lenient::text")]
    pub gres_used: String,
    #[serde(deserialize_with = "lenient::text")]
    pub reservation: String,
    #[serde(deserialize_with = "lenient::text")]
    pub instance_id: String,
    #[serde(deserialize_with = "lenient::text")]
    pub topology: String,
    #[serde(deserialize_with = "lenient::text")]
    pub version: String,
    #[serde(deserialize_with = "lenient::wide")]
    pub weight: u64,
    pub boot_time: Number,
    /// Changes when slurmd has read a new configuration.
    pub slurmd_start_time: Number,
    pub last_busy: Number,
    pub resume_after: Number,
}

/// A change of one or several node records. Omitted fields stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeUpdate {
    #[serde(skip_serializing_if = "Flags::is_empty")]
    pub state: NodeStates,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Option<String>,
    /// Features can be removed only together with the active ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "features_act")]
    pub active_features: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "topology_str")]
    pub topology: Option<String>,
    /// One element; Slurm wants a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<[String; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<Number>,
}

impl NodeUpdate {
    /// Takes no new jobs; running jobs continue.
    pub fn drain(reason: impl Into<String>) -> Self {
        Self { state: [NodeState::Drain].into(), reason: Some(reason.into()), ..Self::default() }
    }

    /// Clears the drain and nothing else. Slurm then marks the node as not responding until its next ping, a second or two later, even if it was not
    /// drained: send it only to drained nodes.
    pub fn undrain() -> Self {
        Self { state: [NodeState::Undrain].into(), ..Self::default() }
    }

    /// Clears DOWN, FAIL and drain. For several nodes, Slurm refuses the whole request with 2180 if one has nothing to clear, although the others
    /// were cleared.
    pub fn resume() -> Self {
        Self { state: [NodeState::Resume].into(), ..Self::default() }
    }

    /// Kills or requeues the jobs on the node.
    pub fn down(reason: impl Into<String>) -> Self {
        Self { state: [NodeState::Down].into(), reason: Some(reason.into()), ..Self::default() }
    }

    pub fn comment(comment: impl Into<String>) -> Self {
        Self { comment: Some(comment.into()), ..Self::default() }
    }

    /// Sets both lists, because Slurm does not remove an active feature.
    pub fn features(features: &[String]) -> Self {
        Self { features: Some(features.to_vec()), active_features: Some(features.to_vec()), ..Self::default() }
    }

    pub fn topology(place: impl Into<String>) -> Self {
        Self { topology: Some(place.into()), ..Self::default() }
    }

    /// Sets the address at which slurmctld reaches slurmd.
    pub fn address(address: impl Into<String>) -> Self {
        Self { address: Some([address.into()]), ..Self::default() }
    }
}
