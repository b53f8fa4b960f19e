//! Schedule for the replacement of workers, as written by the user.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp, civil::Weekday, tz::TimeZone};
use slipway_api::ScheduledUpdate;

/// Flags of every reservation that we create: no other job starts in it, and running jobs continue.
const OURS: [&str; 2] = [MAINT, "IGNORE_JOBS"];
/// Makes a reservation a maintenance.
pub const MAINT: &str = "MAINT";
/// Lets a recurring reservation begin although its first period is already running.
const FORCE_START: &str = "FORCE_START";
/// Keeps the start of a reservation at a fixed distance from now, so that it never begins.
const TIME_FLOAT: &str = "TIME_FLOAT";

/// With one of these flags, Slurm creates the next reservation itself when one is over. The number is the hours between two.
const RECURRING: [(&str, i64); 5] = [("HOURLY", 1), ("DAILY", 24), ("WEEKLY", 7 * 24), ("WEEKDAY", 24), ("WEEKEND", 24)];
/// Flags whose edits are applied: Slurm shows them as written. Other flags Slurm sets itself, such as `SPEC_NODES`, or does not keep.
const FOLLOWED: [&str; 12] = [
    "HOURLY",
    "DAILY",
    "WEEKLY",
    "WEEKDAY",
    "WEEKEND",
    "FLEX",
    "MAGNETIC",
    "NO_HOLD_JOBS_AFTER_END",
    "OVERLAP",
    "PURGE_COMP",
    "STATIC",
    "USER_DELETE",
];

/// Further flags that Slurm accepts, whose edits are not applied. Slurm refuses an unknown flag, but creates the reservation anyway, without it.
const TAKEN: [&str; 14] = [
    MAINT,
    "IGNORE_JOBS",
    FORCE_START,
    TIME_FLOAT,
    "ALL_NODES",
    "ANY_NODES",
    "DURATION_MINUS",
    "DURATION_PLUS",
    "PART_NODES",
    "REPLACE",
    "REPLACE_DOWN",
    "SKIP",
    "SPEC_NODES",
    "TRES_PER_NODE",
];

const START: &str = "spec.updateStrategy.scheduledUpdate.startTime";
const DURATION: &str = "spec.updateStrategy.scheduledUpdate.duration";
const FLAGS: &str = "spec.updateStrategy.scheduledUpdate.flags";

/// Times at which workers are to be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub start: Timestamp,
    pub minutes: i64,
    /// All flags of the reservation.
    pub flags: BTreeSet<String>,
}

impl Schedule {
    /// Parses the user's schedule, or returns what is wrong with it. The API server rejects most errors, unless its CRD is older than the operator.
    pub fn parse(written: &ScheduledUpdate) -> Result<Self, String> {
        let ScheduledUpdate { start_time, duration, flags } = written;
        let start = start_time
            .as_ref()
            .ok_or_else(|| format!("{START} is missing: say when the maintenance begins, such as `2027-01-31T22:00:00Z`"))?;
        // Slurm counts whole seconds.
        let start = Timestamp::from_second(start.0.as_second()).unwrap_or(start.0);
        let minutes = duration.parse().ok().map(|length: SignedDuration| length.as_mins()).filter(|minutes| *minutes > 0);
        let minutes =
            minutes.ok_or_else(|| format!("{DURATION} `{duration}` is no length of time of at least one minute: write `30m` or `2h`"))?;
        let flags = flags.iter().flatten().map(|flag| flag.trim()).filter(|flag| !flag.is_empty()).map(parse_flag);
        let flags = flags.chain(OURS.map(|flag| Ok(flag.to_owned()))).collect::<Result<BTreeSet<String>, String>>()?;
        let recurring: Vec<&str> = RECURRING.iter().map(|(flag, _)| *flag).filter(|flag| flags.contains(*flag)).collect();
        if recurring.len() > 1 {
            return Err(format!("{FLAGS} say `{}`, and a reservation recurs in one way: keep one of them", recurring.join("` and `")));
        }
        if flags.contains(FORCE_START) && recurring.is_empty() {
            return Err(format!("{FLAGS}: Slurm takes `{FORCE_START}` only with a flag such as `DAILY`: add one, or take it out"));
        }
        if flags.contains(TIME_FLOAT) {
            return Err(format!("{FLAGS}: with `{TIME_FLOAT}` the maintenance would never begin: take it out"));
        }
        Ok(Self { start, minutes, flags })
    }

