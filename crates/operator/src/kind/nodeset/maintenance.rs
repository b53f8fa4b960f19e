//! The Slurm reservation in which a NodeSet's workers are replaced.

use kube::ResourceExt;
use slipway_api::{
    NodeSet, UpdateKind,
    condition::{ConditionStatus, ConditionUpdate, RESERVATION_CREATED, Reason},
    event, name,
};
use slipway_plan::{
    Action,
    nodeset::{Booking, Maintenance, Schedule},
};
use slipway_runtime::events;

use super::slurm::Cluster;
use crate::world::context::Context;

/// The desired schedule, Slurm's reservation, and the current condition.
pub(super) fn observe_maintenance(nodeset: &NodeSet, cluster: &Cluster<'_>) -> Maintenance {
    let name = name::worker_reservation(&nodeset.name_any());
    let strategy = nodeset.spec.update_strategy.clone().unwrap_or_default();
    let wanted = match strategy.kind {
        UpdateKind::ScheduledUpdate => Schedule::parse(&strategy.scheduled_update.unwrap_or_default()).map(Some),
        UpdateKind::RollingUpdate | UpdateKind::OnDelete => Ok(None),
    };
    let (seen, told) = cluster.reservation(&name);
    let mut conditions = nodeset.status.iter().flat_map(|status| &status.conditions);
    let said = conditions.find(|condition| condition.type_ == RESERVATION_CREATED).map(|said| {
        let reasons = [Reason::Created, Reason::NotExists, Reason::ReservationPending, Reason::ReservationRefused, Reason::InvalidSpec];
        let reason = reasons.into_iter().find(|reason| reason.as_str() == said.reason).unwrap_or(Reason::ReservationPending);
        let status = ConditionStatus::from(said.status == ConditionStatus::True.as_str());
        (ConditionUpdate { type_: RESERVATION_CREATED, status, reason, message: said.message.clone() }, said.last_transition_time.0)
    });
    Maintenance { name, wanted, seen, said, told }
}

/// Reports changes to the reservation as events.
pub(super) fn announce(nodeset: &NodeSet, actions: &[Action], context: &Context) {
    for action in actions {
        let words = match action {
            Action::Reserve { name, booking: Booking { is_new: true, nodes, .. }, .. } => {
                format!("makes reservation `{name}` of {} nodes", nodes.len())
            }
            Action::Reserve { name, .. } => format!("changes reservation `{name}`"),
            Action::Unreserve { name, .. } => format!("deletes reservation `{name}`"),
            _ => continue,
        };
        context.say(nodeset, events::Kind::Normal, event::reason::SCHEDULED_UPDATE, event::action::SCHEDULED_UPDATE, &words);
    }
}
