//! What each slurmctld said of itself, now and before.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// So many rounds in a row the others must say that they are not in charge, until one that came back from a silence is believed again.
const CALM_ROUNDS: u8 = 3;
/// No standby takes over within fewer rounds of silence, whatever SlurmctldTimeout says.
const LONG_SLEEP: u32 = 4;

/// What a slurmctld says when asked whether it is in charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    InCharge,
    /// It is up, and another is in charge.
    Standby,
    /// Nobody listens there.
    Absent,
    /// No answer comes: it is frozen, cut off or hangs, and may go on some time.
    Silent,
}

/// All slurmctld of one Controller, by the name of their pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    pub by_pod: BTreeMap<String, Record>,
    /// Whether anybody was asked before: a pod that comes later is new.
    is_begun: bool,
}

/// One slurmctld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of the pod.
    pub uid: String,
    pub sign: Sign,
    /// Since when it gives this sign.
    pub since: Timestamp,
    past: Past,
}

/// What came before: whether its claim to be in charge can be out of an old memory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Past {
    /// It claimed to be in charge, or was silent, when anybody was asked for the first time.
    Unknown,
    /// It is new, or the last that it said is that it is not in charge: whatever it claims is what it came to since.
    NotInCharge,
    /// It came to be in charge before our eyes.
    InCharge,
    /// It was in charge, or nobody knows, and then silent for so many rounds; for so many since it is back nobody else seemed to be in charge.
    Slept { rounds: u32, calm: u8 },
    /// While it was silent, this pod came to be in charge.
    Overtaken { by: String },
}

impl Signs {
    /// With the answers of one round: pod, UID and sign. Who was not asked is forgotten.
    #[must_use]
    pub fn heard(&self, round: &[(String, String, Sign)], now: Timestamp) -> Self {
        let before = |pod: &str, uid: &str| self.by_pod.get(pod).filter(|record| record.uid == uid);
        let others = |pod: &str| {
            let others = round.iter().filter(move |(other, ..)| other != pod).map(|(other, uid, sign)| {
                let before = before(other, uid);
                // One that claims it out of an old memory is not in charge.
                let sign = match (sign, before.map(|record| &record.past)) {
                    (Sign::InCharge, Some(Past::Overtaken { .. })) => Sign::Absent,
                    (sign, _) => *sign,
                };
                Other { pod: other, sign, fell_silent: sign == Sign::Silent && before.is_some_and(|record| record.sign != Sign::Silent) }
            });
            others.collect::<Vec<_>>()
        };
        let by_pod = round.iter().map(|(pod, uid, sign)| {
            let known = before(pod, uid);
            let first = if self.is_begun { Past::NotInCharge } else { Past::Unknown };
            let past = next_past(known, first, *sign, &others(pod));
            let since = known.filter(|record| record.sign == *sign).map_or(now, |record| record.since);
            (pod.clone(), Record { uid: uid.clone(), sign: *sign, since, past })
        });
        Self { by_pod: by_pod.collect(), is_begun: true }
    }
}

/// Another slurmctld in the same round.
struct Other<'a> {
    pod: &'a str,
    sign: Sign,
    /// It answered in the round before.
    fell_silent: bool,
}

fn next_past(known: Option<&Record>, first: Past, sign: Sign, others: &[Other<'_>]) -> Past {
    let past = known.map_or(first, |record| record.past.clone());
    let in_charge = || others.iter().find(|other| other.sign == Sign::InCharge);
    let overtaken = |other: &Other<'_>| Past::Overtaken { by: other.pod.to_owned() };
    match (sign, past) {
        // One that was not in charge before and is silent hangs, or waits for the other to hand over.
        (Sign::Standby | Sign::Absent, _) | (Sign::Silent, Past::NotInCharge) => Past::NotInCharge,
        (_, past @ Past::Overtaken { .. }) => past,
        (Sign::Silent, past) => {
            let slept = if let Past::Slept { rounds, .. } = past { rounds } else { 0 };
            in_charge().map_or_else(|| Past::Slept { rounds: slept.saturating_add(1), calm: 0 }, overtaken)
        }
        (Sign::InCharge, Past::NotInCharge) => Past::InCharge,
        (Sign::InCharge, Past::Slept { rounds, calm }) => {
            // The one that took over claims it too, or hangs as soon as the old one is back.
            let usurped = in_charge().or_else(|| others.iter().find(|other| other.fell_silent && rounds >= LONG_SLEEP));
            match usurped {
                Some(other) => overtaken(other),
                None if calm + 1 >= CALM_ROUNDS => Past::InCharge,
                None => Past::Slept { rounds, calm: calm + 1 },
            }
        }
        (Sign::InCharge, past) => past,
    }
}

impl Record {
    /// Whether it is in charge, and not only says so.
    pub(super) fn is_in_charge(&self) -> bool {
        self.sign == Sign::InCharge && !matches!(self.past, Past::Overtaken { .. })
    }

    /// Who is in charge in truth, if this one claims it out of an old memory.
    pub(super) fn impostor_of(&self) -> Option<&str> {
        match &self.past {
            Past::Overtaken { by } if self.sign == Sign::InCharge => Some(by),
            _ => None,
        }
    }

    /// Whether it is known that it was not in charge before its silence.
    pub(super) fn only_stood_by(&self) -> bool {
        self.past == Past::NotInCharge
    }

    /// Whether it was seen how it came to be in charge, and it never slept since.
    pub(super) fn was_seen_to_come(&self) -> bool {
        self.past == Past::InCharge
    }

    pub(super) fn in_words(&self) -> &'static str {
        match self.sign {
            Sign::InCharge => "claims it out of an old memory",
            Sign::Standby => "stands by",
            Sign::Absent => "does not listen",
            Sign::Silent => "does not answer",
        }
    }
}
