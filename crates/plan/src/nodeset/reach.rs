//! State of the connection to Slurm, and the limits while Slurm is unreachable.

use std::time::Duration;

use slipway_api::condition::{ConditionStatus, ConditionUpdate, Reason, SLURM_REACHABLE};

use super::Observed;
use crate::Plan;

/// State of the connection to Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The first query has not finished: the last report stays valid.
    Unasked,
    Answers,
    /// The last query failed. The last snapshot stays valid for this long.
    Fading(Duration),
    /// Slurm responds, but its node list suddenly lacks this many nodes and may be incomplete.
    Partial {
        missing: usize,
    },
    /// With the cause and a remedy.
    Unknown {
        cause: String,
        advice: String,
    },
}

/// Sets the condition `SlurmReachable`. One failed query changes nothing: the last snapshot stays valid for a while.
pub(super) fn plan_reach(observed: &Observed<'_>, plan: &mut Plan) {
    let (status, reason, message) = match &observed.slurm.reach {
        Reach::Unasked => return,
        Reach::Unknown { cause, advice } => {
            let message = format!(
                "Slurm's data about the workers is not current, because {cause}: \
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
        Reach::Answers => {
            (ConditionStatus::True, Reason::SlurmAnswers, "Slurm responds, and its data about the workers is current".to_owned())
        }
        Reach::Fading(good_for) => {
            // No watch event arrives when the snapshot expires.
            plan.wake_within(*good_for + Duration::from_secs(1));
            (ConditionStatus::True, Reason::SlurmAnswers, "Slurm responds, and its data about the workers is current".to_owned())
        }
    };
    plan.report.condition_updates.push(ConditionUpdate { type_: SLURM_REACHABLE, status, reason, message });
}

#[cfg(test)]
mod tests;
