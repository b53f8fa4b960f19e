//! What becomes of the claims of workers. Who owns a claim decides it: Kubernetes deletes what its owner leaves behind.
//!
//! A claim belongs to nobody, or to the NodeSet where it is to go with that. Only a worker that really leaves because the NodeSet shrinks takes its
//! claims along, where the user wants that: it gets them right before it is deleted. Until then nothing has happened to them, so a scale-in that is
//! taken back costs nothing, and a worker that is cordoned, ends, is lost or is deleted by somebody else leaves its claims to the next one.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use slipway_api::{ClaimRetention, Retention, condition::Reason, name};

use super::{Observed, Stage, Worker, worker::claimant};
use crate::{Action, ClaimId, Plan};

/// Claims that get another owner in one pass.
const MAX_CHANGES: usize = 250;
/// When to look again at one that is being deleted.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// When the others have their turn.
const NEXT_CHANGES: Duration = Duration::from_secs(1);

/// A claim that was made from a template of the NodeSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub name: String,
    pub uid: String,
    /// The worker that it is for: the name of its pod or, in DaemonSet mode, what [`Worker::claimant`] says.
    pub pod: String,
    /// Whether it is being deleted.
    pub is_going: bool,
    pub keeper: Keeper,
}

/// Who controls a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeper {
    Nobody,
    /// The NodeSet: it goes with that.
    NodeSet,
    /// The pod with this UID: it goes with that.
    Pod(String),
    /// A NodeSet of the same name that is gone: it will go as well.
    Former,
    /// Somebody else, in words; it is theirs to decide.
    Other(String),
}

impl Claim {
    fn id(&self) -> ClaimId {
        ClaimId { name: self.name.clone(), uid: self.uid.clone() }
    }

    /// Whether it will be gone soon, so that no new pod may rely on it: it is being deleted, or its owner is gone.
    fn is_lost(&self, workers: &BTreeMap<String, &Worker>) -> bool {
        match &self.keeper {
            _ if self.is_going => true,
            Keeper::Pod(uid) => workers.get(&self.pod).is_none_or(|worker| worker.uid != *uid),
            Keeper::Former => true,
            Keeper::Nobody | Keeper::NodeSet | Keeper::Other(_) => false,
        }
    }
}

/// Takes out of `creations` the workers whose claim is about to go, and says so: whatever they wrote there would be lost.
pub(super) fn without_claims_that_go(creations: Vec<Action>, observed: &Observed<'_>, plan: &mut Plan) -> Vec<Action> {
    let workers = by_claimant(observed);
    let lost: BTreeMap<&str, &Claim> =
        observed.claims.iter().filter(|claim| claim.is_lost(&workers)).map(|claim| (claim.pod.as_str(), claim)).collect();
    let waits = |action: &Action| match action {
        Action::CreateWorker { slot, name, hostname } => lost.get(claimant(slot, name, hostname, observed.nodeset).as_str()).copied(),
        _ => None,
    };
    let held: Vec<&Claim> = creations.iter().filter_map(waits).collect();
    if let Some(first) = held.first() {
        let more = if held.len() > 1 { format!("; and {} more like it", held.len() - 1) } else { String::new() };
        let why = format!("pod `{}` waits until claim `{}`, which is being deleted, is gone{more}", first.pod, first.name);
        plan.report.wait(Reason::Progressing, why);
        // Not every one of them is watched.
        plan.wake_within(LOOK_AGAIN);
    }
    creations.into_iter().filter(|action| waits(action).is_none()).collect()
}

