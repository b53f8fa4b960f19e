//! The registry of Slurm clusters on a real API server, with simulated slurmrestds.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::stage::{Stage, controller, eventually};
use futures::stream::select;
use kube::api::{Api, DeleteParams};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use slipway_api::{NodeSet, RestApi, SlurmController};
use slipway_operator::slurm::{Clusters, Ground, SlurmCommand, Sources, Wakes, partitions_have_jobs};
use slipway_plan::gate::Answer as Verdict;
use slipway_runtime::clock::{Clock, SystemClock};
use slipway_runtime::health::Health;
use slipway_runtime::hub::Hub;
use slipway_runtime::metrics::{Metrics, SlurmCall};
use slipway_sim::{Fault, FaultKind, Release, Served, Sim};
use slipway_slurm::rest::clock::Clock as SlurmClock;
use slipway_slurm::snapshot::Answer;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const OLD_KEY: &str = "the first key of this cluster, 32 b";
const NEW_KEY: &str = "the second key, another 32 bytes..";

/// The registry on the caches of a real API server.
struct Registry {
    clusters: Arc<Clusters>,
    namespace: String,
    wakes: Wakes,
    nodesets: Store<NodeSet>,
    metrics: Metrics,
    stop: CancellationToken,
}

impl Registry {
    fn start(stage: &Stage) -> Self {
        let (metrics, _) = Metrics::new();
        let health = Health::default();
        let mut controllers: Hub<SlurmController> = Hub::new((), health.gate("controllers"), metrics.clone());
        let mut restapis: Hub<RestApi> = Hub::new((), health.gate("restapis"), metrics.clone());
        let nodesets: Hub<NodeSet> = Hub::new((), health.gate("nodesets"), metrics.clone());
        let caches = vec![controllers.filled(), restapis.filled(), nodesets.filled()];
        let changes = select(controllers.route(itself), restapis.route(its_controller));
        let sources = Sources { controllers: controllers.store(), restapis: restapis.store(), nodesets: nodesets.store() };
        let address = "http://127.0.0.1:{port}".parse().unwrap();
        let ground = Ground { client: stage.client.clone(), clock: Arc::new(SystemClock), metrics: metrics.clone(), address };
        let known = nodesets.store();
        let (clusters, wakes) = Clusters::new(sources, ground);
        let stop = CancellationToken::new();
        tokio::spawn(clusters.clone().follow(changes, caches, stop.clone()));
        let (client, namespace) = (stage.client.clone(), stage.namespace.clone());
        tokio::spawn(controllers.run(watcher(Api::namespaced(client.clone(), &namespace), watcher::Config::default())));
        tokio::spawn(restapis.run(watcher(Api::namespaced(client.clone(), &namespace), watcher::Config::default())));
        tokio::spawn(nodesets.run(watcher(Api::namespaced(client, &namespace), watcher::Config::default())));
        Self { clusters, namespace, wakes, nodesets: known, metrics, stop }
    }

    fn is_registered(&self, controller: &str, node: &str) -> Option<Answer> {
        self.clusters.snapshot(&self.namespace, controller).map(|snapshot| snapshot.is_registered(node, Instant::now()))
    }

