//! What Slurm says about a worker's node, as far as decisions rest on it.

use jiff::Timestamp;

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
    pub finish: Finish,
}

/// Who keeps a node from taking jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nobody.
    Open,
    /// We drained it because it was to leave, or for the pod that was there before.
    DrainedByUs,
    /// The pod that was there before said farewell.
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
    /// No time, or none that is known.
    Never,
}

impl InSlurm {
    /// Nothing is known, and why.
    pub fn unknown(cause: &str) -> Self {
        let answer = || Answer::Unknown(cause.to_owned());
        Self { is_registered: answer(), is_drained: answer(), is_busy: answer(), hold: Hold::Unknown, finish: Finish::Never }
    }

    /// Whether deleting the pod would end jobs, now or by one that comes in the meantime. A node that still takes jobs is never safe, and where the
    /// pod has ended no job can come.
    pub(super) fn would_end_jobs(&self, has_ended: bool) -> Answer {
        match (&self.is_registered, &self.is_drained) {
            (Answer::No, _) | (_, Answer::Yes) => Answer::No,
            (Answer::Unknown(cause), _) | (_, Answer::Unknown(cause)) => Answer::Unknown(cause.clone()),
            _ if has_ended || self.is_busy == Answer::Yes => self.is_busy.clone(),
            _ => Answer::Unknown("its node is not drained yet and may get one".to_owned()),
        }
    }

    /// Whether it may get new jobs, so that it must be drained before it leaves. One that is down comes back by itself where Slurm is told so.
    pub(super) fn may_get_jobs(&self) -> bool {
        self.is_registered == Answer::Yes && matches!(self.hold, Hold::Open | Hold::DownByUs)
    }
}
