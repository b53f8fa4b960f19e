//! Workers of the other scaling mode, after a switch: they leave when their jobs have ended, and no faster than those of the present mode come.

use slipway_api::slurm_node::SCALE_IN;

use super::{Observed, Stage, Worker, scale_in::ranked};

/// Chooses those that leave now. Those that serve nobody cost nothing; of the others so many that enough workers of both modes serve on.
///
/// Where no new ones can be made, as without a Controller, none is chosen. And who was chosen stays so, or every new job would turn the plan around.
pub(super) fn choose<'a>(observed: &Observed<'a>) -> Vec<&'a Worker> {
    let Observed { workers, replicas, max_unavailable, now, problem, new_workers_wait, .. } = observed;
    if problem.is_some() || matches!(observed.layout, super::Layout::Untold) {
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

/// Whether it was chosen in an earlier pass: its node says so.
fn is_chosen(worker: &Worker) -> bool {
    worker.in_slurm.our_reason() == Some(SCALE_IN) && worker.in_slurm.has("Drain")
}
