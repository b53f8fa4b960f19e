//! Effective name of a cluster: `spec.clusterName`, or `<namespace>_<name>` if that is empty. Schema rules do not see the namespace.

use serde_json::Value;
use slipway_api::name::default_cluster_name;

/// Maximum length of a cluster name, the same as for `spec.clusterName`.
const MOST: usize = 40;

/// Error for a default name that is too long, or `None`. The schema checks a name that the user sets.
pub(super) fn too_long(object: &Value) -> Option<String> {
    let name = default_name(object).filter(|name| given(object).is_none() && name.chars().count() > MOST)?;
    Some(format!(
        "spec.clusterName is empty and `{name}`, which stands for it, has {} characters where {MOST} are allowed: \
         create the Controller with a spec.clusterName",
        name.chars().count()
    ))
}

/// Error for a change of the name, or `None`.
pub(super) fn changed(before: &Value, object: &Value) -> Option<String> {
    let (was, is) = (effective_name(before)?, effective_name(object)?);
    (was != is).then(|| {
        format!(
            "spec.clusterName would change the name of the cluster from `{was}` to `{is}`, and slurmctld refuses the state of a cluster with \
             another name: leave it as it was, or make a new Controller"
        )
    })
}

fn effective_name(object: &Value) -> Option<String> {
    given(object).map(str::to_owned).or_else(|| default_name(object))
}

fn given(object: &Value) -> Option<&str> {
    object["spec"]["clusterName"].as_str().filter(|given| !given.is_empty())
}

fn default_name(object: &Value) -> Option<String> {
    let text = |field: &str| object["metadata"][field].as_str().filter(|text| !text.is_empty());
    Some(default_cluster_name(text("name")?, text("namespace")?))
}
