//! Plan for a NodeSet.
//!
//! Each submodule decides one aspect, adds its actions to the plan and returns what later ones need to know of its decision. The order of the calls
//! in [`nodeset`] is the order of the actions.

use std::collections::BTreeSet;

use slipway_api::{condition::Reason, name};

use crate::{Action, Plan, drift};

mod adopt;
mod claim;
mod daemon;
mod deletion;
mod ended;
pub mod fit;
pub mod gres;
mod hold;
mod hung;
mod in_slurm;
mod job_policy;
mod layout;
mod lost_state;
mod maintenance;
mod mirror;
mod node_attributes;
mod observed;
mod pin;
mod reach;
mod record;
mod registration;
mod removal;
mod replacement_backoff;
mod revision;
mod scale_in;
mod schedule;
mod site;
mod slot;
mod stale_node;
mod switch;
mod update;
mod worker;

pub use adopt::Orphan;
pub use claim::{Claim, Keeper, without_idle_handovers};
pub use deletion::{Remains, deletion};
pub use in_slurm::{Finish, Hold, InSlurm};
pub use job_policy::{JobPolicy, JobPolicyAnnotation, doubts};
pub use layout::Layout;
pub use lost_state::note_lost_state;
pub use maintenance::{Booking, Maintenance, Reserved, Seen, Told};
pub use mirror::plan_protection;
pub use node_attributes::{Moves, NodeAttribute, Refusal, annotations_applied};
pub use observed::{Kubernetes, Observed, Policy, Slurm};
pub use pin::{Pins, parse_pins, pin_of, pins_text, plan_pins};
pub use reach::Reach;
pub use record::{Needed, Record, note_outdated};
pub use replacement_backoff::ReplacementBackoff;
pub use revision::{Hash, Revision, Revisions};
pub use scale_in::plan_scale_in;
pub use schedule::{MAINT, Schedule};
pub use site::{Site, Sites};
pub use slot::Slot;
pub use update::Update;
pub use worker::{Containers, Host, Phase, Shown, Stage, StaleNode, Worker, claimant};

/// Pods created per reconcile: enough to keep the API server busy, few enough that a reconcile ends in time.
const MAX_CREATIONS: usize = 250;

/// Plans the actions for a NodeSet.
pub fn nodeset(mut observed: Observed<'_>) -> Plan {
    let mut plan = Plan::default();
    drift::plan_children(std::mem::take(&mut observed.kubernetes.shared), observed.kubernetes.seen, observed.now, &mut plan);
    revision::plan_revisions(&observed, &mut plan);
    let set_down = stale_node::plan_stale_nodes(&observed, &mut plan);
    adopt::plan_adoptions(&observed, &mut plan);
    let mut forgotten = plan_new_workers(&observed, &mut plan);
    forgotten.extend(record::plan_pruning(&observed, &mut plan));
    let mut leaving = removal::plan_removals(&observed, &mut plan);
    lost_state::plan_lost_state(&observed, &mut plan);
    leaving.deleted.extend(registration::plan_registration(&observed, &leaving.scaled, &mut plan));
    let hung = hung::plan_hung(&observed, &leaving, &mut plan);
    leaving.deleted.extend(hung);
    hold::plan_holds(&observed, &leaving, &set_down, &mut plan);
    claim::plan_claims(&observed, &leaving, &mut plan);
    node_attributes::plan_node_attributes(&observed, &leaving.deleted, &mut plan);
    maintenance::plan_maintenance(&observed, &forgotten, &mut plan);
    mirror::plan_mirror(&observed, &leaving.deleted, &mut plan);
    record::plan_saying(&observed, &mut plan);
    report_progress(&observed, &mut plan);
    reach::plan_reach(&observed, &mut plan);
    plan
}

/// Creates missing workers, unless something blocks them. Returns the nodes whose records are deleted for them.
fn plan_new_workers(observed: &Observed<'_>, plan: &mut Plan) -> BTreeSet<String> {
    let Observed { problem, new_workers_wait, .. } = observed;
    let missing = match observed.policy.layout {
        Layout::Numbered => plan_scale_out(observed),
        Layout::PerNode(sites) => daemon::plan_new(observed, sites, plan),
        Layout::Untold => Vec::new(),
    };
    if let Some(wait) = problem.as_ref().or_else(|| new_workers_wait.as_ref().filter(|_| !missing.is_empty())) {
        plan.report.waits.push(wait.clone());
        return BTreeSet::new();
    }
    let creations = without_taken_hostnames(missing, observed, plan);
    let creations = stale_node::without_stale_nodes(creations, observed, plan);
    let (creations, forgotten) = record::without_outdated(creations, observed, plan);
    let creations = claim::without_claims_that_go(creations, observed, plan);
    plan.actions.extend(creations);
    forgotten
}

