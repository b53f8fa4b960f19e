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
    /// Set if one available worker fewer would remain.
    pub room: Option<Room>,
}

impl Deed {
    /// An action on an object of ours that makes no worker unavailable and that no user has forced.
    pub fn new(what: String, ends_jobs: Answer) -> Self {
        Self { what, is_ours: true, ends_jobs, may_end_jobs: false, room: None }
    }
}

/// Number of available workers, and the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub available: usize,
    pub floor: usize,
}

/// Proof that the gate allowed an action. Only [`gate`] creates it, and an action that could kill a job cannot be constructed without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clearance(());

impl Clearance {
    /// One clearance for an action on several objects, each of which has its own; `None` if there is no object.
    pub fn for_all<T>(cleared: impl IntoIterator<Item = (T, Self)>) -> Option<(Vec<T>, Self)> {
        let (objects, mut clearances): (Vec<T>, Vec<Self>) = cleared.into_iter().unzip();
        Some((objects, clearances.pop()?))
    }

    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        Self(())
    }
}

/// Decision of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    Allowed(Clearance),
    /// Not now; the reason is for users.
    Wait(String),
    /// Never; the reason is for users.
    Refused(String),
}

impl Verdict {
    /// The clearance if the action is allowed now.
    pub fn clearance(self) -> Option<Clearance> {
        match self {
            Self::Allowed(clearance) => Some(clearance),
            Self::Wait(_) | Self::Refused(_) => None,
        }
    }
}

/// Decides if `deed` may be done now.
///
/// `Allowed` means: the object is ours, Slurm reports that no job would be killed or a user permits that, and enough workers stay available.
pub fn gate(deed: &Deed) -> Verdict {
    let Deed { what, is_ours, ends_jobs, may_end_jobs, room } = deed;
    if !is_ours {
        return Verdict::Refused(format!("will not {what}: it belongs to someone else"));
    }
    match ends_jobs {
        Answer::Unknown(cause) if !may_end_jobs => {
            return Verdict::Wait(format!("waits to {what}: cannot tell whether that would kill jobs: {cause}"));
        }
        Answer::Yes if !may_end_jobs => return Verdict::Wait(format!("waits to {what}: jobs are running there")),
        Answer::Yes | Answer::No | Answer::Unknown(_) => {}
    }
    match room {
        Some(Room { available, floor }) if available <= floor => {
            Verdict::Wait(format!("waits to {what}: {available} workers are available and {floor} must stay so"))
        }
        _ => Verdict::Allowed(Clearance(())),
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
        ("[a-z ]{1,20}", any::<bool>(), answer(), any::<bool>(), prop::option::of(room()))
            .prop_map(|(what, is_ours, ends_jobs, may_end_jobs, room)| Deed { what, is_ours, ends_jobs, may_end_jobs, room })
    }

    fn room() -> impl Strategy<Value = Room> {
        (0..50_usize, 0..50_usize).prop_map(|(available, floor)| Room { available, floor })
    }

    fn is_allowed(deed: &Deed) -> bool {
        gate(deed).clearance().is_some()
    }

    proptest! {
        #[test]
        fn jobs_end_only_where_a_user_permits_it(deed in deed()) {
            if is_allowed(&deed) {
                prop_assert!(deed.ends_jobs == Answer::No || deed.may_end_jobs);
            }
        }

        #[test]
        fn what_others_own_is_never_touched_not_even_by_force(mut deed in deed()) {
            deed.is_ours = false;
            prop_assert!(matches!(gate(&deed), Verdict::Refused(_)));
        }

        #[test]
        fn not_knowing_is_never_a_permission(mut deed in deed(), cause in "[a-z]{1,9}") {
            (deed.ends_jobs, deed.may_end_jobs) = (Answer::Unknown(cause), false);
            prop_assert!(!is_allowed(&deed));
        }

        #[test]
        fn availability_never_falls_below_the_floor_not_even_by_force(deed in deed()) {
            if is_allowed(&deed)
                && let Some(room) = deed.room
            {
                prop_assert!(room.available > room.floor);
            }
        }

        #[test]
        fn a_permission_changes_nothing_but_what_jobs_forbid(mut deed in deed()) {
            deed.may_end_jobs = true;
            let permitted = gate(&deed);
            (deed.ends_jobs, deed.may_end_jobs) = (Answer::No, false);
            prop_assert_eq!(permitted, gate(&deed));
        }

        #[test]
        fn nothing_waits_that_is_safe(deed in deed()) {
            let is_safe = deed.is_ours && deed.ends_jobs == Answer::No && deed.room.is_none_or(|room| room.available > room.floor);
            if is_safe {
                prop_assert!(is_allowed(&deed));
            }
        }

        #[test]
        fn a_reason_names_the_deed(deed in deed()) {
            match gate(&deed) {
                Verdict::Allowed(_) => {}
                Verdict::Wait(why) | Verdict::Refused(why) => prop_assert!(why.contains(&deed.what)),
            }
        }
    }

    #[test]
    fn an_action_on_no_object_has_no_clearance() {
        assert_eq!(Clearance::for_all(Vec::<(u8, Clearance)>::new()), None);
        let cleared = [(1, Clearance(())), (2, Clearance(()))];
        assert_eq!(Clearance::for_all(cleared), Some((vec![1, 2], Clearance(()))));
    }
}
