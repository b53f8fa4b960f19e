//! Which of several slurmctld is active, and what follows from it.
//!
//! Each slurmctld says of itself whether it is active. One that is frozen says nothing, and when it thaws it says what was true before: it goes
//! on from its old memory and writes over the state of the one that has taken over. So what each said before counts too, and one that slept through
//! a change is taken away before it is believed.

mod record;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use slipway_api::{condition::Reason, label};

pub use record::{Record, Role, Roles};

use crate::{
    Action, Marks, PodId, Wait,
    controller::ControllerPod,
    gate::{Answer, Deed, Room, Verdict, gate},
};

/// A silence of this length, while another is active, is the end of a pod. One that hands its role back is silent too, up to five seconds
/// after the other has it: it is left alone.
const PATIENCE: Duration = Duration::from_secs(8);
/// Where haste could be wrong or brings nothing: the silent one only stood by, or who is active was never seen to come by it.
const LONG_PATIENCE: Duration = Duration::from_secs(30);
/// A frozen process does not end when asked to.
const GRACE: Duration = Duration::from_secs(1);

/// The decision. Empty if there is only one slurmctld.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActiveController {
    /// Name of the active pod; empty if none is active or there is only one.
    pub active: String,
    /// Labels to move (`Action::MarkPod`) and frozen pods to take away (`Action::DeletePod`).
    pub actions: Vec<Action>,
    /// Set if no pod is active or one was fenced.
    pub wait: Option<Wait>,
    /// Reconcile again after this time even if no role changes: a pod that does not respond is due for fencing then.
    pub wake_after: Option<Duration>,
}

/// Decides which pod gets the label and which are deleted. If none is active, labels stay where they are and nothing is deleted: the network may be
/// down on our side.
pub fn choose_active(roles: &Roles, pods: &[ControllerPod], now: Timestamp) -> ActiveController {
    // A record of a pod that had the name before says nothing.
    let known: BTreeMap<&str, (&ControllerPod, &Record)> = pods
        .iter()
        .filter_map(|pod| Some((pod.id.name.as_str(), (pod, roles.by_pod.get(&pod.id.name).filter(|record| record.uid == pod.id.uid)?))))
        .collect();
    let mut active_controller = ActiveController::default();
    let claims = known.values().filter(|(_, record)| record.is_active());
    // Two claim it for a moment at each hand-back: the label stays then, or goes to who was first.
    let Some((chosen, claim)) = claims.min_by_key(|(pod, record)| (!pod.is_active, record.since)).copied() else {
        active_controller.actions.extend(known.values().filter_map(|(pod, record)| fence_impostor(pod, record)));
        active_controller.wait = Some(Wait::new(Reason::NobodyInCharge, nobody(pods, roles)));
        return active_controller;
    };
    active_controller.active.clone_from(&chosen.id.name);
    active_controller.actions.extend(pods.iter().filter_map(|pod| move_label(pod, &chosen.id)));
    for (pod, record) in known.values() {
        active_controller.actions.extend(fence_impostor(pod, record));
        if record.role != Role::Silent || pod.is_going {
            continue;
        }
        let patience = if record.only_stood_by() || !claim.was_seen_to_come() { LONG_PATIENCE } else { PATIENCE };
        let since = record.since.max(claim.since);
        let left = patience.saturating_sub(now.duration_since(since).unsigned_abs());
        if left.is_zero() {
            let why =
                format!("it does not answer while `{}` is active, and would write over its state when it comes back", chosen.id.name);
            active_controller.actions.extend(fence(pod, why));
        } else {
            active_controller.wake_after = Some(active_controller.wake_after.map_or(left, |wake| wake.min(left)));
        }
    }
    if let Some(Action::DeletePod { pod, why, .. }) = active_controller.actions.iter().find(|action| matches!(action, Action::DeletePod { .. })) {
        active_controller.wait = Some(Wait::new(Reason::NobodyInCharge, format!("pod `{}` is taken away: {why}", pod.name)));
    }
    active_controller
}

/// Takes away a slurmctld that slept while another took over, and now claims to be active.
fn fence_impostor(pod: &ControllerPod, record: &Record) -> Option<Action> {
    let by = record.impostor_of().filter(|_| !pod.is_going)?;
    fence(pod, format!("it was frozen while `{by}` took over, and now writes over the state of that one"))
}

/// slurmctld's end ends no job; the StatefulSet makes the pod anew, which then reads the state that is on the disk.
fn fence(pod: &ControllerPod, why: String) -> Option<Action> {
    let deed = Deed {
        what: format!("delete pod `{}`", pod.id.name),
        is_ours: true,
        ends_jobs: Answer::No,
        may_end_jobs: false,
        costs_a_worker: false,
    };
    let is_allowed = gate(&deed, Room { available: 0, floor: 0 }) == Verdict::Allowed;
    is_allowed.then(|| Action::DeletePod { pod: pod.id.clone(), grace: Some(GRACE), why })
}

fn move_label(pod: &ControllerPod, chosen: &PodId) -> Option<Action> {
    let is_chosen = pod.id == *chosen;
    let marks = Marks { labels: [(label::CONTROLLER_ACTIVE.to_owned(), is_chosen.then(|| "true".to_owned()))].into(), ..Marks::default() };
    (is_chosen != pod.is_active).then(|| Action::MarkPod { pod: pod.id.clone(), marks })
}

fn nobody(pods: &[ControllerPod], roles: &Roles) -> String {
    let said = |pod: &ControllerPod| match roles.by_pod.get(&pod.id.name).filter(|record| record.uid == pod.id.uid) {
        Some(record) => format!("`{}` {}", pod.id.name, record.in_words()),
        None => format!("`{}` was not asked yet", pod.id.name),
    };
    match pods {
        [] => "no slurmctld is active: there is no pod of it".to_owned(),
        pods => format!("no slurmctld is active: {}", pods.iter().map(said).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests;
