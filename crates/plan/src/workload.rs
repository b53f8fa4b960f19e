//! Rollout progress of a StatefulSet or a Deployment.

use serde_json::Value;

/// Progress of the rollout, or `None` if all replicas run the current template and are ready.
pub(crate) fn progress(live: &Value) -> Option<String> {
    let number = |path: &str| live.pointer(path).and_then(Value::as_i64);
    let wanted = number("/spec/replicas").unwrap_or(1);
    let has_seen_spec = number("/status/observedGeneration").unwrap_or(0) >= number("/metadata/generation").unwrap_or(0);
    let updated = number("/status/updatedReplicas").unwrap_or(0);
    let all = number("/status/replicas").unwrap_or(0);
    let ready = number("/status/readyReplicas").unwrap_or(0);
    if !has_seen_spec || updated < wanted || ready < wanted {
        return Some(format!("{} of {wanted} pods are ready", ready.min(wanted)));
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
    #[case::spec_not_seen(json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}), Some("2 of 2 pods are ready"))]
    #[case::starting(json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}), Some("1 of 2 pods are ready"))]
    #[case::old_pods_serve(json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 2}), Some("1 of 3 pods are of an older version"))]
    fn progress_is_complete_only_when_all_pods_are_new_and_ready(#[case] status: Value, #[case] expected: Option<&str>) {
        let live = json!({"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status});
        assert_eq!(progress(&live).as_deref(), expected);
    }
}
