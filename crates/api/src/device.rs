//! Devices that Kubernetes allocates to a container, and their names in Slurm.

use serde_json::{Map, Value};

use crate::{Raw, quantity};

/// Slurm's name for most of these devices.
pub const GPU: &str = "gpu";

/// Extended resources and Slurm's names for them, the usual one first.
const KNOWN: [(&str, &[&str]); 6] = [
    ("nvidia.com/gpu", &[GPU]),
    ("amd.com/gpu", &[GPU]),
    ("gpu.intel.com/i915", &[GPU]),
    ("gpu.intel.com/xe", &[GPU]),
    ("habana.ai/gaudi", &[GPU, "gaudi", "hpu"]),
    ("aws.amazon.com/neuron", &[GPU, "neuron"]),
];

/// Prefix of GPU slices, each of which is a GPU for Slurm: `nvidia.com/mig-1g.10gb`.
const SLICE: &str = "nvidia.com/mig-";

/// Devices of one kind that a container has a limit for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Kubernetes' name, such as `nvidia.com/gpu`.
    pub resource: String,
    /// Slurm's names for it, the usual one first.
    pub names: &'static [&'static str],
    pub count: u64,
}

/// Devices of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    pub known: Vec<Device>,
    /// True if it also gets devices in an unknown number: by a claim, by a limit that is no count, or as an unknown resource with `gpu` in its name.
    pub has_others: bool,
}

/// The devices of a container, from its own limits or, if it has none for a resource, from the pod's.
pub fn devices(container: Option<&Raw>, pod: Option<&Raw>) -> Devices {
    let mut limits = Map::new();
    for raw in [pod, container].into_iter().flatten() {
        limits.extend(resources(raw, "limits").and_then(Value::as_object).cloned().unwrap_or_default());
    }
    let mut found = Devices { known: Vec::new(), has_others: has_claims(container) };
    for (resource, quantity) in limits.iter().filter(|(resource, _)| resource.contains('/')) {
        let count = quantity.as_str().map_or_else(|| quantity::count(&quantity.to_string()), quantity::count);
        match (names(resource), count) {
            (Some(names), Some(count)) if count > 0 => found.known.push(Device { resource: resource.clone(), names, count }),
            (Some(_), Some(_)) => {}
            (Some(_), None) => found.has_others = true,
            (None, _) => found.has_others |= resource.contains(GPU),
        }
    }
    found
}

/// Slurm's names for a resource of Kubernetes, or `None` if it is unknown.
fn names(resource: &str) -> Option<&'static [&'static str]> {
    let slice = resource.starts_with(SLICE).then_some(KNOWN[0].1);
    KNOWN.iter().find(|(known, _)| *known == resource).map(|(_, names)| *names).or(slice)
}

fn has_claims(container: Option<&Raw>) -> bool {
    let claims = container.and_then(|container| resources(container, "claims")).and_then(Value::as_array);
    claims.is_some_and(|claims| !claims.is_empty())
}

fn resources<'a>(raw: &'a Raw, part: &str) -> Option<&'a Value> {
    raw.0.get("resources")?.get(part)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn with(resources: &Value) -> Raw {
        Raw(json!({ "resources": resources }).as_object().cloned().unwrap())
    }

    #[rstest]
    #[case::none(json!({}), &[], false)]
    #[case::processors_only(json!({ "limits": { "cpu": 4, "memory": "1Gi", "hugepages-2Mi": "1Gi" } }), &[], false)]
    #[case::text(json!({ "limits": { "nvidia.com/gpu": "8" } }), &[("nvidia.com/gpu", 8)], false)]
    #[case::number(json!({ "limits": { "amd.com/gpu": 2 } }), &[("amd.com/gpu", 2)], false)]
    #[case::slices(json!({ "limits": { "nvidia.com/mig-1g.10gb": 3, "nvidia.com/mig-2g.20gb": 1 } }), &[("nvidia.com/mig-1g.10gb", 3), ("nvidia.com/mig-2g.20gb", 1)], false)]
    #[case::thousands(json!({ "limits": { "nvidia.com/gpu": "1k" } }), &[("nvidia.com/gpu", 1000)], false)]
    #[case::zero(json!({ "limits": { "nvidia.com/gpu": 0 } }), &[], false)]
    #[case::not_a_number(json!({ "limits": { "nvidia.com/gpu": "two" } }), &[], true)]
    #[case::shared(json!({ "limits": { "nvidia.com/gpu.shared": 4 } }), &[], true)]
    #[case::network(json!({ "limits": { "rdma/hca": 1 } }), &[], false)]
    #[case::claimed(json!({ "claims": [{ "name": "gpu" }] }), &[], true)]
    #[case::requests_are_not_limits(json!({ "requests": { "nvidia.com/gpu": 1 } }), &[], false)]
    fn limits_tell_which_devices_a_container_gets(#[case] resources: Value, #[case] expected: &[(&str, u64)], #[case] has_others: bool) {
        let found = devices(Some(&with(&resources)), None);
        let known: Vec<_> = found.known.iter().map(|device| (device.resource.as_str(), device.count)).collect();
        assert_eq!((known.as_slice(), found.has_others), (expected, has_others));
    }

    #[test]
    fn the_containers_limit_goes_before_the_pods() {
        let [container, pod] = [2, 8].map(|count| with(&json!({ "limits": { "nvidia.com/gpu": count } })));
        assert_eq!(devices(Some(&container), Some(&pod)).known[0].count, 2);
        assert_eq!(devices(None, Some(&pod)).known[0].count, 8);
    }
}
