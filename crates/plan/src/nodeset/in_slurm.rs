//! What Slurm says about a worker's node, as far as decisions rest on it.

use jiff::Timestamp;
use slipway_api::slurm_node::REASON_PREFIX;

use super::Refusal;
use crate::gate::Answer;

/// A worker's node in Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InSlurm {
    /// Whether Slurm has a record of it.
    pub is_registered: Answer,
    /// Whether it takes no new job and has none.
    pub is_drained: Answer,
    /// Whether a job is on it.
    pub is_busy: Answer,
    pub hold: Hold,
    /// Why it is held, in the words that stand on its record, with our prefix where they are ours.
    pub reason: String,
    /// Since when those words have stood there.
    pub reason_since: Option<Timestamp>,
    pub finish: Finish,
    /// Its base state and its flags, in the words of pod conditions; empty where nothing is known or there is no record.
    pub states: Vec<&'static str>,
    /// Since when it has responded, or not, as it does now; `None` where no change of that was seen.
    pub response_since: Option<Timestamp>,
    /// What stands in its comment.
    pub comment: String,
    /// What it says it has, such as `gpu:8`.
    pub gres: String,
    /// Where it is in the network, such as `tree:s1`.
    pub topology: String,
    /// What it can have, and what it has.
    pub features: Vec<String>,
    pub active_features: Vec<String>,
    /// The reservations that it is in now, with commas between.
    pub reservations: String,
    /// Whether its features ask for other partitions than those it is in.
    pub is_misplaced: bool,
    /// What Slurm did not take a while ago.
    pub refusals: Vec<Refusal>,
}

/// Who keeps a node from taking jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nobody.
    Open,
    /// We drained it.
    DrainedByUs,
    /// It is down by our hand or by the preStop hook of the previous pod, and it responds.
    DownByUs,
    /// Somebody else; it is theirs to lift.
    ByOthers,
    Unknown,
}

/// When the last job of a node ends; the sooner, the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finish {
    /// No job is on it.
    Free,
    At(Timestamp),
    /// A job on it has no limit.
    Never,
    Unknown,
}

impl InSlurm {
    /// Nothing is known, and why.
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
            states: Vec::new(),
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

    /// What we wrote as its reason, without our prefix; `None` where it is not ours.
    pub fn our_reason(&self) -> Option<&str> {
        self.reason.strip_prefix(REASON_PREFIX)
    }

    /// Whether Slurm says that it has this state or flag.
    pub fn has(&self, state: &str) -> bool {
        self.states.contains(&state)
    }

    /// Whether deleting the pod would end jobs, now or by one that comes in the meantime. A node that still takes jobs is never safe. Where the
    /// pod has ended no job can come, nor to a node that is down and does not answer: that one may not be ours to drain.
    pub(super) fn would_end_jobs(&self, has_ended: bool) -> Answer {
        let gets_none = has_ended || (self.has("Down") && self.has("NotResponding"));
        match (&self.is_registered, &self.is_drained) {
            (Answer::No, _) | (_, Answer::Yes) => Answer::No,
            (Answer::Unknown(cause), _) | (_, Answer::Unknown(cause)) => Answer::Unknown(cause.clone()),
            _ if gets_none || self.is_busy == Answer::Yes => self.is_busy.clone(),
            _ => Answer::Unknown("its node is not drained yet and may get one".to_owned()),
        }
    }

    /// Whether it may get new jobs, so that it must be drained before it leaves. One that is down comes back by itself where Slurm is told so.
    pub(super) fn may_get_jobs(&self) -> bool {
        self.is_registered == Answer::Yes && matches!(self.hold, Hold::Open | Hold::DownByUs)
    }
}
