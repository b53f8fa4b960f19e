//! Probes.
//!
//! slurmctld and slurmrestd are probed every second while they start, so that they count as started within a second; they have one minute to start.

use serde_json::{Value, json};

/// The probe of slurmd. Only readiness: a kubelet kills the container of a daemon that fails a startup or liveness probe, and with it every step of
/// every job on the node. A slurmd that hangs often goes on by itself, and its jobs run meanwhile. One that cannot start exits.
pub(crate) fn slurmd(port: &str) -> [(&'static str, Value); 1] {
    [("readinessProbe", json!({ "httpGet": { "path": "/readyz", "port": port }, "periodSeconds": 2 }))]
}

/// Probes of slurmctld. It counts as alive while its port is open: one that waits for a DNS name answers no request, and a restarted one would wait
/// as well. A standby slurmctld never reports ready, so with backups `/livez` decides.
pub(crate) fn slurmctld(port: &str, has_backups: bool) -> [(&'static str, Value); 3] {
    let [startup, liveness, _] = tcp(port);
    let path = if has_backups { "/livez" } else { "/readyz" };
    [startup, liveness, ("readinessProbe", json!({ "httpGet": { "path": path, "port": port }, "periodSeconds": 2 }))]
}

/// Probes of a daemon that only listens.
pub(crate) fn tcp(port: &str) -> [(&'static str, Value); 3] {
    let socket = json!({ "port": port });
    [
        ("startupProbe", json!({ "tcpSocket": socket, "periodSeconds": 1, "failureThreshold": 60 })),
        ("livenessProbe", json!({ "tcpSocket": socket, "periodSeconds": 10, "failureThreshold": 6 })),
        ("readinessProbe", json!({ "tcpSocket": socket, "periodSeconds": 5 })),
    ]
}

/// Removes startup and liveness probes without an action. A user may have written only the timing of one that is generated elsewhere, and the API
/// server refuses a probe that does nothing.
pub(crate) fn without_idle(mut container: Value) -> Value {
    const ACTIONS: [&str; 4] = ["exec", "grpc", "httpGet", "tcpSocket"];
    for name in ["startupProbe", "livenessProbe"] {
        if !ACTIONS.iter().any(|action| container[name][action].is_object())
            && let Some(fields) = container.as_object_mut()
        {
            fields.remove(name);
        }
    }
    container
}

/// Adds probes to a container.
pub(crate) fn add(container: &mut Value, probes: impl IntoIterator<Item = (&'static str, Value)>) {
    for (name, probe) in probes {
        container[name] = probe;
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(json!({}), json!({}))]
    #[case::timing_alone(json!({ "livenessProbe": { "periodSeconds": 5 } }), json!({}))]
    #[case::with_an_action(json!({ "livenessProbe": { "exec": { "command": ["x"] } } }), json!({ "livenessProbe": { "exec": { "command": ["x"] } } }))]
    #[case::readiness_is_left_alone(json!({ "readinessProbe": { "periodSeconds": 5 } }), json!({ "readinessProbe": { "periodSeconds": 5 } }))]
    fn a_probe_without_an_action_is_removed(#[case] container: Value, #[case] expected: Value) {
        assert_eq!(without_idle(container), expected);
    }

    /// A kubelet kills a container that fails one of these, and with slurmd every job on the node.
    #[test]
    fn slurmd_has_no_probe_that_kills() {
        assert_eq!(slurmd("slurmd").map(|(name, _)| name), ["readinessProbe"]);
    }
}