/// Gives claims the owners that they should have. `leaving` are the names of the workers that are too many.
pub(super) fn plan_claims(observed: &Observed<'_>, leaving: &BTreeSet<String>, plan: &mut Plan) {
    let ClaimRetention { when_deleted, when_scaled } = observed.retention;
    let workers = by_claimant(observed);
    let deleted: BTreeSet<&str> = plan.actions.iter().filter_map(deleted).collect();
    let takes_along =
        |worker: &Worker| when_scaled == Retention::Delete && leaving.contains(&worker.name) && deleted.contains(worker.uid.as_str());
    let kept = if when_deleted == Retention::Delete { Keeper::NodeSet } else { Keeper::Nobody };
    let mut handed: BTreeMap<String, Vec<ClaimId>> = BTreeMap::new();
    let mut changes = Vec::new();
    for claim in observed.claims.iter().filter(|claim| !claim.is_lost(&workers)) {
        let worker = workers.get(&claim.pod).copied();
        match (&claim.keeper, worker) {
            (Keeper::Other(_), _) => {}
            // It was given to its pod already, which is on its way out or about to be.
            (Keeper::Pod(_), Some(worker)) if takes_along(worker) || worker.stage == Stage::Going => {}
            (_, Some(worker)) if takes_along(worker) => handed.entry(worker.uid.clone()).or_default().push(claim.id()),
            (keeper, _) if *keeper != kept => {
                let from = if let Keeper::Pod(uid) = keeper { Some(uid.clone()) } else { None };
                changes.push(Action::KeepClaim { claim: claim.id(), from, with_nodeset: kept == Keeper::NodeSet });
            }
            _ => {}
        }
    }
    if changes.len() > MAX_CHANGES {
        changes.truncate(MAX_CHANGES);
        plan.wake_within(NEXT_CHANGES);
    }
    // Right before each deletion: in between nothing can go wrong but the deletion itself.
    let actions = std::mem::take(&mut plan.actions).into_iter().flat_map(|action| {
        let pod = match &action {
            Action::DeleteWorker { name, uid } => handed.remove(uid).map(|claims| (name.clone(), uid.clone(), claims)),
            _ => None,
        };
        pod.map(|(name, uid, claims)| Action::HandOver { name, uid, claims }).into_iter().chain([action])
    });
    plan.actions = actions.collect();
    plan.actions.extend(changes);
    plan_restorations(observed, plan);
}

/// A claim may vanish in the moment in which the pod for it is made. Nobody else makes it anew, and the pod would wait for it for ever.
fn plan_restorations(observed: &Observed<'_>, plan: &mut Plan) {
    let there: BTreeSet<&str> = observed.claims.iter().map(|claim| claim.name.as_str()).collect();
    let is_missing = |worker: &Worker| {
        let mut claims = observed.claim_templates.iter().map(|template| name::pod_claim(template, &worker.claimant(observed.nodeset)));
        claims.any(|claim| !there.contains(claim.as_str()))
    };
    let waits = |worker: &&Worker| worker.stage == Stage::Starting && worker.host.is_none() && worker.trouble.is_some();
    let waiting = observed.workers.iter().filter(waits).filter(|worker| is_missing(worker));
    plan.actions
        .extend(waiting.map(|worker| Action::RestoreClaims { name: worker.name.clone(), claimant: worker.claimant(observed.nodeset) }));
}

/// Takes out of `actions` the claims of workers that are not deleted after all.
pub fn without_idle_handovers(actions: &mut Vec<Action>) {
    let deleted: BTreeSet<String> = actions.iter().filter_map(deleted).map(str::to_owned).collect();
    actions.retain(|action| !matches!(action, Action::HandOver { uid, .. } if !deleted.contains(uid)));
}

fn deleted(action: &Action) -> Option<&str> {
    match action {
        Action::DeleteWorker { uid, .. } => Some(uid),
        _ => None,
    }
}

/// Of two on one Kubernetes node, which share their claims, the older: it was there when they were made.
fn by_claimant<'a>(observed: &Observed<'a>) -> BTreeMap<String, &'a Worker> {
    let mut workers: Vec<&Worker> = observed.workers.iter().collect();
    workers.sort_by_key(|worker| std::cmp::Reverse((worker.created, worker.name.as_str())));
    workers.into_iter().map(|worker| (worker.claimant(observed.nodeset), worker)).collect()
}

#[cfg(test)]
mod tests;
