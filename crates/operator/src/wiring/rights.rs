//! Rights of the operator: one table, from which its roles are generated.

use serde_json::{Value, json};
use slipway_api::{GROUP, child::SERVICE_MONITOR_DEFINITION};

use crate::admission::{REGISTRATION, SECRET};

/// Verbs on resources.
pub(crate) struct Right {
    pub(crate) group: &'static str,
    pub(crate) resources: &'static [&'static str],
    /// Names of the objects; all if empty.
    pub(crate) names: &'static [&'static str],
    pub(crate) verbs: &'static [&'static str],
}

/// The CustomResourceDefinitions that are compared with our own.
const DEFINITIONS: &[&str] = &[
    "accountings.slinky.slurm.net",
    "controllers.slinky.slurm.net",
    "loginsets.slinky.slurm.net",
    "nodesets.slinky.slurm.net",
    "restapis.slinky.slurm.net",
    "tokens.slinky.slurm.net",
];

/// Every right in the namespaces that the operator serves, and no more than it uses.
pub(crate) const RIGHTS: &[Right] = &[
    Right {
        group: GROUP,
        resources: &["accountings", "controllers", "loginsets", "nodesets", "restapis", "tokens"],
        names: &[],
        verbs: &["list", "watch"],
    },
    Right {
        group: GROUP,
        resources: &["accountings/status", "controllers/status", "loginsets/status", "nodesets/status", "restapis/status", "tokens/status"],
        names: &[],
        verbs: &["patch"],
    },
    // Finalizers of NodeSets.
    Right { group: GROUP, resources: &["nodesets"], names: &[], verbs: &["patch"] },
    // If the cluster enforces it, an owner reference that blocks deletion needs this right on the owner.
    Right {
        group: GROUP,
        resources: &["controllers/finalizers", "nodesets/finalizers", "restapis/finalizers"],
        names: &[],
        verbs: &["update"],
    },
    // Children: applied, which is a patch, and a create if there is none. The user's ConfigMaps are read by name.
    Right { group: "", resources: &["configmaps"], names: &[], verbs: &["create", "delete", "get", "list", "patch", "watch"] },
    Right { group: "", resources: &["services"], names: &[], verbs: &["create", "delete", "list", "patch", "watch"] },
    Right { group: "apps", resources: &["deployments", "statefulsets"], names: &[], verbs: &["create", "list", "patch", "watch"] },
    Right { group: "policy", resources: &["poddisruptionbudgets"], names: &[], verbs: &["create", "list", "patch", "watch"] },
    // Workers; and slurmctld's pods, which are marked, and deleted if their StatefulSet would wait forever.
    Right { group: "", resources: &["pods"], names: &[], verbs: &["create", "delete", "get", "list", "patch", "watch"] },
    // Slurm's state of workers, as pod conditions.
    Right { group: "", resources: &["pods/status"], names: &[], verbs: &["patch"] },
    // State of the Kubernetes nodes that workers run on.
    Right { group: "", resources: &["nodes"], names: &[], verbs: &["list", "watch"] },
    // Events, for `kubectl describe`.
    Right { group: "events.k8s.io", resources: &["events"], names: &[], verbs: &["create"] },
    // Claims with slurmctld's state are read by name. Claims of workers are created and given an owner, by which Kubernetes may delete them later. If
    // the cluster enforces it, only those who may delete an object may change its owners.
    Right { group: "", resources: &["persistentvolumeclaims"], names: &[], verbs: &["create", "delete", "get", "list", "patch", "watch"] },
    // Revisions that workers were made from.
    Right { group: "apps", resources: &["controllerrevisions"], names: &[], verbs: &["create", "delete", "list", "patch", "watch"] },
    // Keys, of which only hashes are kept. Read by name: no list, no watch.
    Right { group: "", resources: &["secrets"], names: &[], verbs: &["get"] },
    // To check that the API server keeps every field of ours.
    Right { group: "apiextensions.k8s.io", resources: &["customresourcedefinitions"], names: DEFINITIONS, verbs: &["list", "watch"] },
    // To check if ServiceMonitors are served, and to write those of Controllers.
    Right {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        names: &[SERVICE_MONITOR_DEFINITION],
        verbs: &["list", "watch"],
    },
    Right { group: "monitoring.coreos.com", resources: &["servicemonitors"], names: &[], verbs: &["create", "delete", "get", "patch"] },
    // The webhook's registration: applied, which is a patch, and a create if there is none.
    Right {
        group: "admissionregistration.k8s.io",
        resources: &["validatingwebhookconfigurations"],
        names: &[REGISTRATION],
        verbs: &["create", "get", "list", "patch", "watch"],
    },
];

/// Every right in the operator's own namespace only.
pub(crate) const RIGHTS_AT_HOME: &[Right] = &[
    // The webhook's certificates, shared by all replicas.
    Right { group: "", resources: &["secrets"], names: &[SECRET], verbs: &["create", "get", "list", "patch", "watch"] },
];

/// The rules of a role.
pub(crate) fn rules(rights: &[Right]) -> Value {
    let rule = |Right { group, resources, names, verbs }: &Right| {
        let mut rule = json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        rule
    };
    rights.iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use slipway_api::crd;

    use super::*;

    #[test]
    fn every_definition_of_ours_may_be_read() {
        let mut names: Vec<_> =
            crd::definitions().iter().map(|crd| crd["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect();
        names.sort();
        assert_eq!(names, DEFINITIONS);
    }
}
