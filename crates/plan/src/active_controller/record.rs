//! Roles that each slurmctld reported, now and before.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// Consecutive rounds without another active slurmctld after which one that responds again is trusted.
const CALM_ROUNDS: u8 = 3;
/// No standby takes over within fewer rounds of silence, whatever SlurmctldTimeout is.
const LONG_SLEEP: u32 = 4;

/// Result of asking a slurmctld for its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Active,
    /// It is up, and another is active.
    Standby,
    /// Nothing listens there.
    Absent,
    /// No response: it is frozen, unreachable or hangs, and may continue later.
    Silent,
}

/// All slurmctld of one Controller, by the name of their pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    pub by_pod: BTreeMap<String, Record>,
    /// True after the first round: a pod that appears later is new.
    is_begun: bool,
}

/// One slurmctld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// UID of the pod.
    pub uid: String,
    pub role: Role,
    /// Time of the first round with this role.
    pub since: Timestamp,
    past: Past,
}

/// History of a slurmctld: decides if it may report active from old memory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Past {
    /// It was active or silent in the first round.
    Unknown,
    /// It is new, or last reported that it was not active: if it reports active now, it became active since.
    NotActive,
    /// It was observed becoming active.
    Active,
    /// It was active or unknown, and then silent for `rounds` rounds. Since it responds again, no other slurmctld was active for `calm` rounds.
    Slept { rounds: u32, calm: u8 },
    /// This pod became active while it was silent.
    Overtaken { by: String },
}

impl Roles {
    /// Adds the results of one round: pod, UID and role. Pods that are not in the round are dropped.
    #[must_use]
    pub fn heard(&self, round: &[(String, String, Role)], now: Timestamp) -> Self {
        let before = |pod: &str, uid: &str| self.by_pod.get(pod).filter(|record| record.uid == uid);
        let others = |pod: &str| {
            let others = round.iter().filter(move |(other, ..)| other != pod).map(|(other, uid, role)| {
                let before = before(other, uid);
                // A slurmctld that reports active from old memory is not active.
                let role = match (role, before.map(|record| &record.past)) {
                    (Role::Active, Some(Past::Overtaken { .. })) => Role::Absent,
                    (role, _) => *role,
                };
                Other { pod: other, role, fell_silent: role == Role::Silent && before.is_some_and(|record| record.role != Role::Silent) }
            });
            others.collect::<Vec<_>>()
        };
        let by_pod = round.iter().map(|(pod, uid, role)| {
            let known = before(pod, uid);
            let first = if self.is_begun { Past::NotActive } else { Past::Unknown };
            let past = next_past(known, first, *role, &others(pod));
            let since = known.filter(|record| record.role == *role).map_or(now, |record| record.since);
            (pod.clone(), Record { uid: uid.clone(), role: *role, since, past })
        });
        Self { by_pod: by_pod.collect(), is_begun: true }
    }
}

/// Another slurmctld in the same round.
struct Other<'a> {
    pod: &'a str,
    role: Role,
    /// It responded in the previous round and does not now.
    fell_silent: bool,
}

fn next_past(known: Option<&Record>, first: Past, role: Role, others: &[Other<'_>]) -> Past {
    let past = known.map_or(first, |record| record.past.clone());
    let active = || others.iter().find(|other| other.role == Role::Active);
    let overtaken = |other: &Other<'_>| Past::Overtaken { by: other.pod.to_owned() };
    match (role, past) {
        // A slurmctld that was not active and is silent hangs, or waits for the other to hand over.
        (Role::Standby | Role::Absent, _) | (Role::Silent, Past::NotActive) => Past::NotActive,
        (_, past @ Past::Overtaken { .. }) => past,
        (Role::Silent, past) => {
            let slept = if let Past::Slept { rounds, .. } = past { rounds } else { 0 };
            active().map_or_else(|| Past::Slept { rounds: slept.saturating_add(1), calm: 0 }, overtaken)
        }
        (Role::Active, Past::NotActive) => Past::Active,
        (Role::Active, Past::Slept { rounds, calm }) => {
            // The one that took over reports active too, or hangs as soon as the old one continues.
            let usurped = active().or_else(|| others.iter().find(|other| other.fell_silent && rounds >= LONG_SLEEP));
            match usurped {
                Some(other) => overtaken(other),
                None if calm + 1 >= CALM_ROUNDS => Past::Active,
                None => Past::Slept { rounds, calm: calm + 1 },
            }
        }
        (Role::Active, past) => past,
    }
}

impl Record {
    /// True if it reports active, and not from old memory.
    pub(super) fn is_active(&self) -> bool {
        self.role == Role::Active && !matches!(self.past, Past::Overtaken { .. })
    }

    /// The slurmctld that is really active, or `None` unless this one reports active from old memory.
    pub(super) fn impostor_of(&self) -> Option<&str> {
        match &self.past {
            Past::Overtaken { by } if self.role == Role::Active => Some(by),
            _ => None,
        }
    }

    /// True if it is known that it was not active before it became silent.
    pub(super) fn only_stood_by(&self) -> bool {
        self.past == Past::NotActive
    }

    /// True if it was observed becoming active, or is trusted again after a silence.
    pub(super) fn was_seen_to_come(&self) -> bool {
        self.past == Past::Active
    }

    pub(super) fn in_words(&self) -> &'static str {
        match self.role {
            Role::Active => "reports an outdated role",
            Role::Standby => "is standby",
            Role::Absent => "is not listening",
            Role::Silent => "does not respond",
        }
    }
}
