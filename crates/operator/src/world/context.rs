use std::{collections::BTreeMap, sync::Arc};

use kube::{
    Client, Resource, ResourceExt,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
    runtime::reflector::{ObjectRef, Store},
};
use serde_json::Value;
use slipway_api::{
    Accounting, NodeSet, RestApi, SlurmController,
    child::{ChildKey, ChildKind},
    label::Component,
};
use slipway_plan::drift::{Seen, SeenChildren};
use slipway_runtime::{
    apply::Writer,
    clock::Clock,
    events::{Events, Kind},
    metrics::Metrics,
    view::{ClaimView, NodeView, PodView, RevisionView},
};

use crate::{
    slurm::{Clusters, active_controller::ActiveControllers},
    wiring::served::Guard,
    world::{memory::Memory, secret_cache::SecretCache},
};

/// Everything that a reconcile needs.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) writer: Writer,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stores: Stores,
    pub(crate) memory: Memory,
    pub(crate) secrets: SecretCache,
    pub(crate) metrics: Metrics,
    pub(crate) guard: Guard,
    pub(crate) events: Events,
    pub(crate) clusters: Arc<Clusters>,
    pub(crate) active_controllers: Arc<ActiveControllers>,
    pub(crate) cluster_domain: String,
    /// Types of Kubernetes node conditions that drain the workers on that node.
    pub(crate) propagated_node_conditions: Arc<[String]>,
}

/// The caches of one scope.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) accountings: Store<Accounting>,
    pub(crate) controllers: Store<SlurmController>,
    pub(crate) restapis: Store<RestApi>,
    pub(crate) nodesets: Store<NodeSet>,
    pub(crate) pods: Store<PodView>,
    /// Claims of workers.
    pub(crate) claims: Store<ClaimView>,
    pub(crate) revisions: Store<RevisionView>,
    /// Kubernetes nodes of the whole cluster, as they are not namespaced.
    pub(crate) nodes: Store<NodeView>,
    pub(crate) children: BTreeMap<ChildKind, Store<DynamicObject>>,
}

impl Context {
    /// Sends an event about an object.
    pub(crate) fn say<K: Resource<DynamicType = ()>>(&self, about: &K, kind: Kind, reason: &str, action: &str, message: &str) {
        self.events.say(&about.object_ref(&()), kind, reason, action, message);
    }

    /// Live objects and our last writes of these children.
    pub(crate) fn seen(&self, keys: impl IntoIterator<Item = ChildKey>) -> SeenChildren {
        keys.into_iter()
            .map(|key| {
                let live = self.stores.child(&key).map(Arc::new);
                let accepted = self.memory.children.get(&key);
                (key, Seen { live, accepted })
            })
            .collect()
    }
}

impl Stores {
    pub(crate) fn controller(&self, namespace: &str, name: &str) -> Option<Arc<SlurmController>> {
        self.controllers.get(&ObjectRef::new(name).within(namespace))
    }

    pub(crate) fn accounting(&self, namespace: &str, name: &str) -> Option<Arc<Accounting>> {
        self.accountings.get(&ObjectRef::new(name).within(namespace))
    }

    /// The Controllers that refer to an Accounting.
    pub(crate) fn controllers_with(&self, namespace: &str, accounting: &str) -> Vec<Arc<SlurmController>> {
        self.controllers.state_filter(|controller| {
            let reference = controller.spec.accounting_ref.as_ref();
            controller.metadata.namespace.as_deref() == Some(namespace) && reference.is_some_and(|reference| reference.name == accounting)
        })
    }

    /// The NodeSets of a Controller, including terminating ones.
    pub(crate) fn nodesets_of(&self, namespace: &str, controller: &str) -> Vec<Arc<NodeSet>> {
        self.nodesets.state_filter(|nodeset| {
            nodeset.metadata.namespace.as_deref() == Some(namespace) && nodeset.spec.controller_ref.name == controller
        })
    }

    /// The RestApis of a Controller.
    pub(crate) fn restapis_of(&self, namespace: &str, controller: &str) -> Vec<Arc<RestApi>> {
        self.restapis.state_filter(|restapi| {
            restapi.metadata.namespace.as_deref() == Some(namespace) && restapi.spec.controller_ref.name == controller
        })
    }

    /// The reason why a pod of `instance` does not become ready, or `None` if neither the kubelet nor the scheduler reports one.
    pub(crate) fn trouble(&self, namespace: &str, component: Component, instance: &str) -> Option<String> {
        let pods = self.pods_of(namespace, component, instance);
        let staying = pods.iter().filter(|pod| !pod.is_going());
        staying.filter_map(|pod| Some(format!("pod `{}`: {}", pod.name_any(), pod.trouble()?))).min()
    }

    /// The pods of a component's instance, selected by label.
    pub(crate) fn pods_of(&self, namespace: &str, component: Component, instance: &str) -> Vec<Arc<PodView>> {
        let selector = component.selector(instance);
        let has = |pod: &PodView, (key, value): &(&str, String)| pod.labels().get(*key) == Some(value);
        self.pods.state_filter(|pod| pod.metadata.namespace.as_deref() == Some(namespace) && selector.iter().all(|label| has(pod, label)))
    }

    /// Name and UID of every child of a kind that belongs to one owner and is not terminating.
    pub(crate) fn owned(&self, kind: ChildKind, namespace: &str, owner: &str) -> Vec<(String, String)> {
        let objects = self.children.get(&kind).map(Store::state).unwrap_or_default();
        let is_its = |object: &&Arc<DynamicObject>| {
            let metadata = &object.metadata;
            let has_owner = metadata.owner_references.iter().flatten().any(|reference| reference.uid == owner);
            metadata.namespace.as_deref() == Some(namespace) && has_owner && metadata.deletion_timestamp.is_none()
        };
        objects.iter().filter(is_its).map(|object| (object.name_any(), object.uid().unwrap_or_default())).collect()
    }

    /// A child as raw JSON, or `None` if it is not in the cache.
    pub(crate) fn child(&self, key: &ChildKey) -> Option<Value> {
        let reference = ObjectRef::new_with(&key.name, resource(key.kind)).within(&key.namespace);
        let object = self.children.get(&key.kind)?.get(&reference)?;
        let mut body = serde_json::to_value(object.as_ref()).ok()?;
        // The API server omits these in list items.
        body["apiVersion"] = key.kind.api_version().into();
        body["kind"] = key.kind.as_str().into();
        Some(body)
    }
}

/// The API resource of a kind of child.
pub(crate) fn resource(kind: ChildKind) -> ApiResource {
    let version = kind.api_version().rsplit('/').next().unwrap_or_default();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(kind.group(), version, kind.as_str()), kind.plural())
}

/// The API resource of pods.
pub(crate) fn pods() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&())
}