    pub(super) fn is_recurring(&self) -> bool {
        self.step().is_some()
    }

    /// The next start: the one that was written, or the next recurrence if the schedule recurs and that one has passed.
    pub(super) fn next_start(&self, now: Timestamp) -> Timestamp {
        let Some(step) = self.step().filter(|_| self.start <= now) else { return self.start };
        let times = now.duration_since(self.start).as_secs() / step.as_secs() + 1;
        let later = |times: i64| i32::try_from(times).ok().and_then(|times| self.start.checked_add(step.checked_mul(times)?).ok());
        let starts = (times..times + 7).filter_map(later);
        starts.clone().find(|start| self.is_on_its_day(*start)).or_else(|| starts.clone().next()).unwrap_or(self.start)
    }

    /// The start of a new reservation, or `None` if it has passed. `is_first` means that none was created for this schedule before. A reservation
    /// whose first period is running may then be forced to start, but not a second time, in case someone has ended it.
    pub(super) fn new_start(&self, is_first: bool, now: Timestamp) -> Option<Timestamp> {
        let is_running = self.start <= now && self.start.checked_add(SignedDuration::from_mins(self.minutes)).is_ok_and(|end| end > now);
        if is_first && is_running && self.flags.contains(FORCE_START) {
            return Some(self.start);
        }
        Some(self.next_start(now)).filter(|start| *start > now)
    }

    /// True if a reservation with these flags lacks a flag.
    pub(super) fn lacks_a_flag(&self, flags: &BTreeSet<String>) -> bool {
        OURS.iter().chain(&FOLLOWED).any(|flag| self.flags.contains(*flag) && !flags.contains(*flag))
    }

    /// True if a reservation with these flags has a flag that is no longer requested. Slurm cannot remove a flag, so the reservation is recreated.
    pub(super) fn drops_a_flag(&self, flags: &BTreeSet<String>) -> bool {
        FOLLOWED.iter().any(|flag| flags.contains(*flag) && !self.flags.contains(*flag))
    }

    fn step(&self) -> Option<SignedDuration> {
        RECURRING.iter().find(|(flag, _)| self.flags.contains(*flag)).map(|(_, hours)| SignedDuration::from_hours(*hours))
    }

    fn is_on_its_day(&self, start: Timestamp) -> bool {
        let is_weekend = matches!(start.to_zoned(TimeZone::UTC).weekday(), Weekday::Saturday | Weekday::Sunday);
        !(self.flags.contains("WEEKDAY") && is_weekend || self.flags.contains("WEEKEND") && !is_weekend)
    }
}

