//! The effective name of a cluster: `spec.clusterName`, or `<namespace>_<name>` where that is empty. Rules of a schema do not see the namespace.

use serde_json::Value;
use slipway_api::name::default_cluster_name;

/// The most characters of a cluster's name, the same as where the user gives it.
const MOST: usize = 40;

/// What is wrong with a default name that is too long. One that the user gives is looked at by the schema.
pub(super) fn too_long(object: &Value) -> Option<String> {
    let name = default_name(object).filter(|name| given(object).is_none() && name.chars().count() > MOST)?;
    Some(format!(
        "spec.clusterName is empty and `{name}`, which stands for it, has {} characters where {MOST} are allowed: \
         create the Controller with a spec.clusterName",
        name.chars().count()
    ))
}

/// What is wrong with a change of the name.
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