/// Creates workers at the lowest free ordinals. A terminating pod keeps its ordinal: its name is taken until it is gone.
fn plan_scale_out(observed: &Observed<'_>) -> Vec<Action> {
    let create = |(ordinal, name, hostname)| Action::CreateWorker { slot: Slot::Ordinal(ordinal), name, hostname };
    numbers_to_come(observed).take(MAX_CREATIONS).map(create).collect()
}

/// Ordinals of all missing workers, with their pod names and hostnames.
fn numbers_to_come(observed: &Observed<'_>) -> impl Iterator<Item = (u32, String, String)> {
    let Observed { workers, policy: Policy { nodeset, padding, replicas, hostname, .. }, kubernetes: Kubernetes { orphans, .. }, .. } =
        observed;
    let slots = || observed.own().map(|worker| &worker.slot).chain(orphans.iter().map(|orphan| &orphan.slot));
    let missing = replicas.saturating_sub(slots().filter(|slot| slot.ordinal().is_some()).count());
    let taken: BTreeSet<u32> = slots().filter_map(Slot::ordinal).collect();
    let names: BTreeSet<&str> = workers.iter().map(|worker| worker.name.as_str()).collect();
    (0..)
        .filter(move |ordinal| !taken.contains(ordinal))
        .map(|ordinal| (ordinal, name::padded_worker_pod(nodeset, ordinal, *padding)))
        .filter(move |(_, name)| !names.contains(name.as_str()))
        .take(missing)
        .map(|(ordinal, name)| (ordinal, name, name::padded_worker_hostname(nodeset, *hostname, ordinal, *padding)))
}

/// Those of `creations` whose hostname no other worker has. After a switch of the scaling mode, or a change of a node's hostname, a worker that is
/// still to be deleted may have it.
fn without_taken_hostnames(creations: Vec<Action>, observed: &Observed<'_>, plan: &mut Plan) -> Vec<Action> {
    let held = observed.by_hostname();
    let mut free = Vec::new();
    for creation in creations {
        match &creation {
            Action::CreateWorker { name, hostname, .. } if let Some(holder) = held.get(hostname.as_str()) => {
                let why = format!("waits to create pod `{name}` until pod `{}`, which has its hostname `{hostname}`, is gone", holder.name);
                plan.report.wait(Reason::Progressing, why);
            }
            _ => free.push(creation),
        }
    }
    free
}

fn report_progress(observed: &Observed<'_>, plan: &mut Plan) {
    let Observed { workers, now, policy: Policy { replicas, .. }, .. } = observed;
    // The readiness probe shows only that slurmd runs. Only Slurm can report that the node is registered.
    let ready = observed
        .counted()
        .into_iter()
        .filter(|worker| worker.stage == Stage::Ready && !worker.is_unregistered() && !worker.is_lost)
        .count();
    let outdated = observed.own().filter(|worker| observed.is_outdated(worker) && worker.stage != Stage::Going).count();
    if let Layout::PerNode(sites) = observed.policy.layout {
        daemon::report_refusals(sites, plan);
    }
    if ready < *replicas {
        let trouble = |worker: &Worker| worker.trouble.clone().or_else(|| hung::trouble(worker).map(str::to_owned));
        let trouble = workers.iter().find_map(|worker| Some(format!(": pod `{}`: {}", worker.name, trouble(worker)?)));
        plan.report.wait(Reason::PodsNotReady, format!("{ready} of {replicas} workers are ready{}", trouble.unwrap_or_default()));
    }
    let displaced = workers.iter().filter(|worker| observed.is_displaced(worker)).count();
    if displaced > 0 {
        let why = format!(
            "{displaced} workers of the former scalingMode are left: they are drained and leave when their jobs have ended, so that at most {} of \
             {replicas} workers are missing",
            observed.policy.max_unavailable
        );
        plan.report.wait(Reason::Updating, why);
    }
    if outdated > 0 {
        let how = match observed.policy.update {
            Update::Rolling => {
                format!("they are replaced, at most {} at a time, when their jobs have ended", observed.policy.max_unavailable)
            }
            Update::OnDelete => "each is replaced when you delete its pod".to_owned(),
            Update::Scheduled => format!("they are replaced {}, when their jobs have ended", observed.slurm.maintenance.when()),
        };
        let why = format!(
            "{outdated} of {} workers run an older template than `{}`: {how}",
            workers.len(),
            observed.kubernetes.revisions.current().text
        );
        plan.report.wait(Reason::Updating, why);
    }
    plan.report.summary = match observed.policy.layout {
        Layout::PerNode(_) if *replicas == 0 => {
            "no Kubernetes node takes a worker: label some, or mend nodeSelector, affinity or tolerations of spec.template.spec".to_owned()
        }
        _ => format!("{ready} of {replicas} workers are ready"),
    };
    // No watch event arrives when a worker has been ready for long enough.
    let moments = workers.iter().filter(|worker| worker.stage == Stage::Ready).filter_map(|worker| worker.available_from);
    if let Some(next) = moments.filter(|moment| moment > now).min() {
        plan.wake_within(replacement_backoff::until(next, *now));
    }
}

#[cfg(test)]
mod tests;
