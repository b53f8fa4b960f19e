//! What to do about a NodeSet.

use std::collections::BTreeSet;

use jiff::Timestamp;
use slipway_api::{child::Child, condition::Reason, name, slurm_node::SCALE_IN};

use crate::{
    Action, Plan, Wait,
    drift::{self, SeenChildren},
    gate::{Deed, Room, Verdict, gate},
};

mod in_slurm;
mod victim;

pub use in_slurm::{Finish, Hold, InSlurm};
pub use victim::plan_scale_in;

/// Pods created in one pass: enough to keep the API server busy, few enough that a pass ends in time.
const MAX_CREATIONS: usize = 250;

/// A worker pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    pub name: String,
    pub ordinal: u32,
    pub uid: String,
    pub stage: Stage,
    /// Whether it was made from the present template.
    pub is_current: bool,
    /// The lower, the sooner it leaves when the NodeSet shrinks.
    pub deletion_cost: i32,
    /// Name of its node in Slurm, and what Slurm says about that.
    pub node: String,
    pub in_slurm: InSlurm,
    /// What keeps it from getting ready, when the kubelet or the scheduler said so.
    pub trouble: Option<String>,
}

/// How far a worker pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Starting,
    Ready,
    /// Its containers ended and will not come back.
    Ended,
    /// It is being deleted.
    Going,
}

/// What is wanted and what was observed.
pub struct Observed<'a> {
    pub nodeset: &'a str,
    pub replicas: usize,
    /// The Service and the budget.
    pub shared: Vec<Child>,
    /// What is wrong with the NodeSet itself, if anything: no worker can be made.
    pub problem: Option<Wait>,
    /// What new workers have to wait for, if anything. Those that are there do not need it.
    pub new_workers_wait: Option<Wait>,
    pub workers: &'a [Worker],
    pub seen: &'a SeenChildren,
    pub now: Timestamp,
}

/// Plans for a NodeSet.
pub fn nodeset(observed: Observed<'_>) -> Plan {
    let Observed { nodeset, replicas, shared, problem, new_workers_wait, workers, seen, now } = observed;
    let mut plan = Plan::default();
    drift::plan_children(shared, seen, now, &mut plan);
    let missing = replicas.saturating_sub(workers.len());
    match problem.or_else(|| new_workers_wait.filter(|_| missing > 0)) {
        Some(wait) => plan.report.waits.push(wait),
        None => plan.actions.extend(plan_scale_out(nodeset, workers, missing)),
    }
    plan_removals(workers, replicas, &mut plan);
    report_progress(workers, replicas, &mut plan);
    plan
}

/// New workers at the lowest free ordinals. A pod that is going still holds its ordinal: its name is taken until it is gone.
pub fn plan_scale_out(nodeset: &str, workers: &[Worker], missing: usize) -> Vec<Action> {
    let taken: BTreeSet<u32> = workers.iter().map(|worker| worker.ordinal).collect();
    (0..)
        .filter(|ordinal| !taken.contains(ordinal))
        .take(missing.min(MAX_CREATIONS))
        .map(|ordinal| Action::CreateWorker { ordinal, name: name::worker_pod(nodeset, ordinal) })
        .collect()
}

/// Deletes workers that ended and workers that are too many, as far as the gate gives leave. One that is too many is drained first, so that
/// no job comes to it any more, and deleted when the last one has left it.
fn plan_removals(workers: &[Worker], replicas: usize, plan: &mut Plan) {
    let mut available = workers.iter().filter(|worker| worker.stage == Stage::Ready).count();
    let surplus = workers.len().saturating_sub(replicas);
    let going = workers.iter().filter(|worker| worker.stage == Stage::Going).count();
    let ended = workers.iter().filter(|worker| worker.stage == Stage::Ended);
    let excess: Vec<&Worker> = plan_scale_in(workers, surplus.saturating_sub(going)).collect();
    let leaving: BTreeSet<u32> = excess.iter().map(|worker| worker.ordinal).collect();
    let mut seen = BTreeSet::new();
    let (mut to_drain, mut waits) = (Vec::new(), Vec::new());
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
            Verdict::Wait(why) | Verdict::Refused(why) => {
                if leaving.contains(&worker.ordinal) && worker.in_slurm.may_get_jobs() {
                    to_drain.push(worker.node.clone());
                }
                waits.push(why);
            }
        }
    }
    if let Some(first) = waits.first() {
        let more = if waits.len() > 1 { format!("; and {} more like it", waits.len() - 1) } else { String::new() };
        plan.report.wait(Reason::WaitingForSlurm, format!("{first}{more}; to remove it yourself, delete the pod"));
    }
    if !to_drain.is_empty() {
        plan.actions.push(Action::Drain { nodes: to_drain, reason: SCALE_IN.to_owned() });
    }
    plan_returns(workers, &leaving, plan);
}

/// Lets workers that stay take jobs again, where it was us who kept them from it: a scale-in that was taken back, or the farewell of a pod whose
/// place this one has taken. What others decided about a node stays.
fn plan_returns(workers: &[Worker], leaving: &BTreeSet<u32>, plan: &mut Plan) {
    let staying = workers.iter().filter(|worker| worker.stage == Stage::Ready && !leaving.contains(&worker.ordinal));
    let (mut to_undrain, mut to_resume) = (Vec::new(), Vec::new());
    for worker in staying {
        match worker.in_slurm.hold {
            Hold::DrainedByUs => to_undrain.push(worker.node.clone()),
            Hold::DownByUs => to_resume.push(worker.node.clone()),
            Hold::Open | Hold::ByOthers | Hold::Unknown => {}
        }
    }
    if !to_undrain.is_empty() {
        plan.actions.push(Action::Undrain { nodes: to_undrain });
    }
    if !to_resume.is_empty() {
        plan.actions.push(Action::Resume { nodes: to_resume });
    }
}

fn report_progress(workers: &[Worker], replicas: usize, plan: &mut Plan) {
    let ready = workers.iter().filter(|worker| worker.stage == Stage::Ready).count();
    let outdated = workers.iter().filter(|worker| !worker.is_current && worker.stage != Stage::Going).count();
    if ready < replicas {
        let trouble = workers.iter().find_map(|worker| Some(format!(": pod `{}`: {}", worker.name, worker.trouble.as_ref()?)));
        plan.report.wait(Reason::PodsNotReady, format!("{ready} of {replicas} workers are ready{}", trouble.unwrap_or_default()));
    }
    if outdated > 0 {
        let why = format!("{outdated} of {} workers run an older template: delete their pods when their jobs are done", workers.len());
        plan.report.wait(Reason::WaitingForSlurm, why);
    }
    plan.report.summary = format!("{ready} of {replicas} workers are ready");
}

#[cfg(test)]
mod tests;
