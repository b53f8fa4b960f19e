//! ServiceMonitors, a kind that a cluster may have, get later, or lose.
//!
//! A watch of a missing kind fails forever, so its definition is watched instead. A monitor itself is read when its Controller is reconciled: there
//! is one per Controller, and nothing waits for it.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{StreamExt, channel::mpsc::UnboundedReceiver};
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::DynamicObject,
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use serde::Deserialize;
use serde_json::Value;
use slipway_api::{
    SlurmController,
    child::{Child, ChildKey, ChildKind, SERVICE_MONITOR_DEFINITION},
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
    health::Health,
    hub::{Filled, Hub},
    metrics::{Metrics, Write},
    tasks::Tasks,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    act::act,
    context::{Context, resource},
    error::Error,
};

const NOT_SERVED: &str = "spec.metrics.serviceMonitor: no ServiceMonitor is made, as this cluster does not know the kind \
    (monitoring.coreos.com/v1): install the Prometheus operator, or set spec.metrics.serviceMonitor.enabled to false";

/// The definition of ServiceMonitors, reduced to the fields that show if the kind is served. The full definition is large.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = CustomResourceDefinition)]
pub(crate) struct Definition {
    metadata: ObjectMeta,
    spec: Versions,
    #[serde(default)]
    status: DefinitionStatus,
}

#[derive(Clone, Debug, Deserialize)]
struct Versions {
    versions: Vec<Version>,
}

#[derive(Clone, Debug, Deserialize)]
struct Version {
    name: String,
    served: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct DefinitionStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl Definition {
    fn is_served(&self) -> bool {
        let is_established = |condition: &Condition| condition.type_ == "Established" && condition.status == "True";
        self.spec.versions.iter().any(|version| version.name == "v1" && version.served) && self.status.conditions.iter().any(is_established)
    }
}

/// State of ServiceMonitors in this cluster.
#[derive(Clone)]
pub(crate) struct Monitors {
    is_served: watch::Receiver<bool>,
    /// Controllers, by UID, that want no monitor and have none: nothing has to be read for them.
    without: Arc<Mutex<HashSet<String>>>,
}

impl Monitors {
    fn is_settled(&self, controller: &str) -> bool {
        self.without.lock().unwrap_or_else(PoisonError::into_inner).contains(controller)
    }

    fn settle(&self, controller: &str, has_none: bool) {
        let mut without = self.without.lock().unwrap_or_else(PoisonError::into_inner);
        if has_none {
            without.insert(controller.to_owned());
        } else {
            without.remove(controller);
        }
    }
}

/// Watch on the definition of ServiceMonitors.
pub(crate) struct MonitorWatch {
    hub: Hub<Definition>,
    monitors: Monitors,
}

impl MonitorWatch {
    pub(crate) fn new(health: &Health, metrics: &Metrics) -> Self {
        let mut hub: Hub<Definition> = Hub::new((), health.gate(&format!("definition of {SERVICE_MONITOR_DEFINITION}")), metrics.clone());
        let (sender, is_served) = watch::channel(false);
        let store = hub.store();
        // Must be the first route, so that later routes see the new value. It enqueues nothing.
        drop(hub.route(move |definition: &Definition| -> Vec<ObjectRef<Definition>> {
            let now = store.get(&ObjectRef::from_obj(definition)).is_some_and(|definition| definition.is_served());
            if sender.send_if_modified(|before| std::mem::replace(before, now) != now) {
                tracing::info!(is_served = now, "ServiceMonitors");
            }
            Vec::new()
        }));
        Self { hub, monitors: Monitors { is_served, without: Arc::default() } }
    }

    pub(crate) fn monitors(&self) -> Monitors {
        self.monitors.clone()
    }

    /// Signals that the definition was looked up.
    pub(crate) fn filled(&self) -> Filled {
        self.hub.filled()
    }

    /// Enqueues every Controller when the kind appears or disappears.
    pub(crate) fn route(&mut self, controllers: &Store<SlurmController>) -> UnboundedReceiver<ObjectRef<SlurmController>> {
        let (controllers, is_served, told) = (controllers.clone(), self.monitors.is_served.clone(), AtomicBool::new(false));
        self.hub.route(move |_: &Definition| {
            let now = *is_served.borrow();
            if told.swap(now, Ordering::SeqCst) == now {
                return Vec::new();
            }
            controllers.state().iter().map(|controller| ObjectRef::from_obj(controller.as_ref())).collect()
        })
    }

