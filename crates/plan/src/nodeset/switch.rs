//! Workers of the other scaling mode after a switch: they are deleted when their jobs have ended, and no faster than new workers become available.

use slipway_api::slurm_node::SCALE_IN;

use super::{Observed, Policy, Stage, Worker, scale_in::ranked};

/// Chooses the workers to delete now. Workers that do not serve cost nothing. Of the others, only so many are chosen that enough workers of both
/// modes keep serving.
///
/// If no new workers can be created, for example without a Controller, none is chosen. A chosen worker stays chosen, because otherwise every new job
/// would change the plan.
pub(super) fn choose<'a>(observed: &Observed<'a>) -> Vec<&'a Worker> {
    let Observed { workers, now, problem, new_workers_wait, policy: Policy { replicas, max_unavailable, .. }, .. } = observed;
    if problem.is_some() || matches!(observed.policy.layout, super::Layout::Untold) {
        return Vec::new();
    }
    let displaced = || workers.iter().filter(|worker| observed.is_displaced(worker) && worker.stage != Stage::Going);
    let mut chosen: Vec<&Worker> = displaced().filter(|worker| is_chosen(worker)).collect();
    if new_workers_wait.is_some() {
        return chosen;
    }
    chosen.extend(displaced().filter(|worker| !is_chosen(worker) && !worker.serves(*now)));
    let sound: Vec<&Worker> = displaced().filter(|worker| !is_chosen(worker) && worker.serves(*now)).collect();
    let own = observed.counted().into_iter().filter(|worker| worker.serves(*now) && worker.in_slurm.may_get_jobs()).count();
    let floor = replicas.saturating_sub(*max_unavailable);
    let spare = (own + sound.len()).saturating_sub(floor);
    chosen.extend(ranked(sound).into_iter().take(spare));
    chosen
}

/// True if it was chosen in an earlier reconcile, as recorded in the drain reason of its node.
fn is_chosen(worker: &Worker) -> bool {
    worker.in_slurm.our_reason() == Some(SCALE_IN) && worker.in_slurm.has("Drain")
}
