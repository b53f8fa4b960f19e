use std::{collections::BTreeMap, sync::Arc};

use kube::{
    Client, ResourceExt,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
    runtime::reflector::{ObjectRef, Store},
};
use serde_json::Value;
use slipway_api::{
    FIELD_MANAGER, NodeSet, RestApi, SlurmController,
    child::{ChildKey, ChildKind},
    label::Component,
};
use slipway_plan::drift::{Seen, SeenChildren};
use slipway_runtime::{apply::Writer, clock::Clock, metrics::Metrics, view::PodView};

use crate::{memory::Memory, served::Guard};

/// What every pass has at hand.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) writer: Writer,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stores: Stores,
    pub(crate) memory: Memory,
    pub(crate) metrics: Metrics,
    pub(crate) guard: Guard,
    pub(crate) cluster_domain: String,
}

/// The caches of one scope.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) controllers: Store<SlurmController>,
    pub(crate) restapis: Store<RestApi>,
    pub(crate) nodesets: Store<NodeSet>,
    pub(crate) pods: Store<PodView>,
    pub(crate) children: BTreeMap<ChildKind, Store<DynamicObject>>,
}

impl Context {
    pub(crate) fn new(
        client: Client,
        clock: Arc<dyn Clock>,
        stores: Stores,
        metrics: Metrics,
        guard: Guard,
        cluster_domain: String,
    ) -> Self {
        let writer = Writer::new(client.clone(), FIELD_MANAGER);
        Self { client, writer, clock, stores, memory: Memory::default(), metrics, guard, cluster_domain }
    }

    /// What is known about these children.
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

    /// The NodeSets of a Controller, those being deleted too.
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

    /// What keeps a pod of `instance` from getting ready, if the kubelet or the scheduler said so.
    pub(crate) fn trouble(&self, namespace: &str, component: Component, instance: &str) -> Option<String> {
        let is_its = |pod: &PodView| {
            let has = |(key, value): &(&str, String)| pod.labels().get(*key) == Some(value);
            pod.metadata.namespace.as_deref() == Some(namespace) && component.selector(instance).iter().all(has)
        };
        let pods = self.pods.state_filter(|pod| is_its(pod) && !pod.is_going());
        pods.iter().filter_map(|pod| Some(format!("pod `{}`: {}", pod.name_any(), pod.trouble()?))).min()
    }

    /// A child as raw JSON.
    pub(crate) fn child(&self, key: &ChildKey) -> Option<Value> {
        let reference = ObjectRef::new_with(&key.name, resource(key.kind)).within(&key.namespace);
        let object = self.children.get(&key.kind)?.get(&reference)?;
        let mut body = serde_json::to_value(object.as_ref()).ok()?;
        // Items of a list come without these.
        body["apiVersion"] = key.kind.api_version().into();
        body["kind"] = key.kind.as_str().into();
        Some(body)
    }
}

/// How the API server calls a kind of child.
pub(crate) fn resource(kind: ChildKind) -> ApiResource {
    let version = kind.api_version().rsplit('/').next().unwrap_or_default();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(kind.group(), version, kind.as_str()), kind.plural())
}
