//! Pods of slurmctld. The StatefulSet creates them; this module does what it does not do for them.

use std::time::Duration;

use serde_json::Value;

use super::Rollout;
use crate::{
    Action,
    gate::{Answer, Deed, gate},
};

/// Minimum age of a stuck pod: its StatefulSet may just not have got to a younger one yet.
const GRACE: Duration = Duration::from_secs(5);

/// Deletes a pod of an older revision that never becomes ready: its StatefulSet would wait for it forever instead of creating the new one. No job
/// depends on a slurmctld that is not up.
pub(super) fn replace_stuck(rollout: &Rollout<'_>) -> Option<Action> {
    let live = rollout.statefulset?;
    let newest = live["status"]["updateRevision"].as_str()?;
    let number = |path: &str| live.pointer(path).and_then(Value::as_i64);
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return None;
    }
    let stuck = rollout.pods.iter().find(|pod| !pod.is_ready && !pod.is_going && pod.age >= GRACE && pod.revision != newest)?;
    let clearance = gate(&Deed::new(format!("delete pod `{}`", stuck.id.name), Answer::No)).clearance()?;
    let why = "it is of an older revision and never became ready".to_owned();
    Some(Action::DeletePod { pod: stuck.id.clone(), grace: None, why, clearance })
}
