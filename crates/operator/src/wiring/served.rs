//! The CustomResourceDefinitions that the API server serves, compared with those that this operator was built with.
//!
//! A definition that lacks a field silently drops it from every object. If fields of the spec are missing, the stored object is not what the user
//! asked for, and acting on it could kill jobs by mistake: reconciles of that kind pause until the definition is right. If only fields of the status
//! are missing, they are left out of writes, and everything else goes on.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
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
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use slipway_api::{
    GROUP, SlurmController,
    condition::{ConditionStatus, ConditionUpdate, Reason, SCHEMA_CURRENT},
    crd,
};
use slipway_plan::{
    Wait,
    shape::{Difference, Shape},
};
use slipway_runtime::{
    health::Health,
    hub::{Filled, Hub},
    metrics::{Metrics, Watch},
    tasks::Tasks,
};
use tokio_util::sync::CancellationToken;

use crate::world::monitor::{MonitorWatch, Monitors};

/// A CustomResourceDefinition, reduced to its shape while it is read: the full tree would cost megabytes.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = CustomResourceDefinition)]
pub(crate) struct Definition {
    pub(crate) metadata: ObjectMeta,
    #[serde(default, rename = "spec", deserialize_with = "reduce")]
    shape: Shape,
}

fn reduce<'de, D: Deserializer<'de>>(input: D) -> Result<Shape, D::Error> {
    Ok(Shape::of(&Value::deserialize(input)?))
}

/// Differences between the served definitions and ours.
#[derive(Clone)]
pub(crate) struct Guard(Arc<Judgements>);

struct Judgements {
    /// Our definitions, by plural.
    own: BTreeMap<String, Shape>,
    /// The served definitions, by kind.
    served: Mutex<BTreeMap<String, Served>>,
    monitors: Monitors,
    metrics: Metrics,
}

#[derive(Clone)]
struct Served {
    difference: Difference,
    /// Fields of our status that the server keeps; `None` if it cannot store any.
    keeps: Option<Shape>,
}

impl Guard {
    pub(crate) fn new(monitors: Monitors, metrics: Metrics) -> Self {
        let plural = |definition: &Value| definition["spec"]["names"]["plural"].as_str().unwrap_or_default().to_owned();
        let own = crd::definitions().iter().map(|definition| (plural(definition), Shape::of(&definition["spec"]))).collect();
        Self(Arc::new(Judgements { own, served: Mutex::default(), monitors, metrics }))
    }

    /// State of ServiceMonitors in this cluster.
    pub(crate) fn monitors(&self) -> &Monitors {
        &self.0.monitors
    }

    /// The reason why reconciles of `kind` pause, or `None` if they do not.
    pub(crate) fn pause(&self, kind: &str) -> Option<Wait> {
        match self.served(kind) {
            None => Some(Wait::new(Reason::SchemaForeign, format!("the CustomResourceDefinition of {kind} is gone: install it"))),
            Some(Served { difference, .. }) if difference.forbids_writes() => {
                Some(Wait::new(reason(&difference), self.words(kind, &difference)))
            }
            Some(_) => None,
        }
    }

    /// The condition about the definition of `kind`, or `None` if the definition matches ours or is gone.
    pub(crate) fn condition_update(&self, kind: &str) -> Option<ConditionUpdate> {
        let Served { difference, .. } = self.served(kind).filter(|served| served.difference != Difference::None)?;
        Some(ConditionUpdate {
            type_: SCHEMA_CURRENT,
            status: ConditionStatus::False,
            reason: reason(&difference),
            message: self.words(kind, &difference),
        })
    }

    /// Removes from `status` what the server would not keep. Returns true if a status can be written at all.
    pub(crate) fn prune_status(&self, kind: &str, status: &mut Value) -> bool {
        match self.served(kind) {
            Some(Served { difference: Difference::None, .. }) => true,
            Some(Served { keeps: Some(keeps), .. }) => {
                keeps.prune_status(status);
                true
            }
            _ => false,
        }
    }

