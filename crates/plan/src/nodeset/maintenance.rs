//! The reservation in Slurm in which workers are replaced: it follows the schedule, and is deleted when it is no longer wanted.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use slipway_api::condition::{ConditionStatus, ConditionUpdate, RESERVATION_CREATED, Reason};

use super::{Observed, Policy, Schedule, Slurm, Worker, replacement_backoff::written, schedule::MAINT};
use crate::{
    Action, Plan,
    gate::{Answer, Deed, gate},
};

/// Remedy for a reservation that Slurm refuses to create or change.
const LOOK: &str = "mend scheduledUpdate, or see `scontrol show reservation` and slurmctld's log";

/// Desired and actual maintenance of a NodeSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// Name of its reservation in Slurm.
    pub name: String,
    /// The schedule, if there is one, or its error.
    pub wanted: Result<Option<Schedule>, String>,
    pub seen: Seen,
    /// The NodeSet's current condition about it, and the start recorded there.
    pub said: Option<(ConditionUpdate, Timestamp)>,
    /// The last command to Slurm about it.
    pub told: Option<Told>,
}

/// State of the reservation in Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    There(Reserved),
    Absent,
    /// With the cause.
    Unknown(String),
}

/// A reservation as Slurm reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    pub start: Timestamp,
    pub end: Timestamp,
    pub flags: BTreeSet<String>,
    pub nodes: BTreeSet<String>,
}

/// A reservation to create, or a change of one. Values that are not given stay unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// True if it is to be created. A change never creates one, even if it is gone by then.
    pub is_new: bool,
    pub start: Option<Timestamp>,
    pub minutes: i64,
    pub nodes: BTreeSet<String>,
    pub flags: BTreeSet<String>,
}

/// A command to Slurm about the reservation, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// `None` for a deletion.
    pub booking: Option<Booking>,
    /// Slurm's error, if it refused.
    pub refusal: Option<String>,
    /// Delay before the same command is sent again.
    pub again_in: Duration,
}

impl Maintenance {
    /// A maintenance that is not wanted and has no reservation.
    pub const fn none(name: String) -> Self {
        Self { name, wanted: Ok(None), seen: Seen::Absent, said: None, told: None }
    }

    /// The start for which a reservation was last seen in Slurm.
    fn made_for(&self) -> Option<Timestamp> {
        let (said, start) = self.said.as_ref()?;
        (said.status == ConditionStatus::True || said.reason == Reason::NotExists).then_some(*start)
    }

    /// True if the worker's node record reports that it is in this maintenance now.
    pub(super) fn has(&self, worker: &Worker) -> bool {
        worker.in_slurm.has("Maintenance") && worker.in_slurm.reservations.split(',').any(|name| name == self.name)
    }

    /// Time of the replacements, for messages.
    pub(super) fn when(&self) -> String {
        match &self.seen {
            Seen::There(Reserved { start, end, .. }) => format!("in the maintenance from {} to {}", written(*start), written(*end)),
            Seen::Absent | Seen::Unknown(_) => format!("in a maintenance of which condition `{RESERVATION_CREATED}` tells"),
        }
    }

    /// Deletes the reservation if it exists and is ours. `None` if there is nothing to delete, `Ok` while the deletion is pending, `Err` with the
    /// reason if Slurm refused it or the reservation is unknown.
    pub(super) fn plan_end(&self, plan: &mut Plan) -> Option<Result<(), String>> {
        match &self.seen {
            Seen::There(reserved) if reserved.is_ours() => {
                let refusal = self.tell(None, plan);
                Some(refusal.map_or(Ok(()), |why| Err(format!("Slurm does not delete reservation `{}` ({why})", self.name))))
            }
            Seen::Unknown(cause) => Some(Err(format!("whether reservation `{}` exists is unknown, as {cause}", self.name))),
            Seen::There(_) | Seen::Absent => None,
        }
    }

    /// Sends the command unless it was just sent; returns Slurm's refusal of the last attempt.
    fn tell(&self, booking: Option<Booking>, plan: &mut Plan) -> Option<String> {
        let name = self.name.clone();
        let refusal = match self.told.as_ref().filter(|told| told.booking == booking && !told.again_in.is_zero()) {
            Some(told) => {
                plan.wake_within(told.again_in);
                return told.refusal.clone();
            }
            None => self.told.as_ref().filter(|told| told.booking == booking).and_then(|told| told.refusal.clone()),
        };
        let what = format!("write reservation `{name}`");
        // Running jobs continue in our maintenance, and Slurm refuses to delete a reservation while jobs that use it are running.
        let deed = Deed { is_ours: self.is_ours(), ..Deed::new(what, Answer::No) };
        if let Some(clearance) = gate(&deed).clearance() {
            plan.actions.push(match booking {
                Some(booking) => Action::Reserve { name, booking, clearance },
                None => Action::Unreserve { name, clearance },
            });
        }
        refusal
    }

