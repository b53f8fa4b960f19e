//! Whether the daemons run what is published.

use std::time::Duration;

use jiff::Timestamp;
use slipway_api::condition::{CONFIGURATION_APPLIED, Reason, ConditionUpdate, ConditionStatus};

use super::{ControllerPod, nudge, nudge_again};
use crate::{Action, Plan};

/// slurmctld tells its workers within a second; what Slurm says about that may be read twenty seconds later. Only then is one that did not hear it
/// called late.
const SETTLE: Duration = Duration::from_secs(25);
/// The kubelet brings new files within a second or two of being told of them; after this time it is told again.
const TELL_AGAIN: Duration = Duration::from_secs(15);
/// How soon to look again whether it was read.
const LOOK_SOON: Duration = Duration::from_secs(2);
/// How often a configuration is passed on again to whoever missed it. One whose clock is wrong looks late for ever.
const MOST_REPEATS: u32 = 3;
/// The pause before the first repetition; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(30);

/// What Slurm says about who read what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// When slurmctld last read its configuration, or why that is not known.
    pub read_at: Result<Timestamp, String>,
    /// How many workers there are.
    pub workers: usize,
    /// Those that read theirs before slurmctld did.
    pub behind: Vec<Behind>,
    /// How often slurmctld's pods were told again of the present configuration.
    pub nudges: u32,
    /// How often the present configuration was passed on again to the workers, and when last.
    pub repeats: u32,
    pub repeated_at: Option<Timestamp>,
}

/// A worker that does not run the newest configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    pub node: String,
    /// Whether it answers, so that telling it again can help.
    pub answers: bool,
}

/// How far the pods of slurmctld are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// One of an older revision is left.
    Rolling,
    /// All are of the newest revision, and one is not ready.
    Down,
    Up,
}

/// What is published, and how it gets to slurmctld.
pub(super) struct Current<'a> {
    pub(super) hash: &'a str,
    /// When it was published, if this process did it.
    pub(super) published_at: Option<Timestamp>,
    pub(super) in_place: bool,
    pub(super) pods: &'a [ControllerPod],
    pub(super) rollout: Stage,
    /// Whether it was proven before. slurmctld does not unread a configuration: where there is no news that stays true, and is not written anew each
    /// time that slurmctld or the operator starts.
    pub(super) was_proven: bool,
}

impl Current<'_> {
    /// Since when the published files were there for this pod to read. One that was made after they were published starts with them, and does
    /// not read them a second time.
    fn there_since(&self, pod: &ControllerPod, now: Timestamp) -> Timestamp {
        let born = now.checked_sub(pod.age).unwrap_or(now);
        match (&pod.told, self.published_at) {
            (Some(_), _) => now,
            (None, Some(published_at)) => born.max(published_at),
            (None, None) => born,
        }
    }

    /// Whether a reading is of a slurmctld that was there before the present pods. Clocks of machines may differ a little.
    fn is_older_than_its_pods(&self, read_at: Timestamp, now: Timestamp) -> bool {
        const CLOCKS: Duration = Duration::from_secs(5);
        let youngest = self.pods.iter().map(|pod| pod.age).min().unwrap_or_default();
        now.duration_since(read_at).unsigned_abs() > youngest + CLOCKS
    }
}

