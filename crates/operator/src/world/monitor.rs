//! ServiceMonitors, a kind that a cluster may have, get later, or lose.
//!
//! A watch of a missing kind fails forever, so its definition is watched instead. The monitors themselves are managed beside their Controllers
//! (`controller/monitor.rs`).

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
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use serde::Deserialize;
use slipway_api::{SlurmController, child::SERVICE_MONITOR_DEFINITION};
use slipway_runtime::{
    health::Health,
    hub::{Filled, Hub},
    metrics::Metrics,
    tasks::Tasks,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

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
    /// True if the kind is served now.
    pub(crate) fn is_served(&self) -> bool {
        *self.is_served.borrow()
    }

    /// True if this Controller wants no monitor and has none.
    pub(crate) fn is_settled(&self, controller: &str) -> bool {
        self.without.lock().unwrap_or_else(PoisonError::into_inner).contains(controller)
    }

    /// Records that a Controller wants no monitor and has none, or not.
    pub(crate) fn settle(&self, controller: &str, has_none: bool) {
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
                tracing::info!(is_served = now, "kind ServiceMonitor changed");
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
}
