//! Lost Slurm state: slurmctld has no record of a node on which it started jobs, because its state was lost or it belongs to another cluster.
//!
//! The processes of those jobs may still run in the pod, so "no record" does not mean "no job". The pod shows the last state that Slurm reported, and
//! keeps it: that is the evidence, and it survives a restart of the operator.

use jiff::Timestamp;
use slipway_api::{
    annotation::FORCE_DELETE,
    condition::{ConditionStatus, ConditionUpdate, Reason, SLURM_STATE_LOST},
    slurm_node::CONDITION_PREFIX,
};

use super::{InSlurm, Observed, Stage, Worker};
use crate::{Plan, gate::Answer};

/// States of a node with jobs, named as in pod conditions.
const BUSY: [&str; 3] = ["Allocated", "Completing", "Mixed"];
/// Reason for treating the state in Slurm as unknown.
const LOST: &str = "Slurm has no record of its node any more, and a job was running there when it last had one";

/// Marks workers that may run jobs which Slurm does not know any more, and makes everything about them unknown, so that nothing is done to their pods.
/// A user who permits jobs to be killed releases them.
pub fn note_lost_state(workers: &mut [Worker], now: Timestamp) {
    for worker in workers {
        let lives = matches!(worker.stage, Stage::Starting | Stage::Ready);
        if lives && worker.in_slurm.is_registered == Answer::No && worker.shows_job() && !worker.job_policy.may_kill_jobs(now) {
            worker.is_lost = true;
            worker.in_slurm = InSlurm::unknown(LOST);
        }
    }
}

impl Worker {
    /// True if the pod shows a job of which Slurm has not reported the end.
    pub(super) fn shows_job(&self) -> bool {
        let is_busy = BUSY.iter().any(|state| self.shown.conditions.contains_key(&format!("{CONDITION_PREFIX}{state}")));
        is_busy || self.shown.is_protected || self.shown.deadline.is_some()
    }
}

/// Reports workers that may run lost jobs, by the condition `SlurmStateLost` and as a wait.
pub(super) fn plan_lost_state(observed: &Observed<'_>, plan: &mut Plan) {
    let lost: Vec<&Worker> = observed.workers.iter().filter(|worker| worker.is_lost).collect();
    let Some(first) = lost.first() else { return };
    let unknown = observed.workers.iter().filter(|worker| worker.is_unregistered()).count() + lost.len();
    let message = format!(
        "Slurm has no record of {unknown} of {} workers; on {} of them, such as `{}`, jobs were running that Slurm does not know any more: their pods \
         are kept; restore the state of slurmctld, or release a pod and kill what runs there with the annotation `{FORCE_DELETE}: \"true\"`",
        observed.policy.replicas,
        lost.len(),
        first.name,
    );
    plan.report.wait(Reason::SlurmStateLost, message.clone());
    plan.report.condition_updates.push(ConditionUpdate {
        type_: SLURM_STATE_LOST,
        status: ConditionStatus::True,
        reason: Reason::SlurmStateLost,
        message,
    });
}

#[cfg(test)]
mod tests;
