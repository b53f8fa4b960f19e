//! Retention of workers' claims. The owner of a claim decides it: Kubernetes deletes a claim with its owner.
//!
//! A claim has no owner, or the NodeSet if it is to be deleted with the NodeSet. On scale-in, if the user wants claims deleted, a worker's pod
//! becomes their owner right before it is deleted. Until then the claims are unchanged, so a reverted scale-in has no effect. If a worker is
//! cordoned, ends, is lost or is deleted by someone else, its replacement uses the same claims.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use slipway_api::{ClaimRetention, Retention, condition::Reason, name};

use super::{Observed, Stage, Worker, removal::Leaving, worker::claimant};
use crate::{Action, ClaimId, Plan};

/// Maximum number of owner changes in one reconcile.
const MAX_CHANGES: usize = 250;
/// Requeue delay while a claim is terminating.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Requeue delay if owner changes remain.
const NEXT_CHANGES: Duration = Duration::from_secs(1);

/// A claim created from a template of the NodeSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub name: String,
    pub uid: String,
    /// The worker that uses it: the name of its pod or, in DaemonSet mode, its [`Worker::claimant`].
    pub pod: String,
    /// True if the claim is terminating.
    pub is_going: bool,
    pub keeper: Keeper,
}

/// Owner of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeper {
    Unowned,
    /// The NodeSet: the claim is deleted with it.
    NodeSet,
    /// The pod with this UID: the claim is deleted with it.
    Pod(String),
    /// A deleted NodeSet of the same name: the claim will be deleted as well.
    Former,
    /// Another object, as text; the claim is not ours to change.
    Other(String),
}

impl Claim {
    fn id(&self) -> ClaimId {
        ClaimId { name: self.name.clone(), uid: self.uid.clone() }
    }

    /// True if the claim will soon be deleted, so no new pod may rely on it: it is terminating, or its owner is gone.
    fn is_lost(&self, workers: &BTreeMap<String, &Worker>) -> bool {
        match &self.keeper {
            _ if self.is_going => true,
            Keeper::Pod(uid) => workers.get(&self.pod).is_none_or(|worker| worker.uid != *uid),
            Keeper::Former => true,
            Keeper::Unowned | Keeper::NodeSet | Keeper::Other(_) => false,
        }
    }
}

/// Removes from `creations` the workers whose claim is about to be deleted, and reports it: data they write there would be lost.
pub(super) fn without_claims_that_go(creations: Vec<Action>, observed: &Observed<'_>, plan: &mut Plan) -> Vec<Action> {
    let workers = by_claimant(observed);
    let lost: BTreeMap<&str, &Claim> =
        observed.kubernetes.claims.iter().filter(|claim| claim.is_lost(&workers)).map(|claim| (claim.pod.as_str(), claim)).collect();
    let waits = |action: &Action| match action {
        Action::CreateWorker { slot, name, hostname } => {
            lost.get(claimant(slot, name, hostname, observed.policy.nodeset).as_str()).copied()
        }
        _ => None,
    };
    let held: Vec<&Claim> = creations.iter().filter_map(waits).collect();
    if let Some(first) = held.first() {
        let more = if held.len() > 1 { format!("; and {} more like it", held.len() - 1) } else { String::new() };
        let why = format!("pod `{}` waits until claim `{}`, which is being deleted, is gone{more}", first.pod, first.name);
        plan.report.wait(Reason::Progressing, why);
        // Not all claims are watched.
        plan.wake_within(LOOK_AGAIN);
    }
    creations.into_iter().filter(|action| waits(action).is_none()).collect()
}

/// Sets the owners of claims.
pub(super) fn plan_claims(observed: &Observed<'_>, leaving: &Leaving, plan: &mut Plan) {
    let Leaving { scaled, deleted, .. } = leaving;
    let ClaimRetention { when_deleted, when_scaled } = observed.policy.retention;
    let workers = by_claimant(observed);
    let takes_along = |worker: &Worker| when_scaled == Retention::Delete && scaled.contains(&worker.name) && deleted.contains(&worker.uid);
    let kept = if when_deleted == Retention::Delete { Keeper::NodeSet } else { Keeper::Unowned };
    let mut handed: BTreeMap<String, Vec<ClaimId>> = BTreeMap::new();
    let mut changes = Vec::new();
    for claim in observed.kubernetes.claims.iter().filter(|claim| !claim.is_lost(&workers)) {
        let worker = workers.get(&claim.pod).copied();
        match (&claim.keeper, worker) {
            (Keeper::Other(_), _) => {}
            // Its pod already owns it, and is terminating or about to be deleted.
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
    // Right before each deletion, so that only the deletion itself can fail in between.
    let actions = std::mem::take(&mut plan.actions).into_iter().flat_map(|action| {
        let pod = match &action {
            Action::DeleteWorker { name, uid, .. } => handed.remove(uid).map(|claims| (name.clone(), uid.clone(), claims)),
            _ => None,
        };
        pod.map(|(name, uid, claims)| Action::HandOver { name, uid, claims }).into_iter().chain([action])
    });
    plan.actions = actions.collect();
    plan.actions.extend(changes);
    plan_restorations(observed, plan);
}

/// Recreates missing claims. A claim may be deleted while its pod is being created. Nothing else recreates it, and the pod would wait for ever.
fn plan_restorations(observed: &Observed<'_>, plan: &mut Plan) {
    let there: BTreeSet<&str> = observed.kubernetes.claims.iter().map(|claim| claim.name.as_str()).collect();
    let is_missing = |worker: &Worker| {
        let mut claims =
            observed.policy.claim_templates.iter().map(|template| name::pod_claim(template, &worker.claimant(observed.policy.nodeset)));
        claims.any(|claim| !there.contains(claim.as_str()))
    };
    let waits = |worker: &&Worker| worker.stage == Stage::Starting && worker.host.is_none() && worker.trouble.is_some();
    let waiting = observed.workers.iter().filter(waits).filter(|worker| is_missing(worker));
    plan.actions.extend(
        waiting.map(|worker| Action::RestoreClaims { name: worker.name.clone(), claimant: worker.claimant(observed.policy.nodeset) }),
    );
}

/// Removes from `actions` the handovers to workers that are not deleted after all.
pub fn without_idle_handovers(actions: &mut Vec<Action>) {
    let deleted: BTreeSet<String> = actions.iter().filter_map(Action::deleted_worker).map(str::to_owned).collect();
    actions.retain(|action| !matches!(action, Action::HandOver { uid, .. } if !deleted.contains(uid)));
}

/// Workers by claimant. Two workers on one Kubernetes node share their claims: the older one counts, as it existed when they were created.
fn by_claimant<'a>(observed: &Observed<'a>) -> BTreeMap<String, &'a Worker> {
    let mut workers: Vec<&Worker> = observed.workers.iter().collect();
    workers.sort_by_key(|worker| std::cmp::Reverse((worker.created, worker.name.as_str())));
    workers.into_iter().map(|worker| (worker.claimant(observed.policy.nodeset), worker)).collect()
}

#[cfg(test)]
mod tests;
