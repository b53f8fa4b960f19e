//! Number of available workers, and the pods with our labels.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// Workers as polled from the API server.
#[derive(Debug, Default)]
pub struct Roll {
    /// Minimum number of available workers that the scenario requires.
    floor: usize,
    /// Every pod that ever had our labels.
    names: BTreeSet<String>,
    missing: BTreeSet<String>,
}

impl Roll {
    /// Makes fewer available workers a failure from now on.
    pub fn demand(&mut self, floor: usize) {
        self.floor = floor;
    }

    /// Records all labelled pods of the namespace, as polled while `floor` was required.
    pub fn look(&mut self, pods: &[Pod], floor: usize) {
        self.names.extend(pods.iter().map(ResourceExt::name_any));
        let available: Vec<String> = pods.iter().filter(|pod| is_worker(pod) && is_ready(pod)).map(ResourceExt::name_any).collect();
        // If a scenario lowers its requirement during a poll, the lower one applies.
        let floor = floor.min(self.floor);
        if available.len() < floor {
            self.missing.insert(format!("{} workers are available and {floor} should be: {available:?}", available.len()));
        }
    }

    pub fn floor(&self) -> usize {
        self.floor
    }

    pub fn missing(&self) -> Vec<String> {
        self.missing.iter().cloned().collect()
    }

    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }
}

fn is_worker(pod: &Pod) -> bool {
    pod.labels().get("app.kubernetes.io/name").is_some_and(|name| name == "slurmd")
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none() && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, daemon: &str, is_ready: bool) -> Pod {
        let status = if is_ready { "True" } else { "False" };
        let pod = json!({
            "metadata": { "name": name, "labels": { "app.kubernetes.io/name": daemon } },
            "status": { "conditions": [{ "type": "Ready", "status": status }] },
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn workers_that_are_not_ready_are_missed() {
        let mut roll = Roll::default();
        let pods = [pod("w-0", "slurmd", true), pod("w-1", "slurmd", false), pod("c-0", "slurmctld", true)];
        roll.look(&pods, roll.floor());
        assert_eq!(roll.missing(), Vec::<String>::new(), "nothing was demanded");
        roll.demand(1);
        roll.look(&pods, 1);
        assert_eq!(roll.missing(), Vec::<String>::new());
        roll.demand(2);
        roll.look(&pods, 1);
        assert_eq!(roll.missing(), Vec::<String>::new(), "the look began before the demand");
        roll.look(&pods, 2);
        assert_eq!(roll.missing().len(), 1);
        assert_eq!(roll.names().len(), 3);
    }
}
