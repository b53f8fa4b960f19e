//! Slurm's report about a worker's node, as far as decisions depend on it.

use jiff::Timestamp;
use slipway_api::slurm_node::REASON_PREFIX;

use super::Refusal;
use crate::gate::Answer;

/// A worker's node in Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InSlurm {
    /// Slurm has a record of the node.
    pub is_registered: Answer,
    /// The node accepts no new job and has none.
    pub is_drained: Answer,
    /// Slurm reports a job on the node.
    pub is_busy: Answer,
    pub hold: Hold,
    /// The reason on its record, with our prefix if we set it.
    pub reason: String,
    /// Time at which the reason was set.
    pub reason_since: Option<Timestamp>,
    pub finish: Finish,
    /// Its base state and its flags, named as in pod conditions; empty if unknown or without a record.
    pub states: Vec<&'static str>,
    /// Time since which it has responded, or not responded; `None` if no change was observed.
    pub response_since: Option<Timestamp>,
    /// Time since which a job on it has been completing; `None` if none is.
    pub completing_since: Option<Timestamp>,
    /// True if Slurm has not counted the CPUs of a new job yet. For that moment it shows the node as allocated, whatever is free.
    pub is_counting: bool,
    /// The address at which slurmctld reaches it.
    pub address: String,
    /// The comment on its record.
    pub comment: String,
    /// GRES on its record, such as `gpu:8`.
    pub gres: String,
    /// Its network topology, such as `tree:s1`.
    pub topology: String,
    /// Available features, and those that are active.
    pub features: Vec<String>,
    pub active_features: Vec<String>,
    /// Its current reservations, separated by commas.
    pub reservations: String,
    /// True if its features select other partitions than those it is in.
    pub is_misplaced: bool,
    /// Attributes that Slurm recently refused.
    pub refusals: Vec<Refusal>,
}

/// Owner of a node's drain or DOWN state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The node is not held.
    Open,
    /// We drained it.
    DrainedByUs,
    /// We or the preStop hook of the previous pod set it DOWN, and it responds.
    DownByUs,
    /// Someone else, who has to resume it.
    ByOthers,
    Unknown,
}

/// End of a node's last job; earlier ones sort first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finish {
    /// No job is on the node.
    Free,
    At(Timestamp),
    /// A job on the node has no time limit.
    Never,
    Unknown,
}

impl InSlurm {
    /// An unknown node, with the cause.
    pub fn unknown(cause: &str) -> Self {
        let answer = || Answer::Unknown(cause.to_owned());
        Self {
            is_registered: answer(),
            is_drained: answer(),
            is_busy: answer(),
            hold: Hold::Unknown,
            reason: String::new(),
            reason_since: None,
            finish: Finish::Unknown,
            response_since: None,
            completing_since: None,
            is_counting: false,
            states: Vec::new(),
            address: String::new(),
            comment: String::new(),
            gres: String::new(),
            topology: String::new(),
            features: Vec::new(),
            active_features: Vec::new(),
            reservations: String::new(),
            is_misplaced: false,
            refusals: Vec::new(),
        }
    }

    /// The reason without our prefix, or `None` if it is not ours.
    pub fn our_reason(&self) -> Option<&str> {
        self.reason.strip_prefix(REASON_PREFIX)
    }

    /// True if Slurm reports this state or flag.
    pub fn has(&self, state: &str) -> bool {
        self.states.contains(&state)
    }

    /// Answers if deleting the pod would kill jobs, including one that starts in the meantime. A node that still accepts jobs is never safe. No job
    /// starts if the pod has ended, or on a node that is DOWN and not responding: that node may not be ours to drain.
    pub(super) fn would_end_jobs(&self, has_ended: bool) -> Answer {
        let gets_none = has_ended || (self.has("Down") && self.has("NotResponding"));
        match (&self.is_registered, &self.is_drained) {
            (Answer::No, _) | (_, Answer::Yes) => Answer::No,
            (Answer::Unknown(cause), _) | (_, Answer::Unknown(cause)) => Answer::Unknown(cause.clone()),
            _ if gets_none || self.is_busy == Answer::Yes => self.is_busy.clone(),
            _ => Answer::Unknown("its node is not drained yet and may get one".to_owned()),
        }
    }

    /// True if it may get new jobs and must be drained before its pod is deleted. A DOWN node resumes by itself if Slurm is configured so.
    pub(super) fn may_get_jobs(&self) -> bool {
        self.is_registered == Answer::Yes && matches!(self.hold, Hold::Open | Hold::DownByUs)
    }
}
