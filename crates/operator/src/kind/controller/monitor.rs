//! The ServiceMonitor of a Controller. It is read when the Controller is reconciled: there is one per Controller, and nothing waits for it.

use std::sync::Arc;

use kube::{Api, ResourceExt, api::DynamicObject};
use serde_json::Value;
use slipway_api::{
    SlurmController,
    child::{Child, ChildKey, ChildKind},
    label::Component,
    name,
};
use slipway_plan::{
    Action,
    drift::{Drift, Seen, drift},
};
use slipway_runtime::{
    apply::Id,
    failure::{Class, Classify, chain},
    metrics::Write,
};

use crate::world::{
    act::act,
    context::{Context, resource},
    error::Error,
};

const NOT_SERVED: &str = "spec.metrics.serviceMonitor: no ServiceMonitor is created, because this cluster does not have the kind \
    (monitoring.coreos.com/v1): install the Prometheus operator, or set spec.metrics.serviceMonitor.enabled to false";

/// Makes the ServiceMonitor of a Controller match `wanted`, if its kind is served. Returns a message for the user, if there is one.
///
/// Fails only if a retry may succeed: a cluster works without a monitor.
pub(super) async fn keep_monitor(controller: &SlurmController, wanted: Option<Child>, context: &Context) -> Result<Option<String>, Error> {
    match try_keep(controller, wanted, context).await {
        Err(error) if error.class() == Class::Permanent => Ok(Some(format!("spec.metrics.serviceMonitor: {}", chain(&error)))),
        outcome => outcome,
    }
}

async fn try_keep(controller: &SlurmController, wanted: Option<Child>, context: &Context) -> Result<Option<String>, Error> {
    let monitors = context.guard.monitors();
    let (uid, namespace, name) = (controller.uid().unwrap_or_default(), controller.namespace().unwrap_or_default(), controller.name_any());
    if !monitors.is_served() {
        return Ok(wanted.map(|_| NOT_SERVED.to_owned()));
    }
    if wanted.is_none() && monitors.is_settled(&uid) {
        return Ok(None);
    }
    let key = ChildKey::new(ChildKind::ServiceMonitor, &namespace, &name::controller_workload(&name));
    let live = read(&key, context).await?;
    let has_some = live.as_ref().is_some_and(|live| is_owned_by(live, &uid));
    monitors.settle(&uid, wanted.is_none() && !has_some);
    match (wanted, live) {
        (None, Some(live)) if has_some => delete(&key, &live, context).await?,
        (None, _) => {}
        (Some(_), Some(live)) if !has_some && !is_left_behind(&live, &name) => {
            return Ok(Some(format!(
                "spec.metrics.serviceMonitor: {key} exists and was not created for this Controller: delete or rename it"
            )));
        }
        (Some(child), live) => {
            let seen = Seen { live: live.map(Arc::new), accepted: context.memory.children.get(&key) };
            if drift(&child.body, &seen, context.clock.now()) == Drift::Differs {
                act(&[Action::Apply(Box::new(child))], context).await?;
            }
        }
    }
    Ok(None)
}

async fn read(key: &ChildKey, context: &Context) -> Result<Option<Value>, Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &key.namespace, &resource(key.kind));
    let found = api.get_opt(&key.name).await.map_err(Error::read(key.to_string()))?;
    Ok(found.map(|object| serde_json::to_value(object).unwrap_or_default()))
}

async fn delete(key: &ChildKey, live: &Value, context: &Context) -> Result<(), Error> {
    let id = Id { namespace: &key.namespace, name: &key.name, uid: live["metadata"]["uid"].as_str().unwrap_or_default() };
    context.writer.delete(&resource(key.kind), id, None).await.map_err(Error::write(format!("delete {key}")))?;
    context.metrics.writes.get_or_create(&Write { verb: "delete", kind: key.kind.as_str() }).inc();
    tracing::info!(object = %key, "deleted");
    Ok(())
}

fn is_owned_by(live: &Value, uid: &str) -> bool {
    live["metadata"]["ownerReferences"].as_array().into_iter().flatten().any(|owner| owner["uid"] == uid)
}

/// True if the monitor is an orphan of a deleted Controller of this name.
fn is_left_behind(live: &Value, controller: &str) -> bool {
    let has_owner = live["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
    let is_ours = |(label, value): &(&str, String)| live["metadata"]["labels"][*label] == *value;
    !has_owner && Component::Controller.selector(controller).iter().all(is_ours)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::theirs(json!({}), false)]
    #[case::of_another(json!({ "labels": { "app.kubernetes.io/name": "slurmctld", "app.kubernetes.io/instance": "y" } }), false)]
    #[case::owned(json!({ "labels": { "app.kubernetes.io/name": "slurmctld", "app.kubernetes.io/instance": "x" }, "ownerReferences": [{ "uid": "1" }] }), false)]
    #[case::orphan(json!({ "labels": { "app.kubernetes.io/name": "slurmctld", "app.kubernetes.io/instance": "x" } }), true)]
    fn only_what_was_made_for_this_name_is_taken_over(#[case] metadata: Value, #[case] expected: bool) {
        assert_eq!(is_left_behind(&json!({ "metadata": metadata }), "x"), expected);
    }
}