    fn is_ours(&self) -> bool {
        match &self.seen {
            Seen::There(reserved) => reserved.is_ours(),
            Seen::Absent | Seen::Unknown(_) => true,
        }
    }
}

impl Reserved {
    /// True if it may be changed and deleted. Its name is reserved for us, and other operators that we take over from use the same. A reservation
    /// without the maintenance flag was created by neither, or someone has repurposed it. Users that an administrator added are kept.
    fn is_ours(&self) -> bool {
        self.flags.contains(MAINT)
    }
}

/// Creates, changes or deletes the reservation, as far as Slurm allows changes once it has begun, and reports its state.
pub(super) fn plan_maintenance(observed: &Observed<'_>, forgotten: &BTreeSet<String>, plan: &mut Plan) {
    let Observed { slurm: Slurm { maintenance, .. }, policy: Policy { replicas, .. }, .. } = *observed;
    let Maintenance { name, wanted, seen, said, .. } = maintenance;
    let wanted = match wanted {
        Ok(Some(wanted)) if replicas > 0 => wanted,
        Ok(_) => {
            if let (Some(Err(why)), Seen::There(reserved)) = (maintenance.plan_end(plan), seen) {
                say(
                    ConditionStatus::True,
                    Reason::ReservationRefused,
                    format!("it is no longer wanted, and {why}"),
                    Some(reserved.start),
                    plan,
                );
            }
            return;
        }
        Err(wrong) => {
            let exists = matches!(seen, Seen::There(_));
            return say(exists.into(), Reason::InvalidSpec, wrong.clone(), maintenance.made_for(), plan);
        }
    };
    let reserved = match seen {
        // The last report stays, as nothing newer is known. Unreachable Slurm has a condition of its own.
        Seen::Unknown(_) => return plan_saying(said.as_ref(), plan),
        _ if !are_known(observed) => return plan_saying(said.as_ref(), plan),
        Seen::There(reserved) => Some(reserved),
        Seen::Absent => None,
    };
    let nodes = nodes(observed, reserved, forgotten);
    match reserved {
        Some(reserved) if !reserved.is_ours() => {
            let message = format!(
                "reservation `{name}` is not one of ours, as it has no flag {MAINT}: it is left alone, and no worker is updated; delete it (`scontrol \
                 delete reservation={name}`), and one is made"
            );
            say(ConditionStatus::False, Reason::ReservationRefused, message, Some(wanted.start), plan);
        }
        Some(reserved) => plan_change(observed, wanted, reserved, nodes, plan),
        None => plan_new(observed, wanted, nodes, plan),
    }
}

/// True if it is known which workers are registered in Slurm.
fn are_known(observed: &Observed<'_>) -> bool {
    !observed.workers.iter().any(|worker| matches!(worker.in_slurm.is_registered, Answer::Unknown(_)))
}

fn plan_saying(said: Option<&(ConditionUpdate, Timestamp)>, plan: &mut Plan) {
    if let Some((ConditionUpdate { status, reason, message, .. }, start)) = said {
        say(*status, *reason, message.clone(), Some(*start), plan);
    }
}

/// The nodes to reserve: those of registered workers. A node whose pod is being replaced stays reserved, so that no job starts in between. A node to
/// be deleted does not, because Slurm deletes no reserved node.
fn nodes(observed: &Observed<'_>, reserved: Option<&Reserved>, forgotten: &BTreeSet<String>) -> BTreeSet<String> {
    let Observed { workers, slurm: Slurm { stale_nodes, .. }, policy: Policy { replicas, .. }, .. } = *observed;
    let known = workers.iter().filter(|worker| worker.in_slurm.is_registered == Answer::Yes).map(|worker| &worker.node);
    let is_replaced = |node: &&String| workers.len() < replicas && reserved.is_some_and(|reserved| reserved.nodes.contains(*node));
    // Slurm deletes no reserved record, so one that is to be recreated is removed from the reservation first.
    let replaced = stale_nodes
        .iter()
        .filter(|stale_node| stale_node.record.differences.is_empty())
        .map(|stale_node| &stale_node.node)
        .filter(is_replaced);
    known.chain(replaced).filter(|node| !forgotten.contains(*node)).cloned().collect()
}

