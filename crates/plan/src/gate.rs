//! The only gate: every action that could kill a job must pass it.

/// An answer about Slurm. `Unknown` is an answer of its own, and never a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    /// With the cause, for users.
    Unknown(String),
}

/// An action that could kill a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// Description, such as ``delete pod `worker-3` ``.
    pub what: String,
    /// True if we may touch the object.
    pub is_ours: bool,
    /// Running jobs would be killed.
    pub ends_jobs: Answer,
    /// True if a user permits that: by force, or by a deadline that has passed.
    pub may_end_jobs: bool,
    /// True if one available worker fewer would remain.
    pub costs_a_worker: bool,
}

/// Number of available workers, and the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub available: usize,
    pub floor: usize,
}

/// Decision of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    Allowed,
    /// Not now; the reason is for users.
    Wait(String),
    /// Never; the reason is for users.
    Refused(String),
}

/// Decides if `deed` may be done now.
///
/// `Allowed` means: the object is ours, Slurm reports that no job would be killed or a user permits that, and enough workers stay available.
pub fn gate(deed: &Deed, room: Room) -> Verdict {
    let Deed { what, is_ours, ends_jobs, may_end_jobs, costs_a_worker } = deed;
    if !is_ours {
        return Verdict::Refused(format!("will not {what}: it belongs to someone else"));
    }
    match ends_jobs {
        Answer::Unknown(cause) if !may_end_jobs => {
            Verdict::Wait(format!("waits to {what}: cannot tell whether that would kill jobs: {cause}"))
        }
        Answer::Yes if !may_end_jobs => Verdict::Wait(format!("waits to {what}: jobs are running there")),
        _ if *costs_a_worker && room.available <= room.floor => {
            Verdict::Wait(format!("waits to {what}: {} workers are available and {} must stay so", room.available, room.floor))
        }
        _ => Verdict::Allowed,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer() -> impl Strategy<Value = Answer> {
        prop_oneof![Just(Answer::Yes), Just(Answer::No), "[a-z ]{0,20}".prop_map(Answer::Unknown)]
    }

    fn deed() -> impl Strategy<Value = Deed> {
        ("[a-z ]{1,20}", any::<bool>(), answer(), any::<bool>(), any::<bool>()).prop_map(
            |(what, is_ours, ends_jobs, may_end_jobs, costs_a_worker)| Deed { what, is_ours, ends_jobs, may_end_jobs, costs_a_worker },
        )
    }

    fn room() -> impl Strategy<Value = Room> {
        (0..50_usize, 0..50_usize).prop_map(|(available, floor)| Room { available, floor })
    }

    proptest! {
        #[test]
        fn jobs_end_only_where_a_user_permits_it(deed in deed(), room in room()) {
            if gate(&deed, room) == Verdict::Allowed {
                prop_assert!(deed.ends_jobs == Answer::No || deed.may_end_jobs);
            }
        }

        #[test]
        fn what_others_own_is_never_touched_not_even_by_force(mut deed in deed(), room in room()) {
            deed.is_ours = false;
            prop_assert!(matches!(gate(&deed, room), Verdict::Refused(_)));
        }

        #[test]
        fn not_knowing_is_never_a_leave(mut deed in deed(), room in room(), cause in "[a-z]{1,9}") {
            (deed.ends_jobs, deed.may_end_jobs) = (Answer::Unknown(cause), false);
            prop_assert_ne!(gate(&deed, room), Verdict::Allowed);
        }

        #[test]
        fn availability_never_falls_below_the_floor_not_even_by_force(deed in deed(), room in room()) {
            if gate(&deed, room) == Verdict::Allowed && deed.costs_a_worker {
                prop_assert!(room.available > room.floor);
            }
        }

        #[test]
        fn a_permission_changes_nothing_but_what_jobs_forbid(mut deed in deed(), room in room()) {
            deed.may_end_jobs = true;
            let permitted = gate(&deed, room);
            (deed.ends_jobs, deed.may_end_jobs) = (Answer::No, false);
            prop_assert_eq!(permitted, gate(&deed, room));
        }

        #[test]
        fn nothing_waits_that_is_safe(deed in deed(), room in room()) {
            let is_safe = deed.is_ours && deed.ends_jobs == Answer::No && (!deed.costs_a_worker || room.available > room.floor);
            if is_safe {
                prop_assert_eq!(gate(&deed, room), Verdict::Allowed);
            }
        }

        #[test]
        fn a_reason_names_the_deed(deed in deed(), room in room()) {
            match gate(&deed, room) {
                Verdict::Allowed => {}
                Verdict::Wait(why) | Verdict::Refused(why) => prop_assert!(why.contains(&deed.what)),
            }
        }
    }
}
