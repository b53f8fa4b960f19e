//! Workers that leave: those that ended, and those that are too many.

use std::collections::BTreeSet;

use slipway_api::condition::Reason;

use super::{Observed, Stage, Worker, plan_scale_in};
use crate::{
    Action, Plan,
    gate::{Deed, Room, Verdict, gate},
};

/// Deletes workers that ended and workers that are too many, as far as the gate gives leave; answers with the ordinals of the latter. One that is
/// too many is drained first, so that no job comes to it any more, and deleted when the last one has left it.
pub(super) fn plan_removals(observed: &Observed<'_>, plan: &mut Plan) -> BTreeSet<u32> {
    let Observed { workers, replicas, .. } = *observed;
    let mut available = workers.iter().filter(|worker| worker.stage == Stage::Ready).count();
    let surplus = workers.len().saturating_sub(replicas);
    let going = workers.iter().filter(|worker| worker.stage == Stage::Going).count();
    let ended = workers.iter().filter(|worker| worker.stage == Stage::Ended);
    let excess: Vec<&Worker> = plan_scale_in(workers, surplus.saturating_sub(going)).collect();
    let leaving: BTreeSet<u32> = excess.iter().map(|worker| worker.ordinal).collect();
    let mut seen = BTreeSet::new();
    let mut waits = Vec::new();
    for worker in ended.chain(excess).filter(|worker| seen.insert(worker.ordinal)) {
        let costs_a_worker = worker.stage == Stage::Ready;
        let what = format!("delete pod `{}`", worker.name);
        let ends_jobs = worker.in_slurm.would_end_jobs(worker.stage == Stage::Ended);
        let deed = Deed { what, is_ours: true, ends_jobs, costs_a_worker };
        match gate(&deed, Room { available, floor: replicas }) {
            Verdict::Allowed => {
                available -= usize::from(costs_a_worker);
                plan.actions.push(Action::DeleteWorker { name: worker.name.clone(), uid: worker.uid.clone() });
            }
            Verdict::Wait(why) | Verdict::Refused(why) => waits.push(why),
        }
    }
    if let Some(first) = waits.first() {
        let more = if waits.len() > 1 { format!("; and {} more like it", waits.len() - 1) } else { String::new() };
        plan.report.wait(Reason::WaitingForSlurm, format!("{first}{more}; to remove it yourself, delete the pod"));
    }
    leaving
}
