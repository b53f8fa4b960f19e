//! The reservation in Slurm in which workers are replaced: it follows the schedule, and goes when nobody wants it any more.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use slipway_api::condition::{RESERVATION_CREATED, Reason, ConditionUpdate, ConditionStatus};

use super::{Observed, Schedule, Worker, schedule::MAINT, replacement_backoff::written};
use crate::{
    Action, Plan,
    gate::{Answer, Deed, Room, Verdict, gate},
};

/// What to do about a reservation that Slurm refuses to make or to change.
const LOOK: &str = "mend scheduledUpdate, or see `scontrol show reservation` and slurmctld's log";

/// A NodeSet's maintenance, as it is wanted and as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// Of its reservation in Slurm.
    pub name: String,
    /// When workers are to be replaced, where that is scheduled; or what is wrong with the schedule.
    pub wanted: Result<Option<Schedule>, String>,
    pub seen: Seen,
    /// What the NodeSet says of it so far, and the start that stands there.
    pub said: Option<(ConditionUpdate, Timestamp)>,
    /// What Slurm was last told about it.
    pub told: Option<Told>,
}

/// Whether Slurm has the reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    There(Reserved),
    Absent,
    /// With the cause.
    Unknown(String),
}

/// A reservation as Slurm has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    pub start: Timestamp,
    pub end: Timestamp,
    pub flags: BTreeSet<String>,
    pub nodes: BTreeSet<String>,
}

/// What to write. What is not given stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Whether it is to be made. A change never makes one, should it be gone by then.
    pub is_new: bool,
    pub start: Option<Timestamp>,
    pub minutes: i64,
    pub nodes: BTreeSet<String>,
    pub flags: BTreeSet<String>,
}

/// What Slurm was told about the reservation and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Nothing where it was to go.
    pub booking: Option<Booking>,
    /// Why Slurm did not do it, where it did not.
    pub refusal: Option<String>,
    /// The same is not told again before that.
    pub again_in: Duration,
}

impl Maintenance {
    /// One that nobody wants and that is not there.
    pub const fn none(name: String) -> Self {
        Self { name, wanted: Ok(None), seen: Seen::Absent, said: None, told: None }
    }

    /// The start for which one was last seen in Slurm.
    fn made_for(&self) -> Option<Timestamp> {
        let (said, start) = self.said.as_ref()?;
        (said.status == ConditionStatus::True || said.reason == Reason::NotExists).then_some(*start)
    }

    /// Whether a worker's node is in it now, by the node's own word.
    pub(super) fn has(&self, worker: &Worker) -> bool {
        worker.in_slurm.has("Maintenance") && worker.in_slurm.reservations.split(',').any(|name| name == self.name)
    }

    /// When workers are replaced, in words.
    pub(super) fn when(&self) -> String {
        match &self.seen {
            Seen::There(Reserved { start, end, .. }) => format!("in the maintenance from {} to {}", written(*start), written(*end)),
            Seen::Absent | Seen::Unknown(_) => format!("in a maintenance of which condition `{RESERVATION_CREATED}` tells"),
        }
    }

    /// Has the reservation deleted if it is there and ours. Answers whether that is still to come, and with it why it did not happen.
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

