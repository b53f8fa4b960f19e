//! Routing of changes: the watches, queues and reconcilers of one scope, which is the whole cluster or one namespace.
//!
//! All references stay within a namespace, so scopes are independent of each other.

use std::{collections::BTreeMap, fmt::Debug, hash::Hash, sync::Arc};

use futures::{
    StreamExt,
    channel::mpsc::UnboundedReceiver,
    future::join_all,
    stream::{select, select_all},
};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::DynamicObject,
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use slipway_api::{
    API_VERSION, Accounting, FIELD_MANAGER, LoginSet, NodeSet, RestApi, SlurmController, Token,
    child::ChildKind,
    label::{self, Component},
};
use slipway_plan::finding::Kind;
use slipway_runtime::{
    apply::Writer,
    clock::{Clock, SystemClock},
    events::Events,
    health::Health,
    hub::{Filled, Hub},
    metrics::Metrics,
    queue::{self, Reconcile},
    tasks::Tasks,
    view::{ClaimView, PodView, RevisionView},
};
use tokio_util::sync::CancellationToken;

use crate::{
    kind::{controller::Controllers, nodeset::NodeSets, restapi::RestApis, unserved::Unserved},
    slurm::active_controller::ActiveControllers,
    slurm::{Address, Clusters, Ground, Sources},
    wiring::{
        guarded::Guarded,
        served::{Guard, Watches},
    },
    world::{
        context::{Context, Stores, resource},
        domain,
        error::Error,
        memory::Memory,
        node::NodeWatch,
        secret_cache::SecretCache,
        status::Reported,
    },
};

/// The whole cluster, or one namespace.
pub(crate) struct Scope {
    pub(crate) namespace: Option<String>,
    pub(crate) client: Client,
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
    pub(crate) guard: Guard,
    pub(crate) events: Events,
    pub(crate) slurm_address: Address,
    pub(crate) propagated_node_conditions: Arc<[String]>,
    pub(crate) stop: CancellationToken,
}