fn plan_new(observed: &Observed<'_>, wanted: &Schedule, nodes: BTreeSet<String>, plan: &mut Plan) {
    let Observed { now, slurm: Slurm { maintenance, .. }, .. } = *observed;
    let (name, start) = (&maintenance.name, wanted.start);
    let was_made = maintenance.made_for() == Some(start);
    let Some(begins) = wanted.new_start(!was_made, now) else {
        let (reason, message) = if was_made {
            (Reason::NotExists, format!("reservation `{name}` is over: set another startTime for the next update"))
        } else {
            let passed = written(start);
            (
                Reason::ReservationRefused,
                format!("reservation `{name}` is not created, because its startTime {passed} has passed: set a later one"),
            )
        };
        return say(ConditionStatus::False, reason, message, Some(start), plan);
    };
    if nodes.is_empty() {
        let message = format!("reservation `{name}` is created as soon as a worker is registered in Slurm");
        return say(ConditionStatus::False, Reason::ReservationPending, message, Some(start), plan);
    }
    let booking = Booking { is_new: true, start: Some(begins), minutes: wanted.minutes, nodes, flags: wanted.flags.clone() };
    match maintenance.tell(Some(booking), plan) {
        Some(why) => {
            let message = format!("Slurm does not make reservation `{name}` ({why}): {LOOK}");
            say(ConditionStatus::False, Reason::ReservationRefused, message, Some(start), plan);
        }
        None => {
            say(ConditionStatus::False, Reason::ReservationPending, format!("reservation `{name}` is being created"), Some(start), plan);
        }
    }
}

fn plan_change(observed: &Observed<'_>, wanted: &Schedule, reserved: &Reserved, nodes: BTreeSet<String>, plan: &mut Plan) {
    let Observed { now, slurm: Slurm { maintenance, .. }, .. } = *observed;
    let (name, made_for) = (&maintenance.name, maintenance.made_for());
    let has_begun = reserved.start <= now;
    let next = wanted.next_start(now);
    // Slurm advances a recurring reservation by itself; only a changed schedule moves it elsewhere.
    let moved_on = wanted.is_recurring() && made_for == Some(wanted.start) && reserved.start > wanted.start;
    let has_start = moved_on || reserved.start == wanted.start || reserved.start == next;
    let has_length = reserved.end.duration_since(reserved.start) == SignedDuration::from_mins(wanted.minutes);
    // If all workers are gone for a moment, the reservation keeps its nodes.
    let has_nodes = nodes.is_empty() || reserved.nodes == nodes;
    let refusal = if !has_begun && wanted.drops_a_flag(&reserved.flags) {
        maintenance.tell(None, plan)
    } else if !has_length || !has_nodes || (!has_begun && (!has_start || wanted.lacks_a_flag(&reserved.flags))) {
        let start = (!has_begun && !has_start).then_some(next);
        let flags = if has_begun { BTreeSet::new() } else { wanted.flags.clone() };
        maintenance.tell(Some(Booking { is_new: false, start, minutes: wanted.minutes, nodes, flags }), plan)
    } else {
        None
    };
    let count = reserved.nodes.len();
    let next_one =
        if has_begun && !has_start { format!("; the one for {} is created when it is over", written(wanted.start)) } else { String::new() };
    let (start, end) = (written(reserved.start), written(reserved.end));
    let message = format!("reservation `{name}` has {count} nodes from {start} to {end}{next_one}");
    let made_for = Some(if has_start { wanted.start } else { made_for.unwrap_or(reserved.start) });
    match refusal {
        Some(why) => {
            say(
                ConditionStatus::True,
                Reason::ReservationRefused,
                format!("{message}; Slurm does not change it ({why}): {LOOK}"),
                made_for,
                plan,
            );
        }
        None => say(ConditionStatus::True, Reason::Created, message, made_for, plan),
    }
}

/// Sets the condition on the NodeSet. Other products read the schedule's start from the condition's last transition time.
fn say(status: ConditionStatus, reason: Reason, message: String, start: Option<Timestamp>, plan: &mut Plan) {
    plan.report.condition_updates.push(ConditionUpdate { type_: RESERVATION_CREATED, status, reason, message });
    plan.report.moments.extend(start.map(|start| (RESERVATION_CREATED, start)));
}

#[cfg(test)]
mod tests;
