//! Probes.
//!
//! A starting daemon is probed every second, so that it counts as started within a second of being up; it has one minute to start.

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

/// Adds probes to a container.
pub(crate) fn add(container: &mut Value, probes: impl IntoIterator<Item = (&'static str, Value)>) {
    for (name, probe) in probes {
        container[name] = probe;
    }
}