    /// Records what is served now: a definition, or none.
    fn take(&self, plural: &str, definition: Option<&Shape>) {
        let Some(own) = self.0.own.get(plural) else { return };
        let kind = own.kind();
        let now = definition.map(|served| Served { difference: own.compare(served), keeps: own.shared_with(served) });
        let before = {
            let mut served = self.0.served.lock().unwrap_or_else(PoisonError::into_inner);
            match now.clone() {
                Some(now) => served.insert(kind.to_owned(), now),
                None => served.remove(kind),
            }
        };
        let difference = now.as_ref().map(|now| &now.difference);
        self.0.metrics.schema_differs.get_or_create(&Watch { kind: kind.to_owned() }).set(i64::from(difference != Some(&Difference::None)));
        if before.as_ref().map(|before| &before.difference) == difference {
            return;
        }
        match difference {
            None => tracing::error!(kind, "CustomResourceDefinition was deleted, and all objects of this kind with it"),
            Some(Difference::None) if before.is_some() => tracing::info!(kind, "CustomResourceDefinition fits again"),
            Some(Difference::None) => {}
            Some(difference) => tracing::error!(kind, "{}", self.words(kind, difference)),
        }
    }

    fn served(&self, kind: &str) -> Option<Served> {
        self.0.served.lock().unwrap_or_else(PoisonError::into_inner).get(kind).cloned()
    }

    fn words(&self, kind: &str, difference: &Difference) -> String {
        let plural = self.0.own.iter().find(|(_, shape)| shape.kind() == kind).map(|(plural, _)| plural.as_str()).unwrap_or_default();
        let effect = match difference {
            Difference::None => "",
            Difference::StatusLacks(_) => "; until then these fields stay empty",
            Difference::SpecLacks(_) | Difference::Foreign(_) => "; until then nothing is changed for objects of this kind",
        };
        format!(
            "CustomResourceDefinition `{plural}.{GROUP}` {difference}: apply the ones of this release \
             (chart slurm-operator-crds, before the operator itself){effect}"
        )
    }
}

fn reason(difference: &Difference) -> Reason {
    match difference {
        Difference::Foreign(_) => Reason::SchemaForeign,
        _ => Reason::SchemaOlder,
    }
}

/// Watches on the definitions, one per name: a cluster can have many large others, and the operator need not be allowed to read them.
pub(crate) struct Watches {
    hubs: BTreeMap<String, Hub<Definition>>,
    monitors: MonitorWatch,
}

impl Watches {
    pub(crate) fn new(guard: &Guard, monitors: MonitorWatch, health: &Health, metrics: &Metrics) -> Self {
        let hubs = guard.0.own.keys().map(|plural| {
            let name = format!("{plural}.{GROUP}");
            let mut hub: Hub<Definition> = Hub::new((), health.gate(&format!("definition of {name}")), metrics.clone());
            let (guard, served, plural) = (guard.clone(), hub.store(), plural.clone());
            // Must be the first route, so that later routes see the verdict. It enqueues nothing.
            drop(hub.route(move |definition: &Definition| -> Vec<ObjectRef<Definition>> {
                let now = served.get(&ObjectRef::from_obj(definition));
                guard.take(&plural, now.as_ref().map(|definition| &definition.shape));
                Vec::new()
            }));
            (name, hub)
        });
        Self { hubs: hubs.collect(), monitors }
    }

    /// Signals that all definitions were looked up.
    pub(crate) fn filled(&self) -> Vec<Filled> {
        self.hubs.values().map(Hub::filled).chain([self.monitors.filled()]).collect()
    }

    /// Enqueues every Controller when ServiceMonitors appear or disappear.
    pub(crate) fn route_monitors(&mut self, controllers: &Store<SlurmController>) -> UnboundedReceiver<ObjectRef<SlurmController>> {
        self.monitors.route(controllers)
    }

    /// Enqueues every `K` in `objects` when the definition of `K` changes.
    pub(crate) fn route<K>(&mut self, objects: &Store<K>) -> Option<UnboundedReceiver<ObjectRef<K>>>
    where
        K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    {
        let objects = objects.clone();
        let hub = self.hubs.get_mut(&format!("{}.{GROUP}", K::plural(&())))?;
        Some(hub.route(move |_: &Definition| objects.state().iter().map(|object| ObjectRef::from_obj(object.as_ref())).collect()))
    }

    /// Starts the watches.
    pub(crate) fn start(self, client: &Client, stop: &CancellationToken, tasks: &mut Tasks) {
        for (name, hub) in self.hubs {
            let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
            let events = watcher(Api::<Definition>::all(client.clone()), config)
                .modify(|definition| definition.metadata.managed_fields = None)
                .take_until(stop.clone().cancelled_owned());
            tasks.spawn(format!("watch of definition {name}"), hub.run(events));
        }
        self.monitors.start(client, stop, tasks);
    }
}

#[cfg(test)]
mod tests;
