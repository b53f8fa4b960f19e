//! Decision to publish a configuration now or later.

use std::time::Duration;

use jiff::Timestamp;
use slipway_api::{child::Child, condition::Reason};

use crate::{
    Wait,
    gate::{Answer, Clearance, Deed, Verdict, gate},
};

/// Wait for NodeSets, which slurm.conf names. Those of the same manifest are created a moment after their Controller: one wait is cheaper than a
/// restart.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Time that a changed configuration must stay the same before it is published: several edits in a row take effect once.
const QUIET: Duration = Duration::from_secs(1);
/// Time after which it is published even if it keeps changing.
const LATEST: Duration = Duration::from_secs(5);
/// Requeue delay while slurmctld is being replaced.
const SOON: Duration = Duration::from_secs(2);

/// A configuration that the spec asks for.
pub struct Candidate {
    /// The ConfigMap.
    pub child: Child,
    pub hash: String,
    /// Errors that would stop daemons or kill jobs, as sentences with file and line.
    pub refusals: Vec<String>,
    /// Time for which this configuration has been the desired one.
    pub stable_for: Duration,
    /// Time for which the desired configuration has differed from the published one.
    pub differs_for: Duration,
    /// Partitions of the published configuration that it lacks.
    pub dropped_partitions: Vec<String>,
    /// Jobs refer to the dropped partitions.
    pub dropped_partitions_have_jobs: Answer,
}

pub(super) enum Step {
    /// Publish it, unless it is published already.
    Publish { child: Box<Child>, hash: String, clearance: Clearance },
    /// Leave the published configuration as it is; requeue after this time even without an event.
    Hold(Wait, Option<Duration>),
}

/// Decides about the desired configuration. `is_replacing` is true while slurmctld is being replaced.
pub(super) fn step(
    candidate: Result<Candidate, Wait>,
    published: Option<&str>,
    is_replacing: bool,
    created: Option<Timestamp>,
    now: Timestamp,
) -> Step {
    let candidate = match candidate {
        Ok(candidate) => candidate,
        Err(wait) => return Step::Hold(wait, None),
    };
    let Candidate { child, hash, refusals, stable_for, differs_for, dropped_partitions, dropped_partitions_have_jobs } = candidate;
    let is_published = published == Some(hash.as_str());
    if !is_published && let Some(first) = refusals.first() {
        let more = if refusals.len() > 1 { format!("; and {} more", refusals.len() - 1) } else { String::new() };
        let last = if published.is_some() { "; the last good configuration stays" } else { "" };
        let why = format!("the configuration is not published: {first}{more}{last}");
        return Step::Hold(Wait::new(Reason::ConfigurationRefused, why), None);
    }
    if published.is_none()
        && let Some(left) = patience_left(created, now)
    {
        let wait = Wait::new(Reason::Progressing, "just created: NodeSets of the same manifest may follow");
        return Step::Hold(wait, Some(left));
    }
    let clearance = match ask_gate(&dropped_partitions, dropped_partitions_have_jobs) {
        Verdict::Allowed(clearance) => clearance,
        Verdict::Wait(why) | Verdict::Refused(why) => return Step::Hold(Wait::new(Reason::WaitingForSlurm, why), Some(LATEST)),
    };
    let is_change = published.is_some() && !is_published;
    if is_change && stable_for < QUIET && differs_for < LATEST {
        let wait = Wait::new(Reason::ConfigurationPending, "the configuration has just changed: it is published in a moment");
        return Step::Hold(wait, Some(QUIET.saturating_sub(stable_for).min(LATEST.saturating_sub(differs_for))));
    }
    if is_change && is_replacing {
        let wait = Wait::new(Reason::ConfigurationPending, "slurmctld is being replaced: the next configuration follows when it is up");
        return Step::Hold(wait, Some(SOON));
    }
    Step::Publish { child: Box::new(child), hash, clearance }
}

/// Asks the gate: Slurm kills the jobs of a partition that is removed from its configuration.
fn ask_gate(dropped: &[String], ends_jobs: Answer) -> Verdict {
    if dropped.is_empty() {
        return gate(&Deed::new("publish the configuration".to_owned(), Answer::No));
    }
    let have_jobs = ends_jobs == Answer::Yes;
    match gate(&Deed::new(format!("drop partition {} from slurm.conf", dropped.join(", ")), ends_jobs)) {
        Verdict::Wait(why) if have_jobs => {
            Verdict::Wait(format!("{why}, or wait for it; cancel them or move them (`scontrol update jobid=... partition=...`)"))
        }
        verdict => verdict,
    }
}

/// Time that a new Controller still waits, or `None` once it is old enough.
fn patience_left(created: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    // A creation time in the future means that clocks differ: the age is meaningless then.
    let age = Duration::try_from(now.duration_since(created?)).ok()?;
    PATIENCE.checked_sub(age).filter(|left| !left.is_zero())
}
