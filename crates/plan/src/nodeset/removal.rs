//! Workers to delete: ended ones, excess ones, and those replaced by newer ones.

use std::collections::BTreeSet;

use slipway_api::{
    annotation::{DRAIN_DEADLINE, FORCE_DELETE},
    condition::Reason,
};

use super::{
    JobPolicy, Observed, Policy, Stage, Worker, daemon, ended,
    replacement_backoff::{until, written},
    switch, update,
};
use crate::{
    Action, Plan,
    gate::{Answer, Deed, Room, Verdict, gate},
};

/// Workers that are to be deleted: by name, although they could keep running, and by UID once nothing holds up their deletion.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// Excess workers.
    pub(super) scaled: BTreeSet<String>,
    /// Another worker has their place: one of the present scaling mode, or a second one on the same Kubernetes node.
    pub(super) displaced: BTreeSet<String>,
    /// Workers to be replaced by one from the current template.
    pub(super) outdated: BTreeSet<String>,
    /// UIDs of the pods that this plan deletes, ended ones too.
    pub(super) deleted: BTreeSet<String>,
}

impl Leaving {
    pub(super) fn contains(&self, worker: &str) -> bool {
        let Self { scaled, displaced, outdated, deleted: _ } = self;
        [scaled, displaced, outdated].iter().any(|names| names.contains(worker))
    }
}

/// Deletes workers that have ended, are in excess or are outdated, if the gate allows it. All but the ended ones are
/// drained first, so that they get no new job, and deleted when their last job has ended, or earlier if a user has allowed their jobs to be killed.
pub(super) fn plan_removals(observed: &Observed<'_>, plan: &mut Plan) -> Leaving {
    let Observed { workers, now, policy: Policy { replicas, .. }, .. } = *observed;
    let names = |workers: &[&Worker]| -> BTreeSet<String> { workers.iter().map(|worker| worker.name.clone()).collect() };
    let former: Vec<&Worker> = workers.iter().filter(|worker| observed.is_displaced(worker)).collect();
    let serving: BTreeSet<&str> =
        observed.counted().iter().chain(&former).filter(|worker| worker.serves(now)).map(|worker| worker.name.as_str()).collect();
    let mut available = serving.len();
    let ended = ended::plan_ended(observed, plan);
    let excess = observed.excess();
    let keepers = daemon::keepers(observed);
    // If another worker stays on the same Kubernetes node, both share the claims. So this one is displaced, not scaled: the claims are kept.
    let has_double =
        |worker: &&Worker| worker.slot.node().and_then(|node| keepers.get(node)).is_some_and(|keeper| keeper.name != worker.name);
    let (mut displaced, scaled): (Vec<&Worker>, Vec<&Worker>) = excess.iter().partition(|worker| has_double(worker));
    displaced.extend(switch::choose(observed));
    let chosen = update::choose(observed, &names(&excess));
    let mut leaving = Leaving { scaled: names(&scaled), displaced: names(&displaced), outdated: names(&chosen), deleted: BTreeSet::new() };
    let mut seen = BTreeSet::new();
    let mut waits = Vec::new();
    for worker in ended.into_iter().chain(scaled).chain(displaced).chain(chosen).filter(|worker| seen.insert(worker.name.as_str())) {
        let is_replaced = leaving.outdated.contains(&worker.name) || observed.is_displaced(worker);
        let floor = if is_replaced { update::floor(observed) } else { replicas };
        // A worker on an unwanted Kubernetes node, or beside another one, is not among those that must stay available.
        let costs_a_worker = serving.contains(worker.name.as_str());
        let deed = Deed {
            what: format!("delete pod `{}`", worker.name),
            is_ours: true,
            ends_jobs: worker.in_slurm.would_end_jobs(worker.stage == Stage::Ended),
            may_end_jobs: worker.job_policy.may_kill_jobs(now),
            room: costs_a_worker.then_some(Room { available, floor }),
        };
        match gate(&deed) {
            Verdict::Allowed(clearance) => {
                available -= usize::from(costs_a_worker);
                leaving.deleted.insert(worker.uid.clone());
                plan.actions.push(Action::DeleteWorker { name: worker.name.clone(), uid: worker.uid.clone(), clearance });
            }
            Verdict::Wait(why) | Verdict::Refused(why) => {
                let waits_for_jobs = deed.ends_jobs != Answer::No && !deed.may_end_jobs;
                waits.push((why, waits_for_jobs.then_some(worker.job_policy)));
                wake_at_deadline(worker.job_policy, observed, plan);
            }
        }
    }
    if let Some((first, for_jobs)) = waits.first() {
        let more = if waits.len() > 1 { format!("; and {} more like it", waits.len() - 1) } else { String::new() };
        let way_out = for_jobs.map(way_out).unwrap_or_default();
        plan.report.wait(Reason::WaitingForSlurm, format!("{first}{more}{way_out}"));
    }
    leaving
}

/// The remedy for a deletion that waits for jobs.
fn way_out(job_policy: JobPolicy) -> String {
    match job_policy {
        JobPolicy::KillAfter(deadline) => {
            format!("; at {} the pod is deleted and its running jobs are killed (annotation `{DRAIN_DEADLINE}`)", written(deadline))
        }
        JobPolicy::Wait | JobPolicy::KillNow => format!(
            "; the pod is deleted when its jobs have ended; to delete it sooner and kill its jobs, annotate it with `{FORCE_DELETE}: \"true\"` \
             or with `{DRAIN_DEADLINE}` and a time"
        ),
    }
}

/// Requeues at the deadline: no watch event arrives then.
fn wake_at_deadline(job_policy: JobPolicy, observed: &Observed<'_>, plan: &mut Plan) {
    match job_policy {
        JobPolicy::KillAfter(deadline) if deadline > observed.now => plan.wake_within(until(deadline, observed.now)),
        _ => {}
    }
}
