//! Rollout progress of a StatefulSet or a Deployment.

use jiff::Timestamp;
use serde_json::Value;
use slipway_api::child::Child;

use crate::drift::{self, Drift, SeenChildren};

/// True if the cache does not show the desired spec yet: it is applied in this pass, or the cache lags behind an earlier one. The live status is then
/// about the old pods.
pub(crate) fn is_outdated(desired: &Child, seen: &SeenChildren, now: Timestamp) -> bool {
    let Some(seen) = seen.get(&desired.key) else { return false };
    let Some(live) = seen.live.as_deref() else { return false };
    drift::drift(&desired.body, seen, now) != Drift::None && !drift::covers(&live["spec"], &desired.body["spec"])
}

/// Progress of the rollout, or `None` if all replicas run the current template and are ready.
pub(crate) fn progress(live: &Value, is_outdated: bool) -> Option<String> {
    let number = |path: &str| live.pointer(path).and_then(Value::as_i64);
    let wanted = number("/spec/replicas").unwrap_or(1);
    let has_seen_spec = !is_outdated && number("/status/observedGeneration").unwrap_or(0) >= number("/metadata/generation").unwrap_or(0);
    let updated = number("/status/updatedReplicas").unwrap_or(0);
    let all = number("/status/replicas").unwrap_or(0);
    let ready = number("/status/readyReplicas").unwrap_or(0);
    if ready < wanted {
        return Some(format!("{ready} of {wanted} pods are ready"));
    }
    if !has_seen_spec || updated < wanted {
        return Some("its new spec is being rolled out".to_owned());
    }
    (all > updated).then(|| format!("{} of {all} pods are of an older version", all - updated))
}

/// A problem as the end of a sentence.
pub(crate) fn troubled(trouble: Option<String>) -> String {
    trouble.map(|trouble| format!(": {trouble}")).unwrap_or_default()
}

/// True if at least one replica is ready.
pub fn has_ready_pod(live: &Value) -> bool {
    live.pointer("/status/readyReplicas").and_then(Value::as_i64).unwrap_or(0) > 0
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::done(json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}), None)]
    #[case::nothing_yet(json!({}), Some("0 of 2 pods are ready"))]
    #[case::spec_not_seen(json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}), Some("its new spec is being rolled out"))]
    #[case::starting(json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}), Some("1 of 2 pods are ready"))]
    #[case::old_pods_serve(json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 2}), Some("1 of 3 pods are of an older version"))]
    fn progress_is_complete_only_when_all_pods_are_new_and_ready(#[case] status: Value, #[case] expected: Option<&str>) {
        let live = json!({"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status});
        assert_eq!(progress(&live, false).as_deref(), expected);
    }
}