fn parse_flag(flag: &str) -> Result<String, String> {
    let known = flag.to_ascii_uppercase();
    let wrong =
        || format!("{FLAGS}: `{flag}` is no flag for a new reservation: write one word for each, such as `{}`", FOLLOWED.join("`, `"));
    if FOLLOWED.iter().chain(&TAKEN).any(|flag| *flag == known) { Ok(known) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    /// A Friday.
    const START: &str = "2027-01-29T22:00:00Z";

    fn parsed(written: &Value) -> Result<Schedule, String> {
        Schedule::parse(&serde_json::from_value(written.clone()).unwrap())
    }

    fn flagged(flags: &[&str]) -> Schedule {
        parsed(&json!({ "startTime": START, "duration": "30m", "flags": flags })).unwrap()
    }

    #[rstest]
    #[case::plain("30m", 30)]
    #[case::as_go_writes_it("1h30m0s", 90)]
    #[case::parts_of_minutes_are_dropped("90s", 1)]
    #[case::days("48h", 2880)]
    fn a_schedule_is_read(#[case] duration: &str, #[case] minutes: i64) {
        let read = parsed(&json!({ "startTime": START, "duration": duration, "flags": [" daily ", "", "Flex"] })).unwrap();
        assert_eq!((read.start.to_string().as_str(), read.minutes), (START, minutes));
        assert_eq!(read.flags.iter().map(String::as_str).collect::<Vec<_>>(), ["DAILY", "FLEX", "IGNORE_JOBS", "MAINT"]);
    }

    #[rstest]
    #[case::no_start(json!({ "duration": "30m" }), &["startTime", "2027"])]
    #[case::no_time(json!({ "startTime": START, "duration": "0s" }), &["duration", "`0s`", "30m"])]
    #[case::too_short(json!({ "startTime": START, "duration": "59s" }), &["duration"])]
    #[case::in_words(json!({ "startTime": START, "duration": "soon" }), &["`soon`"])]
    #[case::two_ways_to_recur(json!({ "startTime": START, "duration": "30m", "flags": ["DAILY", "weekly"] }), &["`DAILY` and `WEEKLY`"])]
    #[case::force_without_recurring(json!({ "startTime": START, "duration": "30m", "flags": ["FORCE_START"] }), &["`FORCE_START`", "`DAILY`"])]
    #[case::never(json!({ "startTime": START, "duration": "30m", "flags": ["time_float"] }), &["never begin"])]
    #[case::misspelt(json!({ "startTime": START, "duration": "30m", "flags": ["DIALY"] }), &["`DIALY`", "`DAILY`"])]
    #[case::taken_away(json!({ "startTime": START, "duration": "30m", "flags": ["NO_MAINT"] }), &["`NO_MAINT`"])]
    #[case::two_in_one(json!({ "startTime": START, "duration": "30m", "flags": ["DAILY,FLEX"] }), &["`DAILY,FLEX`", "one word"])]
    fn a_mistake_is_told(#[case] written: Value, #[case] words: &[&str]) {
        let wrong = parsed(&written).unwrap_err();
        assert!(words.iter().all(|word| wrong.contains(word)), "{wrong}");
    }

    #[rstest]
    #[case::ahead(&["DAILY"], "2027-01-29T21:00:00Z", START)]
    #[case::once(&[], "2027-01-30T00:00:00Z", START)]
    #[case::at_that_moment(&["HOURLY"], START, "2027-01-29T23:00:00Z")]
    #[case::daily(&["DAILY"], "2027-02-02T22:30:00Z", "2027-02-03T22:00:00Z")]
    #[case::weekly(&["WEEKLY"], "2027-02-02T22:30:00Z", "2027-02-05T22:00:00Z")]
    #[case::not_on_a_weekend(&["WEEKDAY"], "2027-01-29T22:30:00Z", "2027-02-01T22:00:00Z")]
    #[case::only_on_a_weekend(&["WEEKEND"], "2027-02-01T00:00:00Z", "2027-02-06T22:00:00Z")]
    fn the_next_start_is_that(#[case] flags: &[&str], #[case] now: &str, #[case] next: &str) {
        assert_eq!(flagged(flags).next_start(now.parse().unwrap()).to_string(), next);
    }

    #[rstest]
    #[case::ahead(&[], true, "2027-01-29T21:00:00Z", Some(START))]
    #[case::passed(&[], true, "2027-01-29T22:01:00Z", None)]
    #[case::passed_and_recurring(&["DAILY"], true, "2027-01-29T22:01:00Z", Some("2027-01-30T22:00:00Z"))]
    #[case::running_and_forced(&["DAILY", "FORCE_START"], true, "2027-01-29T22:01:00Z", Some(START))]
    #[case::forced_once_only(&["DAILY", "FORCE_START"], false, "2027-01-29T22:01:00Z", Some("2027-01-30T22:00:00Z"))]
    #[case::forced_and_over(&["DAILY", "FORCE_START"], true, "2027-01-29T22:31:00Z", Some("2027-01-30T22:00:00Z"))]
    fn a_new_one_begins_then(#[case] flags: &[&str], #[case] is_first: bool, #[case] now: &str, #[case] start: Option<&str>) {
        let begins = flagged(flags).new_start(is_first, now.parse().unwrap());
        assert_eq!(begins.map(|start| start.to_string()).as_deref(), start);
    }

    #[test]
    fn edits_of_flags_are_seen_where_slurm_shows_them() {
        let shown = |flags: &[&str]| flags.iter().chain(&["MAINT", "IGNORE_JOBS", "SPEC_NODES"]).map(|flag| (*flag).to_owned()).collect();
        let daily = flagged(&["DAILY", "ALL_NODES", "FORCE_START"]);
        assert!(!daily.lacks_a_flag(&shown(&["DAILY"])) && !daily.drops_a_flag(&shown(&["DAILY", "FORCE_START"])));
        assert!(daily.lacks_a_flag(&shown(&[])) && daily.drops_a_flag(&shown(&["DAILY", "FLEX"])));
    }
}