    /// Has Slurm told, unless it just was; answers why it did not do it the last time.
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
        // Jobs that run go on in a maintenance of ours, and Slurm refuses to delete one while jobs run by its leave.
        let deed = Deed { what, is_ours: self.is_ours(), ends_jobs: Answer::No, may_end_jobs: false, costs_a_worker: false };
        if gate(&deed, Room { available: 0, floor: 0 }) == Verdict::Allowed {
            plan.actions.push(match booking {
                Some(booking) => Action::Reserve { name, booking },
                None => Action::Unreserve { name },
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
    /// Whether it may be changed and deleted. Its name is kept for us, and other operators that we take over from use the same; but one without the
    /// maintenance flag was never made by either of us, or somebody has made something else of it. Users that an administrator added stay.
    fn is_ours(&self) -> bool {
        self.flags.contains(MAINT)
    }
}

/// Makes the reservation what it should be, as far as Slurm lets one that has begun be changed, and says how it stands.
pub(super) fn plan_maintenance(observed: &Observed<'_>, plan: &mut Plan) {
    let Observed { maintenance, replicas, .. } = *observed;
    let Maintenance { name, wanted, seen, said, .. } = maintenance;
    let wanted = match wanted {
        Ok(Some(wanted)) if replicas > 0 => wanted,
        Ok(_) => {
            if let (Some(Err(why)), Seen::There(reserved)) = (maintenance.plan_end(plan), seen) {
                say(ConditionStatus::True, Reason::ReservationRefused, format!("nobody wants it any more, and {why}"), Some(reserved.start), plan);
            }
            return;
        }
        Err(wrong) => {
            let exists = matches!(seen, Seen::There(_));
            return say(exists.into(), Reason::InvalidSpec, wrong.clone(), maintenance.made_for(), plan);
        }
    };
    let reserved = match seen {
        // Whatever was said stays true as far as anybody knows; that Slurm cannot be asked is a condition of its own.
        Seen::Unknown(_) => return plan_saying(said.as_ref(), plan),
        _ if !are_known(observed) => return plan_saying(said.as_ref(), plan),
        Seen::There(reserved) => Some(reserved),
        Seen::Absent => None,
    };
    let nodes = nodes(observed, reserved, plan);
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

/// Whether it is known which workers are in Slurm.
fn are_known(observed: &Observed<'_>) -> bool {
    !observed.workers.iter().any(|worker| matches!(worker.in_slurm.is_registered, Answer::Unknown(_)))
}

fn plan_saying(said: Option<&(ConditionUpdate, Timestamp)>, plan: &mut Plan) {
    if let Some((ConditionUpdate { status, reason, message, .. }, start)) = said {
        say(*status, *reason, message.clone(), Some(*start), plan);
    }
}

/// The nodes that are to be reserved: those of workers that Slurm knows. One that is just replaced stays reserved while its pod is gone, so that nobody's
/// job comes between; but Slurm forgets none that is reserved.
fn nodes(observed: &Observed<'_>, reserved: Option<&Reserved>, plan: &Plan) -> BTreeSet<String> {
    let Observed { workers, stale_nodes, replicas, .. } = *observed;
    let known = workers.iter().filter(|worker| worker.in_slurm.is_registered == Answer::Yes).map(|worker| &worker.node);
    let is_replaced = |node: &&String| workers.len() < replicas && reserved.is_some_and(|reserved| reserved.nodes.contains(*node));
    // Slurm keeps a record that is reserved, so one that is to be made anew is let go of first.
    let replaced = stale_nodes.iter().filter(|stale_node| stale_node.record.differences.is_empty()).map(|stale_node| &stale_node.node).filter(is_replaced);
    let forgotten = |node: &&String| plan.actions.iter().any(|action| matches!(action, Action::Forget { nodes } if nodes.contains(*node)));
    known.chain(replaced).filter(|node| !forgotten(node)).cloned().collect()
}

fn plan_new(observed: &Observed<'_>, wanted: &Schedule, nodes: BTreeSet<String>, plan: &mut Plan) {
    let Observed { maintenance, now, .. } = *observed;
    let (name, start) = (&maintenance.name, wanted.start);
    let was_made = maintenance.made_for() == Some(start);
    let Some(begins) = wanted.new_start(!was_made, now) else {
        let (reason, message) = if was_made {
            (Reason::NotExists, format!("reservation `{name}` is over: set another startTime for the next update"))
        } else {
            let passed = written(start);
            (
                Reason::ReservationRefused,
                format!("reservation `{name}` is not made, because its startTime {passed} has passed: set a later one"),
            )
        };
        return say(ConditionStatus::False, reason, message, Some(start), plan);
    };
    if nodes.is_empty() {
        let message = format!("reservation `{name}` is made as soon as Slurm knows a worker");
        return say(ConditionStatus::False, Reason::ReservationPending, message, Some(start), plan);
    }
    let booking = Booking { is_new: true, start: Some(begins), minutes: wanted.minutes, nodes, flags: wanted.flags.clone() };
    match maintenance.tell(Some(booking), plan) {
        Some(why) => {
            let message = format!("Slurm does not make reservation `{name}` ({why}): {LOOK}");
            say(ConditionStatus::False, Reason::ReservationRefused, message, Some(start), plan);
        }
        None => say(ConditionStatus::False, Reason::ReservationPending, format!("reservation `{name}` is being made"), Some(start), plan),
    }
}

fn plan_change(observed: &Observed<'_>, wanted: &Schedule, reserved: &Reserved, nodes: BTreeSet<String>, plan: &mut Plan) {
    let Observed { maintenance, now, .. } = *observed;
    let (name, made_for) = (&maintenance.name, maintenance.made_for());
    let has_begun = reserved.start <= now;
    let next = wanted.next_start(now);
    // A recurring one moves on by itself; only another wish of the user moves it elsewhere.
    let moved_on = wanted.is_recurring() && made_for == Some(wanted.start) && reserved.start > wanted.start;
    let has_start = moved_on || reserved.start == wanted.start || reserved.start == next;
    let has_length = reserved.end.duration_since(reserved.start) == SignedDuration::from_mins(wanted.minutes);
    // Where all workers are gone for a moment, it keeps what it has.
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
        if has_begun && !has_start { format!("; the one for {} is made when it is over", written(wanted.start)) } else { String::new() };
    let (start, end) = (written(reserved.start), written(reserved.end));
    let message = format!("reservation `{name}` has {count} nodes from {start} to {end}{next_one}");
    let made_for = Some(if has_start { wanted.start } else { made_for.unwrap_or(reserved.start) });
    match refusal {
        Some(why) => {
            say(ConditionStatus::True, Reason::ReservationRefused, format!("{message}; Slurm does not change it ({why}): {LOOK}"), made_for, plan);
        }
        None => say(ConditionStatus::True, Reason::Created, message, made_for, plan),
    }
}

/// Says it on the NodeSet. Other products read the schedule's start where a condition has the time of its last change.
fn say(status: ConditionStatus, reason: Reason, message: String, start: Option<Timestamp>, plan: &mut Plan) {
    plan.report.condition_updates.push(ConditionUpdate { type_: RESERVATION_CREATED, status, reason, message });
    plan.report.moments.extend(start.map(|start| (RESERVATION_CREATED, start)));
}

#[cfg(test)]
mod tests;