impl Scope {
    /// Starts the watches and queues of this scope. `definitions` are those of the kinds that it serves, `nodes` those of the whole cluster.
    pub(crate) fn start(self, definitions: &mut Watches, nodes: &mut NodeWatch, tasks: &mut Tasks) -> anyhow::Result<()> {
        let mut accountings: Hub<Accounting> = self.hub(());
        let mut controllers: Hub<SlurmController> = self.hub(());
        let mut restapis: Hub<RestApi> = self.hub(());
        let mut nodesets: Hub<NodeSet> = self.hub(());
        let mut pods: Hub<PodView> = self.hub(());
        let mut claims: Hub<ClaimView> = self.hub(());
        let mut revisions: Hub<RevisionView> = self.hub(());
        let mut children: BTreeMap<ChildKind, Hub<DynamicObject>> =
            ChildKind::ALL.into_iter().map(|kind| (kind, self.hub(resource(kind)))).collect();
        let stores = Stores {
            accountings: accountings.store(),
            controllers: controllers.store(),
            restapis: restapis.store(),
            nodesets: nodesets.store(),
            pods: pods.store(),
            claims: claims.store(),
            revisions: revisions.store(),
            nodes: nodes.store(),
            children: children.iter().map(|(kind, hub)| (*kind, hub.store())).collect(),
        };

        let mut caches =
            vec![accountings.filled(), controllers.filled(), restapis.filled(), nodesets.filled(), pods.filled(), claims.filled()];
        caches.push(revisions.filled());
        caches.extend(children.values().map(Hub::filled));
        caches.extend(definitions.filled());
        caches.push(nodes.filled());

        let mut for_controllers =
            vec![controllers.route(itself), nodesets.route(its_controller), accountings.route(controllers_with_it(&stores))];
        let mut for_restapis = vec![restapis.route(itself), controllers.route(restapis_of_it(&stores))];
        let mut for_nodesets =
            vec![nodesets.route(itself), controllers.route(nodesets_of_it(&stores)), pods.route(|pod: &PodView| owners(pod))];
        // A pod without a controller may be adopted; a claim usually has no owner.
        for_nodesets.push(pods.route(|pod: &PodView| its_instance(pod, Component::Worker)));
        for_nodesets.push(revisions.route(|revision: &RevisionView| owners(revision)));
        for_nodesets.push(claims.route(|claim: &ClaimView| its_instance(claim, Component::Worker)));
        // Pods of slurmctld and slurmrestd belong to their workloads; their failures are reported on our resources.
        for_controllers.push(pods.route(|pod: &PodView| its_instance(pod, Component::Controller)));
        for_restapis.push(pods.route(|pod: &PodView| its_instance(pod, Component::RestApi)));
        for (kind, hub) in &mut children {
            for_controllers.push(hub.route(|child: &DynamicObject| owners(child)));
            for_restapis.push(hub.route(|child: &DynamicObject| owners(child)));
            for_nodesets.push(hub.route(|child: &DynamicObject| owners(child)));
            match kind {
                // slurmrestd uses slurmctld's configuration, which also lists the generic resources that nodes may have; workers start when slurmctld
                // is up.
                ChildKind::ConfigMap | ChildKind::StatefulSet => {
                    for_restapis.push(hub.route(restapis_of_its_controller(&stores)));
                    for_nodesets.push(hub.route(nodesets_of_its_controller(&stores)));
                }
                ChildKind::Service | ChildKind::Deployment | ChildKind::PodDisruptionBudget | ChildKind::ServiceMonitor => {}
            }
        }

        for_controllers.extend(definitions.route(&stores.controllers));
        for_controllers.push(definitions.route_monitors(&stores.controllers));
        for_restapis.extend(definitions.route(&stores.restapis));
        for_nodesets.extend(definitions.route(&stores.nodesets));
        for_nodesets.push(nodes.route(&stores.nodesets, &stores.pods));

        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (clusters, active_controllers) =
            self.start_slurm(&mut controllers, &mut restapis, &stores, &clock, &mut for_controllers, &mut for_nodesets, &caches, tasks)?;

        let everything = watcher::Config::default();
        let ours = watcher::Config::default().labels(&label::ours());
        self.follow(controllers, self.api(), everything.clone(), tasks);
        self.follow(restapis, self.api(), everything.clone(), tasks);
        self.follow(nodesets, self.api(), everything, tasks);
        self.follow(pods, self.api(), ours.clone(), tasks);
        let of_workers = watcher::Config::default().labels(&format!("{}={}", label::NAME, Component::Worker.daemon()));
        self.follow(claims, self.api(), of_workers, tasks);
        // Revisions of other operators of this API share only this label. No label distinguishes them from those of StatefulSets.
        self.follow(revisions, self.api(), watcher::Config::default().labels(label::TEMPLATE_HASH), tasks);
        for (kind, hub) in children {
            self.follow(hub, self.dynamic_api(kind), ours.clone(), tasks);
        }

        let context = Arc::new(Context {
            client: self.client.clone(),
            writer: Writer::new(self.client.clone(), FIELD_MANAGER),
            clock,
            stores: stores.clone(),
            memory: Memory::default(),
            secrets: SecretCache::default(),
            metrics: self.metrics.clone(),
            guard: self.guard.clone(),
            events: self.events.clone(),
            clusters,
            active_controllers,
            cluster_domain: domain::of_this_pod(),
            propagated_node_conditions: self.propagated_node_conditions.clone(),
        });
        let (controllers, restapis, nodesets) = (Controllers(context.clone()), RestApis(context.clone()), NodeSets(context.clone()));
        self.work("controller", controllers, &context, stores.controllers, for_controllers, caches.clone(), tasks);
        self.work("restapi", restapis, &context, stores.restapis, for_restapis, caches.clone(), tasks);
        self.work("nodeset", nodesets, &context, stores.nodesets, for_nodesets, caches, tasks);
        self.tell_unserved(accountings, Kind::Accounting, &context, definitions, tasks);
        self.tell_unserved(self.hub::<LoginSet>(()), Kind::LoginSet, &context, definitions, tasks);
        self.tell_unserved(self.hub::<Token>(()), Kind::Token, &context, definitions, tasks);
        Ok(())
    }

