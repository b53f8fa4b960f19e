//! Drains of workers' nodes: a cause from Kubernetes, a user or the plan becomes a drain of the node, and the drain is removed with its cause.

use std::collections::{BTreeMap, BTreeSet};

use slipway_api::slurm_node::{POD_TERMINATING, SCALE_IN, UPDATE};

use super::{Hold, InSlurm, Observed, Stage, Worker, removal::Leaving, replacement_backoff::until};
use crate::{Action, Plan, gate::Answer};

/// Drains, undrains and resumes nodes. Nodes held by others, nodes with a recent command to Slurm and those that the plan has
/// `set_down` are left alone.
pub(super) fn plan_holds(observed: &Observed<'_>, leaving: &Leaving, set_down: &BTreeSet<String>, plan: &mut Plan) {
    let (mut to_drain, mut to_undrain, mut to_resume) = (BTreeMap::<String, Vec<String>>::new(), Vec::new(), Vec::new());
    let staying = |worker: &&Worker| !leaving.deleted.contains(&worker.uid) && !set_down.contains(&worker.node);
    let speakers = speakers(observed, leaving);
    for worker in observed.workers.iter().filter(staying).filter(|worker| speakers.get(worker.node.as_str()) == Some(&worker.name.as_str()))
    {
        match cause(worker, observed, leaving) {
            Some(cause) if is_to_drain(worker, &cause) => to_drain.entry(cause).or_default().push(worker.node.clone()),
            Some(_) => {}
            None if worker.stage == Stage::Ready => match lift(&worker.in_slurm) {
                Some(Lift::Undrain) => to_undrain.push(worker.node.clone()),
                Some(Lift::Resume) => to_resume.push(worker.node.clone()),
                None => {}
            },
            None => wake_when_time_is_up(worker, observed, plan),
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

/// The pod that decides for each Slurm node. Two pods on one Kubernetes node share one Slurm node: the pod to be deleted decides until it is gone,
/// because its preStop hook sets the node DOWN. Otherwise a cause on one pod drains the node for both.
fn speakers<'a>(observed: &Observed<'a>, leaving: &Leaving) -> BTreeMap<&'a str, &'a str> {
    let mut speakers: BTreeMap<&str, &Worker> = BTreeMap::new();
    let weight = |worker: &Worker| {
        let is_deleted = leaving.deleted.contains(&worker.uid);
        let leaves = leaving.contains(&worker.name) && !is_deleted;
        (leaves, is_deleted || worker.stage == Stage::Going, cause(worker, observed, leaving).is_some())
    };
    for worker in observed.workers {
        let speaker = speakers.entry(worker.node.as_str()).or_insert(worker);
        if speaker.name != worker.name && weight(worker) > weight(speaker) {
            *speaker = worker;
        }
    }
    speakers.into_iter().map(|(node, worker)| (node, worker.name.as_str())).collect()
}

/// The cause for draining a worker, or `None`; the first one counts. The reason for a scale-in, and for an update, is the same for all workers, so
/// that many are drained in one command.
fn cause(worker: &Worker, observed: &Observed<'_>, leaving: &Leaving) -> Option<String> {
    let host = worker.host.as_ref().and_then(|host| host.cordon.clone());
    match () {
        () if leaving.scaled.contains(&worker.name) || leaving.displaced.contains(&worker.name) => Some(SCALE_IN.to_owned()),
        () if leaving.outdated.contains(&worker.name) => Some(UPDATE.to_owned()),
        () if host.is_some() => host,
        () if worker.is_cordoned => Some(format!("Pod ({}/{}) was cordoned", observed.policy.namespace, worker.name)),
        // Its kubelet is unreachable, otherwise the preStop hook would have set the node DOWN. Jobs still running there continue.
        () if worker.stage == Stage::Going && worker.gone_by.is_some_and(|gone_by| gone_by <= observed.now) => {
            Some(POD_TERMINATING.to_owned())
        }
        () => None,
    }
}

/// True if the node is to be drained: it is not drained yet, or we drained it for another cause.
fn is_to_drain(worker: &Worker, cause: &str) -> bool {
    let Worker { in_slurm, stage, .. } = worker;
    let stays = matches!(stage, Stage::Starting | Stage::Ready);
    match in_slurm.hold {
        _ if in_slurm.is_registered != Answer::Yes => false,
        Hold::Open => true,
        // A DOWN node resumes by itself when its slurmd registers, if Slurm is configured so.
        Hold::DownByUs => stays,
        Hold::DrainedByUs => stays && in_slurm.our_reason() != Some(cause),
        Hold::ByOthers | Hold::Unknown => false,
    }
}

enum Lift {
    /// Clears only the drain.
    Undrain,
    /// Clears both drain and DOWN.
    Resume,
}

/// The command that clears a hold of ours, or `None`. An undrain does not clear DOWN. A drained and DOWN node that does not respond is resumed only
/// when it responds again.
fn lift(in_slurm: &InSlurm) -> Option<Lift> {
    match in_slurm.hold {
        Hold::DrainedByUs if !in_slurm.has("Down") => Some(Lift::Undrain),
        Hold::DrainedByUs => (!in_slurm.has("NotResponding")).then_some(Lift::Resume),
        Hold::DownByUs => Some(Lift::Resume),
        Hold::Open | Hold::ByOthers | Hold::Unknown => None,
    }
}

/// Requeues for the end of the grace period: no watch reports a pod that did not end in time.
fn wake_when_time_is_up(worker: &Worker, observed: &Observed<'_>, plan: &mut Plan) {
    if let Some(gone_by) = worker.gone_by.filter(|_| worker.stage == Stage::Going && is_to_drain(worker, POD_TERMINATING)) {
        plan.wake_within(until(gone_by, observed.now));
    }
}
