//! Whom Slurm may give jobs: what Kubernetes, users and the plan say about a worker becomes a drain of its node, and the drain goes with its cause.

use std::collections::{BTreeMap, BTreeSet};

use slipway_api::slurm_node::SCALE_IN;

use super::{Hold, Observed, Stage, Worker};
use crate::{Action, Plan};

/// Drains, undrains and resumes. What others decided about a node stays.
pub(super) fn plan_holds(observed: &Observed<'_>, leaving: &BTreeSet<u32>, plan: &mut Plan) {
    let deleted: BTreeSet<&str> = plan.actions.iter().filter_map(deleted).collect();
    let (mut to_drain, mut to_undrain, mut to_resume) = (BTreeMap::<String, Vec<String>>::new(), Vec::new(), Vec::new());
    for worker in observed.workers.iter().filter(|worker| !deleted.contains(worker.uid.as_str())) {
        match (cause(worker, leaving), worker.in_slurm.hold) {
            (Some(cause), _) if worker.in_slurm.may_get_jobs() => to_drain.entry(cause).or_default().push(worker.node.clone()),
            (None, Hold::DrainedByUs) if worker.stage == Stage::Ready => to_undrain.push(worker.node.clone()),
            (None, Hold::DownByUs) if worker.stage == Stage::Ready => to_resume.push(worker.node.clone()),
            _ => {}
        }
    }
    plan.actions.extend(to_drain.into_iter().map(|(reason, nodes)| Action::Drain { nodes, reason }));
    if !to_undrain.is_empty() {
        plan.actions.push(Action::Undrain { nodes: to_undrain });
    }
    if !to_resume.is_empty() {
        plan.actions.push(Action::Resume { nodes: to_resume });
    }
}

/// Why no job should come to a worker, if so.
fn cause(worker: &Worker, leaving: &BTreeSet<u32>) -> Option<String> {
    leaving.contains(&worker.ordinal).then(|| SCALE_IN.to_owned())
}

fn deleted(action: &Action) -> Option<&str> {
    match action {
        Action::DeleteWorker { uid, .. } => Some(uid),
        _ => None,
    }
}