    /// Waits until the snapshot of the cluster has the node.
    async fn sees(&self, controller: &str, node: &str) {
        eventually(&format!("node `{node}` of `{controller}`"), async || match self.is_registered(controller, node) {
            Some(Answer::Yes) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    fn calls(&self, kind: &'static str, outcome: &'static str) -> u64 {
        self.metrics.slurm_calls.get_or_create(&SlurmCall { kind, outcome }).get()
    }

    fn refusals(&self) -> u64 {
        ["list_nodes", "list_jobs", "list_reservations", "get_conf"].map(|kind| self.calls(kind, "TokenRefused")).iter().sum()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn itself<K: Resource<DynamicType = ()>>(object: &K) -> Vec<ObjectRef<K>> {
    vec![ObjectRef::from_obj(object)]
}

fn its_controller(restapi: &RestApi) -> Vec<ObjectRef<SlurmController>> {
    vec![ObjectRef::new(&restapi.spec.controller_ref.name).within(&restapi.namespace().unwrap_or_default())]
}

fn sim(workers: u32, key: &str) -> Sim {
    Sim::new(Release::R2605, workers, key.as_bytes(), SlurmClock::new(|| SystemClock.now()))
}

async fn serve(sim: &Sim, port: u16) -> Served {
    Served::start(sim.clone(), SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.unwrap()
}

fn restapi(name: &str, controller: &str, port: u16) -> Value {
    json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "RestApi", "metadata": { "name": name },
        "spec": { "controllerRef": { "name": controller }, "service": { "port": port } },
    })
}

async fn create(stage: &Stage, plural: &str, object: &Value) {
    let answer = stage.create(plural, object).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
}

fn set_key(stage: &Stage, key: &str) {
    let patch = json!({ "stringData": { "key": key } }).to_string();
    stage.kubectl(&["patch", "secret", "keys", "--namespace", &stage.namespace, "--patch", &patch]);
}

async fn stage_with_keys(name: &str) -> Stage {
    let stage = Stage::new(name).await;
    let literal = format!("--from-literal=key={OLD_KEY}");
    stage.kubectl(&["create", "secret", "generic", "keys", "--namespace", &stage.namespace, &literal]);
    stage
}

#[tokio::test]
async fn a_session_comes_with_its_restapi_survives_another_key_and_goes_with_it() {
    let stage = stage_with_keys("slurm-session").await;
    let mut registry = Registry::start(&stage);
    let first = sim(3, OLD_KEY);
    let served = serve(&first, 0).await;
    let port = served.address.port();

    create(&stage, "controllers", &controller("x", &json!({}))).await;
    create(
        &stage,
        "nodesets",
        &json!({
            "apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": { "name": "worker" },
            "spec": { "controllerRef": { "name": "x" }, "slurmd": { "image": "i" } },
        }),
    )
    .await;
    // A poll triggers a reconcile of the NodeSets known by then; a NodeSet created later is reconciled by itself.
    eventually(
        "NodeSet `worker` to be known",
        async || if registry.nodesets.is_empty() { Err("there is none".to_owned()) } else { Ok(()) },
    )
    .await;
    create(&stage, "restapis", &restapi("r", "x", port)).await;
    registry.sees("x", "worker-2").await;
    let woken = futures::StreamExt::next(&mut registry.wakes.controllers).await.unwrap();
    assert_eq!((woken.namespace.as_deref(), woken.name.as_str()), (Some(stage.namespace.as_str()), "x"));
    let woken = futures::StreamExt::next(&mut registry.wakes.nodesets).await.unwrap();
    assert_eq!((woken.namespace.as_deref(), woken.name.as_str()), (Some(stage.namespace.as_str()), "worker"));

    // A held job changes no node, so the queue is polled only at its interval or on request.
    let held = json!({"script": "#!/bin/sh\nsleep 9\n", "partition": "worker", "hold": true});
    first.world(|world| world.submit(&held)).unwrap();
    let (submitted_at, before) = (Instant::now(), first.requests("GET nodes"));
    eventually("the held job", async || {
        registry.clusters.read_soon(&stage.namespace, "x");
        let snapshot = registry.clusters.snapshot(&stage.namespace, "x");
        match partitions_have_jobs(snapshot.as_deref(), &["worker".to_owned()], Instant::now()) {
            Verdict::Yes => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // Without a request the queue is polled every 20 seconds, and the nodes eight times meanwhile.
    let readings = first.requests("GET nodes") - before;
    eprintln!("the held job was known after {:.1?} and {readings} readings of the nodes", submitted_at.elapsed());
    assert!(readings < 8, "nobody hurried: {readings} readings of the nodes");

    // The time at which slurmctld read its configuration is known, and changes when it reads it again.
    let before = eventually("the moment of the configuration", async || registry.clusters.configured_at(&stage.namespace, "x")).await;
    first.turn(Duration::from_secs(100));
    assert!(registry.clusters.send(&stage.namespace, "x", SlurmCommand::Reconfigure("a test".to_owned())));
    eventually("a later moment of the configuration", async || match registry.clusters.configured_at(&stage.namespace, "x") {
        Ok(after) if after > before => Ok(()),
        other => Err(format!("{other:?}, before it was {before}")),
    })
    .await;
    assert_eq!(first.requests("GET reconfigure"), 1);
    assert_eq!(registry.refusals(), 0);

    // Another key: first the Secret changes, then slurmctld, as when its pod is replaced.
    set_key(&stage, NEW_KEY);
    let second = sim(5, NEW_KEY);
    // Requests in flight to the old one fail, and nothing listens until the new one does.
    first.fail(Fault::new(FaultKind::Refuse));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let new =
        eventually("the port to be free", async || Served::start(second.clone(), address).await.map_err(|error| error.to_string())).await;
    registry.sees("x", "worker-4").await;
    // The poll of the nodes was refused, and possibly the one concurrent with it.
    assert!((1..=2).contains(&registry.refusals()), "{} refusals", registry.refusals());

    let api: Api<RestApi> = Api::namespaced(stage.client.clone(), &stage.namespace);
    api.delete("r", &DeleteParams::default()).await.unwrap();
    eventually("the session to end", async || match registry.is_registered("x", "worker-4") {
        None => Ok(()),
        Some(answer) => Err(format!("{answer:?}")),
    })
    .await;
    assert_eq!(registry.metrics.slurm_clusters.get(), 0);
    assert!(registry.clusters.configured_at(&stage.namespace, "x").unwrap_err().contains("no RestApi"));
    assert!(!registry.clusters.send(&stage.namespace, "x", SlurmCommand::Reconfigure("a test".to_owned())));
    // While another cluster is polled three times, this one gets no more requests.
    let asked = second.requests("");
    let third = sim(1, NEW_KEY);
    let other = serve(&third, 0).await;
    create(&stage, "controllers", &controller("y", &json!({}))).await;
    create(&stage, "restapis", &restapi("y", "y", other.address.port())).await;
    eventually("three readings of another cluster", async || match third.requests("GET nodes") {
        read if read >= 3 => Ok(()),
        read => Err(format!("there were {read}")),
    })
    .await;
    assert_eq!(second.requests(""), asked, "nobody asks any more");
    drop((served, new, other, registry));
    stage.end();
}

#[tokio::test]
async fn a_stalled_cluster_slows_no_other_and_what_is_missing_is_named() {
    let stage = stage_with_keys("slurm-stall").await;
    let registry = Registry::start(&stage);
    let (quick, slow) = (sim(2, OLD_KEY), sim(2, OLD_KEY));
    let (quick_served, slow_served) = (serve(&quick, 0).await, serve(&slow, 0).await);
    for (name, served) in [("quick", &quick_served), ("slow", &slow_served)] {
        create(&stage, "controllers", &controller(name, &json!({}))).await;
        create(&stage, "restapis", &restapi(name, name, served.address.port())).await;
    }
    registry.sees("quick", "worker-1").await;
    registry.sees("slow", "worker-1").await;
    assert_eq!(registry.metrics.slurm_clusters.get(), 2);
    slow.fail(Fault::new(FaultKind::Stall));
    slow.world(|world| world.register("worker-9", 2, &[]));

    // Until the snapshot of the stalled cluster has expired, the other cluster stays known, and its new nodes are seen.
    for index in 10..=12 {
        let name = format!("worker-{index}");
        quick.world(|world| world.register(&name, 2, &[]));
        let came = Instant::now();
        registry.sees("quick", &name).await;
        eprintln!("a node was seen {:.1?} after it came, while another cluster hangs", came.elapsed());
    }
    eventually("the stalled cluster to be believed no more", async || {
        assert_eq!(registry.is_registered("quick", "worker-12"), Some(Answer::Yes), "one that hangs costs what is known of another");
        match registry.is_registered("slow", "worker-1") {
            Some(Answer::Unknown(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    slow.heal();
    registry.sees("slow", "worker-9").await;

    // A missing key of a Controller is reported with a remedy. Once it exists, Slurm is polled.
    let mut keyless = controller("keyless", &json!({}));
    keyless["spec"]["jwtKeyRef"] = json!({ "name": "later", "key": "k" });
    create(&stage, "controllers", &keyless).await;
    create(&stage, "restapis", &restapi("keyless", "keyless", quick_served.address.port())).await;
    eventually("the missing Secret to be named", async || {
        let trouble =
            registry.clusters.snapshot(&stage.namespace, "keyless").map(|snapshot| snapshot.trouble().to_owned()).unwrap_or_default();
        if trouble.contains(&stage.here("Secret `slurm/later` does not exist")) { Ok(()) } else { Err(trouble) }
    })
    .await;
    stage.kubectl(&["create", "secret", "generic", "later", "--namespace", &stage.namespace, &format!("--from-literal=k={OLD_KEY}")]);
    registry.sees("keyless", "worker-1").await;
    drop(registry);
    stage.end();
}

#[tokio::test]
async fn a_drain_does_not_wait_behind_hundreds_of_comments() {
    const NODES: u32 = 150;
    let stage = stage_with_keys("slurm-order").await;
    let registry = Registry::start(&stage);
    let cluster = sim(NODES, OLD_KEY);
    let served = serve(&cluster, 0).await;
    create(&stage, "controllers", &controller("x", &json!({}))).await;
    create(&stage, "restapis", &restapi("r", "x", served.address.port())).await;
    registry.sees("x", "worker-1").await;

    let comments: BTreeMap<String, String> = (0..NODES).map(|node| (format!("worker-{node}"), format!("comment {node}"))).collect();
    assert!(registry.clusters.send(&stage.namespace, "x", SlurmCommand::Describe(comments.clone())));
    assert!(registry.clusters.send(&stage.namespace, "x", SlurmCommand::Describe(comments)));
    assert!(registry.clusters.send(&stage.namespace, "x", SlurmCommand::Drain(vec!["worker-7".to_owned()], "a test".to_owned())));
    eventually("the drain", async || {
        let is_draining = cluster.world(|world| world.nodes["worker-7"].is_draining);
        if is_draining { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    let described = || cluster.world(|world| world.nodes.values().filter(|node| node.comment.starts_with("comment ")).count());
    assert!(described() < NODES as usize, "all {NODES} comments came before the drain");
    eventually("every comment", async || match described() {
        all if all == NODES as usize => Ok(()),
        some => Err(format!("{some} of {NODES}")),
    })
    .await;
    assert_eq!(cluster.requests("POST node/worker-"), u64::from(NODES), "the same twice is one");
    drop((served, registry));
    stage.end();
}
