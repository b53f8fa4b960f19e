//! Values read from a worker pod, and the status that it gets.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

/// Name of the worker in Slurm.
pub(super) fn hostname(pod: &Pod) -> String {
    let hostname = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
    hostname.or_else(|| pod.metadata.name.clone()).unwrap_or_default()
}

/// The one node that it is bound to by name, or `None`.
pub(super) fn only_node(pod: &Pod) -> Option<String> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let [term] = required.node_selector_terms.as_slice() else { return None };
    let by_name = term.match_fields.iter().flatten().find(|field| field.key == "metadata.name" && field.operator == "In")?;
    by_name.values.as_ref()?.first().cloned()
}

/// Value of `Features=` in the argument after `--conf`.
pub(super) fn features(pod: &Pod) -> Vec<String> {
    let value = item(pod, &["feature", "features"]);
    value.unwrap_or_default().split(',').filter(|feature| !feature.is_empty()).map(str::to_owned).collect()
}

/// Memory in MiB, or `None` if slurmd's arguments do not set it.
pub(super) fn memory(pod: &Pod) -> Option<u64> {
    item(pod, &["realmemory"])?.parse().ok()
}

/// Value of one of these keys in the argument after `--conf`, without the quotes that the image's shell removes.
fn item<'p>(pod: &'p Pod, keys: &[&str]) -> Option<&'p str> {
    let args = slurmd(pod).and_then(|slurmd| slurmd.args.as_deref()).unwrap_or_default();
    let conf = args.iter().skip_while(|arg| *arg != "--conf").nth(1).map(|conf| conf.trim_matches('\'')).unwrap_or_default();
    conf.split_whitespace().find_map(|word| {
        let (key, value) = word.split_once('=')?;
        keys.contains(&key.to_ascii_lowercase().as_str()).then_some(value)
    })
}

/// Number of CPUs that the image passes to slurmd; two if there is no limit.
pub(super) fn cpus(pod: &Pod) -> u64 {
    let env = slurmd(pod).and_then(|slurmd| slurmd.env.as_deref()).unwrap_or_default();
    let limit = env.iter().find(|variable| variable.name == "POD_CPUS").and_then(|variable| variable.value.as_deref());
    limit.and_then(|limit| limit.parse().ok()).filter(|cpus| *cpus > 0).unwrap_or(2)
}

fn slurmd(pod: &Pod) -> Option<&Container> {
    pod.spec.as_ref()?.containers.iter().find(|container| container.name == "slurmd")
}

/// Reason on a node after its pod's preStop hook: an administrator's reason stays.
pub(super) fn termination_reason(before: &str) -> String {
    const PREFIX: &str = "slurm-operator: ";
    let is_free = before.is_empty() || before == "none" || before.starts_with(PREFIX);
    if is_free { format!("{PREFIX}Pod is terminating") } else { before.to_owned() }
}

/// Status of a pod whose containers are running.
pub(super) fn running(pod: &Pod, is_ready: bool, now: i64) -> Value {
    let now = Timestamp::from_second(now).unwrap_or_default().to_string();
    let condition =
        |type_: &str, is: bool| json!({ "type": type_, "status": if is { "True" } else { "False" }, "lastTransitionTime": now });
    let container = json!({
        "name": "slurmd", "ready": is_ready, "started": true, "restartCount": 0, "image": "slurmd", "imageID": "slurmd",
        "state": { "running": { "startedAt": now } },
    });
    let address = address(pod);
    json!({
        "phase": "Running", "startTime": now, "podIP": address, "podIPs": [{ "ip": address }],
        "conditions": [condition("Initialized", true), condition("ContainersReady", is_ready), condition("Ready", is_ready)],
        "containerStatuses": [container],
    })
}

/// Status of a pod whose container ended and is not restarted.
pub(super) fn failed() -> Value {
    json!({
        "phase": "Failed", "reason": "Error",
        "conditions": [{ "type": "Ready", "status": "False" }, { "type": "ContainersReady", "status": "False" }],
    })
}

/// An address that two pods rarely share.
fn address(pod: &Pod) -> String {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let [mut second, mut third, mut fourth] = [0_u8; 3];
    for byte in uid.bytes() {
        (second, third, fourth) = (third.wrapping_mul(31), fourth.wrapping_mul(31).wrapping_add(byte), second ^ byte);
    }
    format!("10.{second}.{third}.{}", fourth.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(args: &[&str]) -> Pod {
        let container = json!({ "name": "slurmd", "args": args, "env": [{ "name": "POD_CPUS", "value": "8" }] });
        serde_json::from_value(json!({ "metadata": { "name": "w-1" }, "spec": { "hostname": "gpu-1", "containers": [container] } }))
            .unwrap()
    }

    #[test]
    fn a_node_is_what_its_arguments_say() {
        let pod = pod(&["-Z", "--conf-server", "x:6817", "--conf", "'Features=gpu,fast Topology=a:b'"]);
        assert_eq!((hostname(&pod).as_str(), cpus(&pod)), ("gpu-1", 8));
        assert_eq!(features(&pod), ["gpu", "fast"]);
    }

    #[test]
    fn a_node_without_arguments_has_no_features() {
        assert_eq!(features(&pod(&[])), [""; 0]);
    }

    #[test]
    fn a_termination_keeps_what_an_administrator_wrote() {
        assert_eq!(termination_reason("bad disk"), "bad disk");
        assert_eq!(termination_reason("slurm-operator: cordoned"), "slurm-operator: Pod is terminating");
    }
}
