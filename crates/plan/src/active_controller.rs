//! Choice of the active slurmctld among several, and fencing of the others.
//!
//! Each slurmctld reports whether it is active. A frozen one does not respond. When it thaws, it reports its former role, continues from its old
//! memory and overwrites the state of the slurmctld that took over. So earlier reports count too, and a slurmctld that was frozen during a takeover
//! is deleted before it is trusted.

mod record;

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use slipway_api::{condition::Reason, label};

pub use record::{Record, Role, Roles};

use crate::{
    Action, Marks, PodId, Wait,
    controller_pod::ControllerPod,
    gate::{Answer, Deed, gate},
};

/// Time without a response, while another slurmctld is active, after which a pod is fenced. A slurmctld that hands its role back does not respond
/// either, for up to five seconds after the other is active: it must not be fenced.
const PATIENCE: Duration = Duration::from_secs(8);
/// Timeout if early fencing could be wrong or is of no use: the silent slurmctld was only a standby, or nothing shows when the active one became
/// active.
const LONG_PATIENCE: Duration = Duration::from_secs(30);
/// Grace period of a fenced pod: a frozen process does not end on SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// The decision. Empty if there is only one slurmctld.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActiveController {
    /// Name of the active pod; empty if none is active or there is only one.
    pub active: String,
    /// Labels to move (`Action::MarkPod`) and pods to fence (`Action::DeletePod`).
    pub actions: Vec<Action>,
    /// Set if no pod is active or one was fenced.
    pub wait: Option<Wait>,
    /// Reconcile again after this time even if no role changes: a pod that does not respond is due for fencing then.
    pub wake_after: Option<Duration>,
}

/// Decides which pod gets the label and which are fenced. If none is active, labels stay where they are and a silent pod is not fenced: our own
/// network may be down.
pub fn choose_active(roles: &Roles, pods: &[ControllerPod], now: Timestamp) -> ActiveController {
    // A record with another UID is of an earlier pod with the same name.
    let known: BTreeMap<&str, (&ControllerPod, &Record)> = pods
        .iter()
        .filter_map(|pod| Some((pod.id.name.as_str(), (pod, roles.by_pod.get(&pod.id.name).filter(|record| record.uid == pod.id.uid)?))))
        .collect();
    let mut active_controller = ActiveController::default();
    let claims = known.values().filter(|(_, record)| record.is_active());
    // Two pods report active for a moment during each hand-back: the label stays, or moves to the one that was first.
    let Some((chosen, claim)) = claims.min_by_key(|(pod, record)| (!pod.is_active, record.since)).copied() else {
        active_controller.actions.extend(known.values().filter_map(|(pod, record)| fence_impostor(pod, record)));
        active_controller.wait = Some(Wait::new(Reason::NobodyInCharge, none_active(pods, roles)));
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
            let why = format!("it does not respond while `{}` is active, and would overwrite the state when it resumes", chosen.id.name);
            active_controller.actions.extend(fence(pod, why));
        } else {
            active_controller.wake_after = Some(active_controller.wake_after.map_or(left, |wake| wake.min(left)));
        }
    }
    if let Some(Action::DeletePod { pod, why, .. }) =
        active_controller.actions.iter().find(|action| matches!(action, Action::DeletePod { .. }))
    {
        active_controller.wait = Some(Wait::new(Reason::NobodyInCharge, format!("pod `{}` is deleted: {why}", pod.name)));
    }
    active_controller
}

/// Fences a slurmctld that was frozen while another took over and now reports active.
fn fence_impostor(pod: &ControllerPod, record: &Record) -> Option<Action> {
    let by = record.impostor_of().filter(|_| !pod.is_going)?;
    fence(pod, format!("it was frozen while `{by}` took over, and now overwrites the state"))
}

/// Deletes a slurmctld pod. That kills no job; the StatefulSet recreates the pod, which then reads the state on disk.
fn fence(pod: &ControllerPod, why: String) -> Option<Action> {
    let clearance = gate(&Deed::new(format!("delete pod `{}`", pod.id.name), Answer::No)).clearance()?;
    Some(Action::DeletePod { pod: pod.id.clone(), grace: Some(GRACE), why, clearance })
}

fn move_label(pod: &ControllerPod, chosen: &PodId) -> Option<Action> {
    let is_chosen = pod.id == *chosen;
    let marks = Marks { labels: [(label::CONTROLLER_ACTIVE.to_owned(), is_chosen.then(|| "true".to_owned()))].into(), ..Marks::default() };
    (is_chosen != pod.is_active).then(|| Action::MarkPod { pod: pod.id.clone(), marks })
}

/// Names each slurmctld with its role, if none is active.
fn none_active(pods: &[ControllerPod], roles: &Roles) -> String {
    let said = |pod: &ControllerPod| match roles.by_pod.get(&pod.id.name).filter(|record| record.uid == pod.id.uid) {
        Some(record) => format!("`{}` {}", pod.id.name, record.in_words()),
        None => format!("`{}` was not probed yet", pod.id.name),
    };
    match pods {
        [] => "no slurmctld is active: there is no pod of it".to_owned(),
        pods => format!("no slurmctld is active: {}", pods.iter().map(said).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests;
