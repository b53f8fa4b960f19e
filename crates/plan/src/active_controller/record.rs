//! What each slurmctld said of itself, now and before.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// So many rounds in a row the others must say that they are not active, until one that came back from a silence is believed again.
const CALM_ROUNDS: u8 = 3;
/// No standby takes over within fewer rounds of silence, whatever SlurmctldTimeout says.
const LONG_SLEEP: u32 = 4;

/// What a slurmctld says when asked whether it is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Active,
    /// It is up, and another is active.
    Standby,
    /// Nobody listens there.
    Absent,
    /// No answer comes: it is frozen, cut off or hangs, and may go on some time.
    Silent,
}

/// All slurmctld of one Controller, by the name of their pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    pub by_pod: BTreeMap<String, Record>,
    /// Whether anybody was asked before: a pod that comes later is new.
    is_begun: bool,
}

/// One slurmctld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of the pod.
    pub uid: String,
    pub role: Role,
    /// Since when it gives this role.
    pub since: Timestamp,
    past: Past,
}

/// What came before: whether its claim to be active can be out of an old memory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Past {
    /// It claimed to be active, or was silent, when anybody was asked for the first time.
    Unknown,
    /// It is new, or the last that it said is that it is not active: whatever it claims is what it came to since.
    NotActive,
    /// It came to be active before our eyes.
    Active,
    /// It was active, or nobody knows, and then silent for so many rounds; for so many since it is back nobody else seemed to be active.
    Slept { rounds: u32, calm: u8 },
    /// While it was silent, this pod came to be active.
    Overtaken { by: String },
}

impl Roles {
    /// With the answers of one round: pod, UID and role. Who was not asked is forgotten.
    #[must_use]
    pub fn heard(&self, round: &[(String, String, Role)], now: Timestamp) -> Self {
        let before = |pod: &str, uid: &str| self.by_pod.get(pod).filter(|record| record.uid == uid);
        let others = |pod: &str| {
            let others = round.iter().filter(move |(other, ..)| other != pod).map(|(other, uid, role)| {
                let before = before(other, uid);
                // One that claims it out of an old memory is not active.
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
    /// It answered in the round before.
    fell_silent: bool,
}

fn next_past(known: Option<&Record>, first: Past, role: Role, others: &[Other<'_>]) -> Past {
    let past = known.map_or(first, |record| record.past.clone());
    let active = || others.iter().find(|other| other.role == Role::Active);
    let overtaken = |other: &Other<'_>| Past::Overtaken { by: other.pod.to_owned() };
    match (role, past) {
        // One that was not active before and is silent hangs, or waits for the other to hand over.
        (Role::Standby | Role::Absent, _) | (Role::Silent, Past::NotActive) => Past::NotActive,
        (_, past @ Past::Overtaken { .. }) => past,
        (Role::Silent, past) => {
            let slept = if let Past::Slept { rounds, .. } = past { rounds } else { 0 };
            active().map_or_else(|| Past::Slept { rounds: slept.saturating_add(1), calm: 0 }, overtaken)
        }
        (Role::Active, Past::NotActive) => Past::Active,
        (Role::Active, Past::Slept { rounds, calm }) => {
            // The one that took over claims it too, or hangs as soon as the old one is back.
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
    /// Whether it is active, and not only says so.
    pub(super) fn is_active(&self) -> bool {
        self.role == Role::Active && !matches!(self.past, Past::Overtaken { .. })
    }

    /// Who is active in truth, if this one claims it out of an old memory.
    pub(super) fn impostor_of(&self) -> Option<&str> {
        match &self.past {
            Past::Overtaken { by } if self.role == Role::Active => Some(by),
            _ => None,
        }
    }

    /// Whether it is known that it was not active before its silence.
    pub(super) fn only_stood_by(&self) -> bool {
        self.past == Past::NotActive
    }

    /// Whether it was seen how it came to be active, and it never slept since.
    pub(super) fn was_seen_to_come(&self) -> bool {
        self.past == Past::Active
    }

    pub(super) fn in_words(&self) -> &'static str {
        match self.role {
            Role::Active => "claims it out of an old memory",
            Role::Standby => "stands by",
            Role::Absent => "does not listen",
            Role::Silent => "does not answer",
        }
    }
}