    /// Starts the tasks that query Slurm: one session per cluster, and a watch on clusters with several slurmctld.
    #[allow(clippy::too_many_arguments)] // the arguments are independent
    fn start_slurm(
        &self,
        controllers: &mut Hub<SlurmController>,
        restapis: &mut Hub<RestApi>,
        stores: &Stores,
        clock: &Arc<dyn Clock>,
        for_controllers: &mut Vec<UnboundedReceiver<ObjectRef<SlurmController>>>,
        for_nodesets: &mut Vec<UnboundedReceiver<ObjectRef<NodeSet>>>,
        caches: &[Filled],
        tasks: &mut Tasks,
    ) -> anyhow::Result<(Arc<Clusters>, Arc<ActiveControllers>)> {
        let sources =
            Sources { controllers: stores.controllers.clone(), restapis: stores.restapis.clone(), nodesets: stores.nodesets.clone() };
        let ground = Ground {
            client: self.client.clone(),
            clock: clock.clone(),
            metrics: self.metrics.clone(),
            address: self.slurm_address.clone(),
        };
        let (clusters, wakes) = Clusters::new(sources, ground);
        let (active_controllers, role_wakes) =
            ActiveControllers::new(stores.controllers.clone(), stores.pods.clone(), clock.clone()).map_err(anyhow::Error::msg)?;
        for_controllers.extend([wakes.controllers, role_wakes]);
        for_nodesets.push(wakes.nodesets);

        let changes = select(controllers.route::<SlurmController>(itself).map(drop), restapis.route::<RestApi>(itself).map(drop));
        tasks.spawn("sessions to Slurm", clusters.clone().follow(changes, caches.to_vec(), self.stop.clone()));
        let changes = controllers.route::<SlurmController>(itself);
        tasks.spawn("active slurmctld", active_controllers.clone().follow(changes, caches.to_vec(), self.stop.clone()));
        Ok((clusters, active_controllers))
    }

    /// Watches a kind that is stored and not served, and reports that on its objects. No other objects are needed for that.
    fn tell_unserved<K>(&self, mut objects: Hub<K>, kind: Kind, context: &Arc<Context>, definitions: &mut Watches, tasks: &mut Tasks)
    where
        K: Reported + Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        K::Status: Send + Sync,
    {
        let store = objects.store();
        let mut caches = definitions.filled();
        caches.push(objects.filled());
        let mut queues = vec![objects.route(itself)];
        queues.extend(definitions.route(&store));
        self.follow(objects, self.api(), watcher::Config::default(), tasks);
        let passes = Unserved { kind, context: context.clone() };
        self.work(kind.singular(), passes, context, store, queues, caches, tasks);
    }

    fn hub<K>(&self, dyntype: K::DynamicType) -> Hub<K>
    where
        K: Resource + Clone + Debug + Send + Sync + 'static,
        K::DynamicType: Eq + Hash + Clone + Debug + Unpin + Send + Sync,
    {
        let kind = format!("{}.{}", K::plural(&dyntype), K::group(&dyntype));
        let gate = match &self.namespace {
            Some(namespace) => self.health.gate(&format!("{} in {namespace}", kind.trim_end_matches('.'))),
            None => self.health.gate(kind.trim_end_matches('.')),
        };
        Hub::new(dyntype, gate, self.metrics.clone())
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    fn dynamic_api(&self, kind: ChildKind) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource(kind)),
            None => Api::all_with(self.client.clone(), &resource(kind)),
        }
    }

    /// Runs a watch.
    fn follow<K>(&self, hub: Hub<K>, api: Api<K>, config: watcher::Config, tasks: &mut Tasks)
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        K::DynamicType: Eq + Hash + Clone + Debug + Unpin + Send + Sync,
    {
        let name = format!("watch of {}", api.resource_url());
        // The operator does not read `managedFields`, the heaviest part of many objects.
        let events = watcher(api, config).modify(|object| object.managed_fields_mut().clear());
        tasks.spawn(name, hub.run(events.take_until(self.stop.clone().cancelled_owned())));
    }

    /// Reconciles one kind once all caches are filled: a half-filled cache would hide existing objects.
    #[allow(clippy::too_many_arguments)] // the arguments are independent
    fn work<K, R>(
        &self,
        name: &'static str,
        passes: R,
        context: &Arc<Context>,
        roots: Store<K>,
        queues: Vec<UnboundedReceiver<ObjectRef<K>>>,
        caches: Vec<Filled>,
        tasks: &mut Tasks,
    ) where
        K: Reported + Clone + Debug + Send + Sync + 'static,
        K::Status: Send + Sync,
        R: Reconcile<K, Error = Error>,
    {
        let reconciler = Guarded { passes, context: context.clone() };
        let (metrics, stop) = (self.metrics.clone(), self.stop.clone());
        tasks.spawn(format!("{name} passes"), async move {
            let filled = join_all(caches.into_iter().map(Filled::wait));
            tokio::select! {
                () = stop.cancelled() => return,
                _ = filled => {}
            }
            queue::run(name, Arc::new(reconciler), roots, select_all(queues), metrics, stop).await;
        });
    }
}