    pub(crate) fn start(self, client: &Client, stop: &CancellationToken, tasks: &mut Tasks) {
        let config = watcher::Config::default().fields(&format!("metadata.name={SERVICE_MONITOR_DEFINITION}"));
        let slim = |definition: &mut Definition| {
            definition.metadata.managed_fields = None;
            definition.metadata.annotations = None;
        };
        let events = watcher(Api::<Definition>::all(client.clone()), config).modify(slim).take_until(stop.clone().cancelled_owned());
        tasks.spawn(format!("watch of definition {SERVICE_MONITOR_DEFINITION}"), self.hub.run(events));
    }
}

/// Makes the ServiceMonitor of a Controller match `wanted`, if its kind is served. Returns a message for the user, if there is one.
///
/// Fails only if a retry may succeed: a cluster works without a monitor.
pub(crate) async fn keep_monitor(controller: &SlurmController, wanted: Option<Child>, context: &Context) -> Result<Option<String>, Error> {
    match try_keep(controller, wanted, context).await {
        Err(error) if error.class() == Class::Permanent => Ok(Some(format!("spec.metrics.serviceMonitor: {}", chain(&error)))),
        outcome => outcome,
    }
}

async fn try_keep(controller: &SlurmController, wanted: Option<Child>, context: &Context) -> Result<Option<String>, Error> {
    let monitors = context.guard.monitors();
    let (uid, namespace, name) = (controller.uid().unwrap_or_default(), controller.namespace().unwrap_or_default(), controller.name_any());
    if !*monitors.is_served.borrow() {
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
                "spec.metrics.serviceMonitor: {key} exists and was not made for this Controller: delete or rename it"
            )));
        }
        (Some(child), live) => {
            let seen = Seen { live: live.map(Arc::new), accepted: context.memory.children.get(&key) };
            if drift(&child.body, &seen, context.clock.now()) == Drift::Differs {
                act(&[Action::Apply(Box::new(child))], None, context).await?;
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
    #[case::served("v1", true, "True", true)]
    #[case::older("v1alpha1", true, "True", false)]
    #[case::switched_off("v1", false, "True", false)]
    #[case::names_are_taken("v1", true, "False", false)]
    fn a_definition_has_to_serve_our_version(
        #[case] version: &str,
        #[case] served: bool,
        #[case] established: &str,
        #[case] expected: bool,
    ) {
        let definition: Definition = serde_json::from_value(json!({
            "metadata": {}, "spec": { "group": "x", "versions": [{ "name": "v0", "served": true }, { "name": version, "served": served, "schema": {} }] },
            "status": { "conditions": [{ "type": "NamesAccepted", "status": "True" }, { "type": "Established", "status": established }] },
        }))
        .unwrap();
        assert_eq!(definition.is_served(), expected);
    }

    #[test]
    fn a_brand_new_definition_serves_nothing() {
        let definition: Definition =
            serde_json::from_value(json!({ "metadata": {}, "spec": { "versions": [{ "name": "v1", "served": true }] } })).unwrap();
        assert!(!definition.is_served());
    }

    #[rstest]
    #[case::theirs(json!({}), false)]
    #[case::of_another(json!({ "labels": { "app.kubernetes.io/name": "slurmctld", "app.kubernetes.io/instance": "y" } }), false)]
    #[case::owned(json!({ "labels": { "app.kubernetes.io/name": "slurmctld", "app.kubernetes.io/instance": "x" }, "ownerReferences": [{ "uid": "1" }] }), false)]
    #[case::orphan(json!({ "labels": { "app.kubernetes.io/name": "slurmctld", "app.kubernetes.io/instance": "x" } }), true)]
    fn only_what_was_made_for_this_name_is_taken_over(#[case] metadata: Value, #[case] expected: bool) {
        assert_eq!(is_left_behind(&json!({ "metadata": metadata }), "x"), expected);
    }
}
