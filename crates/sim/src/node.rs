//! Node records of the stand-in.

use serde_json::json;

use crate::template::Fields;

/// slurmctld's record of a node.
#[allow(clippy::struct_excessive_bools, reason = "Slurm has these flags, in any combination")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    pub name: String,
    pub kind: NodeKind,
    pub is_down: bool,
    pub is_draining: bool,
    pub is_failing: bool,
    /// True if slurmctld did not accept the registration of its slurmd.
    pub is_invalid: bool,
    /// Not responding until then: Slurm shows this after an undrain.
    pub silent_until: u64,
    /// Processes of an ended job remain until then.
    pub completing_until: u64,
    /// True if the slurmd is gone and slurmctld has not noticed.
    pub is_dead: bool,
    pub cpus: u64,
    pub alloc_cpus: u64,
    pub memory: u64,
    pub features: Vec<String>,
    pub active_features: Vec<String>,
    pub reason: String,
    pub reason_at: u64,
    pub reason_by: String,
    pub comment: String,
    /// Resources besides CPUs and memory.
    pub gres: String,
    pub extra: String,
    pub topology: String,
    pub address: String,
    pub started_at: u64,
    pub last_busy: u64,
}

/// Origin of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A slurmd registered itself.
    Dynamic,
    /// Created over REST: hidden until its slurmd registers.
    Future,
    /// Created over REST: powered down until it is needed.
    Cloud,
    /// Created over REST: has no slurmd.
    External,
}

impl NodeRecord {
    pub fn new(name: &str, kind: NodeKind, now: u64) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            is_down: false,
            is_draining: false,
            is_failing: false,
            is_invalid: false,
            silent_until: 0,
            completing_until: 0,
            is_dead: false,
            cpus: 2,
            alloc_cpus: 0,
            memory: 24_103,
            features: Vec::new(),
            active_features: Vec::new(),
            reason: String::new(),
            reason_at: 0,
            reason_by: String::new(),
            comment: String::new(),
            gres: String::new(),
            extra: String::new(),
            topology: String::new(),
            address: name.to_owned(),
            started_at: if kind == NodeKind::Dynamic { now } else { 0 },
            last_busy: now,
        }
    }

    pub fn is_busy(&self, now: u64) -> bool {
        self.alloc_cpus > 0 || self.completing_until > now
    }

    /// True if a job can be allocated to it.
    pub fn takes_jobs(&self, now: u64) -> bool {
        let is_well = self.kind == NodeKind::Dynamic && !self.is_down && !self.is_draining && !self.is_failing;
        is_well && self.alloc_cpus < self.cpus && self.completing_until <= now
    }

    /// Base state and flags, in the order in which Slurm lists them.
    pub fn states(&self, now: u64, is_reserved: bool, in_maintenance: bool) -> Vec<&'static str> {
        let base = if self.is_down {
            "DOWN"
        } else if self.alloc_cpus == 0 {
            "IDLE"
        } else if self.alloc_cpus < self.cpus && self.last_busy < now {
            "MIXED"
        } else {
            "ALLOCATED"
        };
        let flags = [
            (is_reserved, "RESERVED"),
            (self.kind == NodeKind::External, "EXTERNAL"),
            (self.kind == NodeKind::Cloud, "CLOUD"),
            (self.is_draining, "DRAIN"),
            (self.completing_until > now, "COMPLETING"),
            (self.silent_until > now, "NOT_RESPONDING"),
            (self.kind == NodeKind::Cloud, "POWERED_DOWN"),
            (self.is_failing, "FAIL"),
            (in_maintenance, "MAINTENANCE"),
            (self.is_invalid, "INVALID_REG"),
            (true, "DYNAMIC_NORM"),
        ];
        std::iter::once(base).chain(flags.into_iter().filter(|(is, _)| *is).map(|(_, word)| word)).collect()
    }

    /// Its own fields, whatever the version.
    pub fn fields(&self, now: u64, states: &[&str], partitions: &[&str], reservation: &str) -> Fields {
        let number = |number: u64| json!({"set": true, "infinite": false, "number": number});
        // As observed on 26.05.5: the state shows a job while its CPUs are not counted (yet).
        let counted = if self.last_busy < now { self.alloc_cpus } else { 0 };
        vec![
            ("name", json!(self.name)),
            ("hostname", json!(self.name)),
            ("address", json!(self.address)),
            ("state", json!(states)),
            ("cpus", json!(self.cpus)),
            ("effective_cpus", json!(self.cpus)),
            ("alloc_cpus", json!(counted)),
            ("alloc_idle_cpus", json!(self.cpus.saturating_sub(counted))),
            ("real_memory", json!(self.memory)),
            ("features", json!(self.features)),
            ("active_features", json!(self.active_features)),
            ("partitions", json!(partitions)),
            ("reason", json!(self.reason)),
            ("reason_changed_at", number(self.reason_at)),
            ("reason_set_by_user", json!(self.reason_by)),
            ("comment", json!(self.comment)),
            ("gres", json!(self.gres)),
            ("extra", json!(self.extra)),
            ("topology", json!(self.topology)),
            ("reservation", json!(reservation)),
            ("slurmd_start_time", number(self.started_at)),
            ("last_busy", number(self.last_busy)),
        ]
    }
}