/// Says how far the configuration got, and adds what brings it further.
pub(super) fn judge(proof: &Proof, current: &Current<'_>, now: Timestamp, plan: &mut Plan) -> ConditionUpdate {
    let say = |status, reason, message: String| ConditionUpdate { type_: CONFIGURATION_APPLIED, status, reason, message };
    let proven = || say(ConditionStatus::True, Reason::AllReady, "slurmctld and its workers run the configuration".to_owned());
    let pending = |message: &str| say(ConditionStatus::False, Reason::ConfigurationPending, message.to_owned());
    if current.in_place {
        let is_untold = |pod: &ControllerPod| !pod.is_going && pod.told.as_ref().is_none_or(|(hash, _)| hash != current.hash);
        let untold: Vec<_> = current.pods.iter().filter(|pod| is_untold(pod)).collect();
        plan.actions.extend(untold.iter().map(|pod| nudge(pod, current.hash, current.there_since(pod, now))));
        if untold.iter().any(|pod| pod.told.is_some() || !current.was_proven) {
            return pending("the configuration is on its way to slurmctld");
        }
    }
    if current.rollout == Stage::Rolling || (current.rollout == Stage::Down && !current.was_proven) {
        return pending("slurmctld is not up with the configuration yet");
    }
    let read_at = match &proof.read_at {
        Ok(read_at) => *read_at,
        Err(_) if current.was_proven => return proven(),
        Err(cause) => {
            let message = format!("the configuration is published; whether slurmctld and the workers run it is unknown, as {cause}");
            return say(ConditionStatus::Unknown, Reason::ConfigurationUnverified, message);
        }
    };
    let told_at = current.pods.iter().filter_map(|pod| pod.told.as_ref()).map(|(_, since)| *since).max();
    if let Some(told_at) = told_at.filter(|told_at| current.in_place && read_at < *told_at && !current.was_proven) {
        // Each time it looks late, twice as late as before.
        let patience = TELL_AGAIN * 2_u32.pow(proof.nudges.min(MOST_REPEATS));
        if proof.nudges < MOST_REPEATS && now.duration_since(told_at).unsigned_abs() >= patience {
            plan.actions.extend(current.pods.iter().filter(|pod| !pod.is_going).map(|pod| nudge_again(pod, now)));
        }
        if proof.nudges < MOST_REPEATS {
            plan.wake_within(LOOK_SOON);
        }
        return pending("slurmctld was told of the configuration and has not read it yet: see the log of its container `reconfigure`");
    }
    if !current.in_place && !current.was_proven && current.is_older_than_its_pods(read_at, now) {
        plan.wake_within(LOOK_SOON);
        return pending("slurmctld is up with the configuration, and Slurm has not said so yet");
    }
    if proof.behind.is_empty() {
        return proven();
    }
    let since_reading = now.duration_since(read_at).unsigned_abs();
    if since_reading < SETTLE {
        if current.was_proven {
            plan.wake_within(SETTLE.saturating_sub(since_reading));
            return proven();
        }
        plan.wake_within(LOOK_SOON);
        return pending("slurmctld has read the configuration and passes it on to its workers");
    }
    repeat(proof, now, plan);
    say(ConditionStatus::False, Reason::WorkersBehind, words(&proof.behind, proof.workers))
}

/// Passes the configuration on once more to workers that missed it and answer again. It is the same configuration: no job is touched.
fn repeat(proof: &Proof, now: Timestamp, plan: &mut Plan) {
    if proof.repeats >= MOST_REPEATS || !proof.behind.iter().any(|worker| worker.answers) {
        return;
    }
    let pause = FIRST_PAUSE * 2_u32.pow(proof.repeats.saturating_sub(1));
    let waited = proof.repeated_at.map(|at| now.duration_since(at).unsigned_abs());
    match waited {
        Some(waited) if waited < pause => plan.wake_within(pause.saturating_sub(waited)),
        _ => plan.actions.push(Action::Reconfigure { why: words(&proof.behind, proof.workers) }),
    }
}

fn words(behind: &[Behind], workers: usize) -> String {
    const MOST: usize = 5;
    let names: Vec<_> = behind.iter().take(MOST).map(|worker| worker.node.as_str()).collect();
    let more = if behind.len() > MOST { format!(" and {} more", behind.len() - MOST) } else { String::new() };
    let silent = behind.iter().filter(|worker| !worker.answers).count();
    let why = match silent {
        0 => "they are told again".to_owned(),
        silent => format!("{silent} of them do not answer Slurm; they are told again when they do"),
    };
    format!("{} of {workers} workers do not run the newest configuration yet ({}{more}): {why}", behind.len(), names.join(", "))
}
