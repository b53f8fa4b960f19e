//! Proof that the daemons run the published configuration.

use std::time::Duration;

use jiff::Timestamp;
use slipway_api::condition::{CONFIGURATION_APPLIED, ConditionStatus, ConditionUpdate, Reason};

use super::{ControllerPod, nudge, nudge_again};
use crate::{Action, Plan};

/// Time after slurmctld's reading until a worker counts as late. slurmctld notifies its workers within a second, but the operator may read the result
/// from Slurm twenty seconds later.
const SETTLE: Duration = Duration::from_secs(25);
/// Time until the kubelet is notified again. It updates the files within a second or two of a notification.
const TELL_AGAIN: Duration = Duration::from_secs(15);
/// Delay until the next check if slurmctld has read it.
const LOOK_SOON: Duration = Duration::from_secs(2);
/// Maximum number of repetitions for one configuration. A worker with a wrong clock looks late forever.
const MOST_REPEATS: u32 = 3;
/// Backoff after the first repetition; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(30);

/// Configuration that each daemon has read, as Slurm reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Time of slurmctld's last reading, or why it is unknown.
    pub read_at: Result<Timestamp, String>,
    /// Number of workers.
    pub workers: usize,
    /// Workers that read their configuration before slurmctld did.
    pub behind: Vec<Behind>,
    /// Number of repeated notifications of slurmctld's pods about the current configuration.
    pub nudges: u32,
    /// Number of repeated reconfigures of the workers with the current configuration, and the time of the last.
    pub repeats: u32,
    pub repeated_at: Option<Timestamp>,
}

/// A worker that does not run the newest configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    pub node: String,
    /// True if it responds, so that another reconfigure can help.
    pub answers: bool,
}

/// Rollout stage of slurmctld's pods.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// A pod of an older revision remains.
    Rolling,
    /// All pods are of the newest revision, and one is not ready.
    Down,
    Up,
}

/// The published configuration, and its way to slurmctld.
pub(super) struct Current<'a> {
    pub(super) hash: &'a str,
    /// Time of its publication, if this process published it.
    pub(super) published_at: Option<Timestamp>,
    pub(super) in_place: bool,
    pub(super) pods: &'a [ControllerPod],
    pub(super) rollout: Stage,
    /// True if it was proven before. slurmctld never unloads a configuration: without a new one this stays true, and the condition is not rewritten
    /// on each restart of slurmctld or the operator.
    pub(super) was_proven: bool,
}

impl Current<'_> {
    /// Time from which this pod could read the published files. A pod created after the publication starts with them and does not read them a second
    /// time.
    fn there_since(&self, pod: &ControllerPod, now: Timestamp) -> Timestamp {
        let born = now.checked_sub(pod.age).unwrap_or(now);
        match (&pod.told, self.published_at) {
            (Some(_), _) => now,
            (None, Some(published_at)) => born.max(published_at),
            (None, None) => born,
        }
    }

    /// True if a reading is by a slurmctld before the current pods. Clocks of machines may differ a little.
    fn is_older_than_its_pods(&self, read_at: Timestamp, now: Timestamp) -> bool {
        const CLOCKS: Duration = Duration::from_secs(5);
        let youngest = self.pods.iter().map(|pod| pod.age).min().unwrap_or_default();
        now.duration_since(read_at).unsigned_abs() > youngest + CLOCKS
    }
}

/// Returns the condition that reports who runs the configuration, and plans the next step toward it.
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
        // The timeout doubles with each notification.
        let patience = TELL_AGAIN * 2_u32.pow(proof.nudges.min(MOST_REPEATS));
        if proof.nudges < MOST_REPEATS && now.duration_since(told_at).unsigned_abs() >= patience {
            plan.actions.extend(current.pods.iter().filter(|pod| !pod.is_going).map(|pod| nudge_again(pod, now)));
        }
        if proof.nudges < MOST_REPEATS {
            plan.wake_within(LOOK_SOON);
        }
        return pending("slurmctld was notified of the configuration and has not read it yet: see the log of its container `reconfigure`");
    }
    if !current.in_place && !current.was_proven && current.is_older_than_its_pods(read_at, now) {
        plan.wake_within(LOOK_SOON);
        return pending("slurmctld runs with the configuration, and Slurm has not confirmed it yet");
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

/// Reconfigures workers that missed the configuration and respond again. It is the same configuration: no job is affected.
fn repeat(proof: &Proof, now: Timestamp, plan: &mut Plan) {
    if proof.repeats >= MOST_REPEATS || !proof.behind.iter().any(|worker| worker.answers) {
        return;
    }
    let pause = FIRST_PAUSE * 2_u32.pow(proof.repeats.saturating_sub(1));
    let waited = proof.repeated_at.map(|at| now.duration_since(at).unsigned_abs());
    match waited {
        Some(waited) if waited < pause => plan.wake_within(pause.saturating_sub(waited)),
        _ => plan.actions.extend(Action::reconfigure(words(&proof.behind, proof.workers))),
    }
}

fn words(behind: &[Behind], workers: usize) -> String {
    const MOST: usize = 5;
    let names: Vec<_> = behind.iter().take(MOST).map(|worker| worker.node.as_str()).collect();
    let more = if behind.len() > MOST { format!(" and {} more", behind.len() - MOST) } else { String::new() };
    let silent = behind.iter().filter(|worker| !worker.answers).count();
    let why = match silent {
        0 => "they are reconfigured again".to_owned(),
        silent => format!("{silent} of them do not respond to Slurm; they are reconfigured when they do"),
    };
    format!("{} of {workers} workers do not run the newest configuration yet ({}{more}): {why}", behind.len(), names.join(", "))
}
