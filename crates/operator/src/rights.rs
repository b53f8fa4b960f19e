//! What the operator may do: one table, from which its role is generated.

use serde_json::{Value, json};
use slipway_api::GROUP;

/// Some verbs on some resources.
pub struct Right {
    pub group: &'static str,
    pub resources: &'static [&'static str],
    pub verbs: &'static [&'static str],
}

/// Every right, and no more than is used.
pub const RIGHTS: &[Right] = &[
    Right { group: GROUP, resources: &["controllers", "nodesets", "restapis"], verbs: &["list", "watch"] },
    Right { group: GROUP, resources: &["controllers/status", "nodesets/status", "restapis/status"], verbs: &["patch"] },
    // Where the cluster checks it, an owner reference that blocks deletion needs this right on the owner.
    Right { group: GROUP, resources: &["controllers/finalizers", "nodesets/finalizers", "restapis/finalizers"], verbs: &["update"] },
    // Children: applied, which is a patch, and a create where there is none. ConfigMaps of the user are read by name.
    Right { group: "", resources: &["configmaps"], verbs: &["create", "get", "list", "patch", "watch"] },
    Right { group: "", resources: &["services"], verbs: &["create", "list", "patch", "watch"] },
    Right { group: "apps", resources: &["deployments", "statefulsets"], verbs: &["create", "list", "patch", "watch"] },
    Right { group: "policy", resources: &["poddisruptionbudgets"], verbs: &["create", "list", "patch", "watch"] },
    // Workers.
    Right { group: "", resources: &["pods"], verbs: &["create", "delete", "get", "list", "watch"] },
    // Keys, of which only hashes are kept. By name: no list, no watch.
    Right { group: "", resources: &["secrets"], verbs: &["get"] },
];

/// The rules of a role.
pub fn rules() -> Value {
    RIGHTS.iter().map(|Right { group, resources, verbs }| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })).collect()
}
