//! Whether Slurm can be asked about the workers, and what is left undone where it cannot.

use std::time::Duration;

use slipway_api::condition::{Reason, SLURM_REACHABLE, ConditionUpdate, ConditionStatus};

use super::Observed;
use crate::Plan;

/// Whether Slurm can be asked about the workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The first question is on its way: whatever was said before is as true as it was.
    Unasked,
    Answers,
    /// The last question failed. What was answered before still counts for so long.
    Fading(Duration),
    /// It answers, and its list of nodes suddenly lacks so many that it may not be whole.
    Partial {
        missing: usize,
    },
    /// With the cause, and what to do about it.
    Unknown {
        cause: String,
        advice: String,
    },
}

/// Says whether Slurm can be asked. One failed question changes nothing: what was answered before is good for a while.
pub(super) fn plan_reach(observed: &Observed<'_>, plan: &mut Plan) {
    let (status, reason, message) = match &observed.reach {
        Reach::Unasked => return,
        Reach::Unknown { cause, advice } => {
            let message = format!(
                "what Slurm says about the workers is not known, as {cause}: \
                 nothing is deleted, drained or undrained until Slurm answers; {advice}"
            );
            (ConditionStatus::False, Reason::SlurmUnknown, message)
        }
        Reach::Partial { missing } => {
            let message = format!(
                "Slurm's list of nodes suddenly lacks {missing} that were in it, so it may not be whole: \
                 workers that are not in it are left alone until that is clear, which takes half a minute"
            );
            (ConditionStatus::False, Reason::SlurmUnknown, message)
        }
        Reach::Answers => (ConditionStatus::True, Reason::SlurmAnswers, "what Slurm says about the workers is known".to_owned()),
        Reach::Fading(good_for) => {
            // Nobody tells when what is known has become too old.
            plan.wake_within(*good_for + Duration::from_secs(1));
            (ConditionStatus::True, Reason::SlurmAnswers, "what Slurm says about the workers is known".to_owned())
        }
    };
    plan.report.condition_updates.push(ConditionUpdate { type_: SLURM_REACHABLE, status, reason, message });
}

#[cfg(test)]
mod tests;
