//! What to do about a Controller.

use std::time::Duration;

use jiff::Timestamp;
use slipway_api::{
    child::{Child, ChildKind},
    condition::Reason,
};

use crate::{
    Plan, Wait,
    drift::{self, SeenChildren},
    gate::{Answer, Deed, Room, Verdict, gate},
    workload::{self, troubled},
};

pub use crate::workload::has_ready_pod;

/// slurm.conf names the NodeSets, and slurmctld restarts when it changes. NodeSets of the same manifest arrive a moment after their Controller:
/// waiting for them once is cheaper than a restart.
const PATIENCE: Duration = Duration::from_millis(1500);

/// What is wanted and what was observed.
pub struct Observed<'a> {
    /// The Services.
    pub services: Vec<Child>,
    /// The ConfigMap and the StatefulSet, or what they wait for.
    pub workload: Result<Vec<Child>, Wait>,
    pub seen: &'a SeenChildren,
    /// What keeps a pod from getting ready, when the kubelet or the scheduler said so.
    pub trouble: Option<String>,
    /// Partitions of the present slurm.conf that the new one lacks.
    pub dropped_partitions: Vec<String>,
    /// Whether jobs run in them.
    pub dropped_partitions_have_jobs: Answer,
    pub created: Option<Timestamp>,
    pub now: Timestamp,
}

/// Plans for a Controller.
///
/// A missing reference holds back what depends on it and changes nothing that exists: a Secret deleted by mistake does not restart slurmctld.
pub fn controller(observed: Observed<'_>) -> Plan {
    let Observed { services, workload, seen, trouble, dropped_partitions, dropped_partitions_have_jobs, created, now } = observed;
    let mut plan = Plan::default();
    drift::plan_children(services, seen, now, &mut plan);

    let statefulset = seen.iter().find(|(key, _)| key.kind == ChildKind::StatefulSet).and_then(|(_, seen)| seen.live.as_deref());
    let patience = patience_left(created, now).filter(|_| statefulset.is_none());
    match (workload, patience) {
        (Err(wait), _) => plan.report.waits.push(wait),
        (Ok(_), Some(left)) => {
            plan.report.wait(Reason::Progressing, "just created: NodeSets of the same manifest may follow");
            plan.wake_within(left);
        }
        (Ok(children), None) => match leave_to_drop(&dropped_partitions, dropped_partitions_have_jobs) {
            Verdict::Allowed => drift::plan_children(children, seen, now, &mut plan),
            Verdict::Wait(why) | Verdict::Refused(why) => plan.report.wait(Reason::WaitingForSlurm, why),
        },
    }
    match statefulset {
        Some(live) => {
            if let Some(progress) = workload::progress(live) {
                plan.report.wait(Reason::PodsNotReady, format!("slurmctld: {progress}{}", troubled(trouble)));
            }
        }
        None if plan.report.is_ready() => plan.report.wait(Reason::Progressing, "slurmctld is being started"),
        None => {}
    }
    plan.report.summary.push_str("slurmctld is up");
    plan
}

/// Slurm ends the jobs of a partition that vanishes from its configuration.
fn leave_to_drop(partitions: &[String], ends_jobs: Answer) -> Verdict {
    if partitions.is_empty() {
        return Verdict::Allowed;
    }
    let what = format!("drop partition {} from slurm.conf", partitions.join(", "));
    gate(&Deed { what, is_ours: true, ends_jobs, costs_a_worker: false }, Room { available: 0, floor: 0 })
}

/// How much longer a newborn waits; nothing once it is old enough.
fn patience_left(created: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    // A creation in the future means that clocks differ: then age says nothing.
    let age = Duration::try_from(now.duration_since(created?)).ok()?;
    PATIENCE.checked_sub(age).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests;