fn itself<K: Resource<DynamicType = ()>>(object: &K) -> Vec<ObjectRef<K>> {
    vec![ObjectRef::from_obj(object)]
}

fn its_controller(nodeset: &NodeSet) -> Vec<ObjectRef<SlurmController>> {
    vec![ObjectRef::new(&nodeset.spec.controller_ref.name).within(&nodeset.namespace().unwrap_or_default())]
}

/// The resource that a pod or claim belongs to, by its labels.
fn its_instance<K: Resource, R: Resource<DynamicType = ()>>(object: &K, component: Component) -> Vec<ObjectRef<R>> {
    let labels = object.labels();
    let is_of_component = labels.get(label::NAME).is_some_and(|daemon| daemon == component.daemon());
    let instance = labels.get(label::INSTANCE).filter(|_| is_of_component);
    instance.map(|instance| ObjectRef::new(instance).within(&object.namespace().unwrap_or_default())).into_iter().collect()
}

/// The resources of kind `R` that own an object.
fn owners<K: Resource, R: Resource<DynamicType = ()>>(object: &K) -> Vec<ObjectRef<R>> {
    let namespace = object.namespace().unwrap_or_default();
    let ours = object.owner_references().iter().filter(|owner| owner.api_version == API_VERSION && owner.kind == R::kind(&()));
    ours.map(|owner| ObjectRef::new(&owner.name).within(&namespace)).collect()
}

fn controllers_with_it(stores: &Stores) -> impl Fn(&Accounting) -> Vec<ObjectRef<SlurmController>> + use<> {
    let stores = stores.clone();
    move |accounting| {
        let controllers = stores.controllers_with(&accounting.namespace().unwrap_or_default(), &accounting.name_any());
        controllers.iter().map(|controller| ObjectRef::from_obj(controller.as_ref())).collect()
    }
}

fn restapis_of_it(stores: &Stores) -> impl Fn(&SlurmController) -> Vec<ObjectRef<RestApi>> + use<> {
    let stores = stores.clone();
    move |controller| restapis_of(&stores, &ObjectRef::from_obj(controller))
}

fn nodesets_of_it(stores: &Stores) -> impl Fn(&SlurmController) -> Vec<ObjectRef<NodeSet>> + use<> {
    let stores = stores.clone();
    move |controller| nodesets_of(&stores, &ObjectRef::from_obj(controller))
}

fn restapis_of_its_controller(stores: &Stores) -> impl Fn(&DynamicObject) -> Vec<ObjectRef<RestApi>> + use<> {
    let stores = stores.clone();
    move |child| owners(child).iter().flat_map(|controller| restapis_of(&stores, controller)).collect()
}

fn nodesets_of_its_controller(stores: &Stores) -> impl Fn(&DynamicObject) -> Vec<ObjectRef<NodeSet>> + use<> {
    let stores = stores.clone();
    move |child| owners(child).iter().flat_map(|controller| nodesets_of(&stores, controller)).collect()
}

fn restapis_of(stores: &Stores, controller: &ObjectRef<SlurmController>) -> Vec<ObjectRef<RestApi>> {
    let namespace = controller.namespace.as_deref().unwrap_or_default();
    stores.restapis_of(namespace, &controller.name).iter().map(|restapi| ObjectRef::from_obj(restapi.as_ref())).collect()
}

fn nodesets_of(stores: &Stores, controller: &ObjectRef<SlurmController>) -> Vec<ObjectRef<NodeSet>> {
    let namespace = controller.namespace.as_deref().unwrap_or_default();
    stores.nodesets_of(namespace, &controller.name).iter().map(|nodeset| ObjectRef::from_obj(nodeset.as_ref())).collect()
}
