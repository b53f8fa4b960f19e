//! An API server, and clusters with a simulated Slurm and simulated kubelets on it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use slipway_bed::Bed;
use slipway_bed::bed::take_down;
use slipway_bed::cache::Cache;
use slipway_bed::failure::{Context, Failure};
use slipway_bed::up::{Wanted, up};
use slipway_sim::partition::PartitionRecord;
use slipway_sim::{Kubelet, Served, Sim};

use super::audit::Audit;
use super::process::Process;
use crate::cluster::project_root;

/// Name of every NodeSet, of its partition and of the start of its pods' names.
pub(super) const NODESET: &str = "worker";
const KEY: &str = "a key of thirty-two bytes or more";
/// Interval between two looks at the state of the world.
const POLL: Duration = Duration::from_millis(50);
/// Time after which a benchmark is given up.
const GIVE_UP: Duration = Duration::from_mins(15);
/// Concurrent requests of the harness.
const AT_ONCE: usize = 32;

/// A server for one scenario.
pub(super) struct Yard {
    pub(super) client: Client,
    bed: Bed,
    cache: Cache,
    program: PathBuf,
    is_down: bool,
}

/// A Slurm cluster in a namespace.
pub(super) struct Cluster {
    pub(super) namespace: String,
    pub(super) sim: Sim,
    pub(super) kubelet: Kubelet,
    _served: Served,
}

impl Yard {
    /// An API server with our CRDs and our manifest, and no operator.
    pub(super) async fn up(program: &Path) -> Result<Self, Failure> {
        let cache = Cache::open()?;
        let bed = up(&cache, &Wanted::api_only("bench".parse()?)).await?;
        for path in ["charts/slurm-operator-crds/templates", "deploy/operator.yaml"] {
            let path = project_root().join(path);
            bed.kubectl().args(["apply", "--server-side", "--force-conflicts", "--filename"]).arg(path).output()?;
        }
        let client = bed.client().await?;
        Ok(Self { client, bed, cache, program: program.to_owned(), is_down: false })
    }

    pub(super) fn down(mut self) -> Result<(), Failure> {
        self.is_down = true;
        take_down(&self.cache, self.bed.layout())
    }

    pub(super) fn audit(&self) -> Audit {
        Audit::from_now(&self.bed.layout().audit_log())
    }

    /// Starts the operator with the rights of its service account and no others.
    pub(super) fn operator(&self) -> Result<Process, Failure> {
        let token = self.bed.kubectl().args(["create", "token", "slipway", "--namespace=slipway-system", "--duration=2h"]).output()?;
        let path = self.bed.kubeconfig();
        let text = std::fs::read_to_string(&path).context(|| format!("could not read {}", path.display()))?;
        let mut config: Value = serde_json::from_str(&text).context(|| format!("could not read {}", path.display()))?;
        config["users"][0]["user"] = json!({ "token": token.trim() });
        config["contexts"][0]["context"]["namespace"] = "slipway-system".into();
        let account = self.bed.layout().root.join("operator.kubeconfig");
        std::fs::write(&account, config.to_string()).context(|| format!("could not write {}", account.display()))?;
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&account).env("KUBECONFIG", &account);
        command.args(["--health-addr=127.0.0.1:0", "--metrics-addr=0", "--webhook-addr=0", "--slurm-url-template=http://127.0.0.1:{port}"]);
        Process::start(command, &self.bed.layout().log("operator"))
    }

    /// A namespace with an external Controller and a RestApi that leads to a new stand-in, and this many Kubernetes nodes.
    pub(super) async fn cluster(&self, namespace: &str, hosts: usize) -> Result<Cluster, Failure> {
        let sim = Sim::on_this_machine(KEY.as_bytes());
        let served = Served::start(sim.clone(), SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await;
        let served = served.context(|| "no port for the stand-in".to_owned())?;
        let core = format!("/api/v1/namespaces/{namespace}");
        self.apply(&core, &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } })).await?;
        // No controller manager runs here to create the service account.
        let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
        self.apply(&format!("{core}/serviceaccounts/default"), &account).await?;
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "keys" }, "stringData": { "key": KEY } });
        self.apply(&format!("{core}/secrets/keys"), &secret).await?;
        let kubelet = Kubelet::start(self.client.clone(), namespace, hosts, sim.clone()).await;
        let kubelet = kubelet.context(|| "the simulated kubelets did not start".to_owned())?;
        let key = json!({ "name": "keys", "key": "key" });
        let external = json!({ "host": "ctl.example.com", "port": 6817 });
        let controller = json!({ "slurmKeyRef": key, "jwtKeyRef": key, "external": true, "externalConfig": external });
        let port = served.address.port();
        let restapi = json!({ "controllerRef": { "name": "x" }, "slurmrestd": { "image": "slurmrestd" }, "service": { "port": port } });
        let cluster = Cluster { namespace: namespace.to_owned(), sim, kubelet, _served: served };
        self.ours(&cluster, "controllers", "Controller", "x", &controller).await?;
        self.ours(&cluster, "restapis", "RestApi", "r", &restapi).await?;
        Ok(cluster)
    }

    /// Creates the NodeSet, or changes its size.
    pub(super) async fn scale(&self, cluster: &Cluster, replicas: u32) -> Result<(), Failure> {
        cluster.sim.world(|world| {
            if !world.partitions.iter().any(|partition| partition.name == NODESET) {
                world.partitions.push(PartitionRecord::in_file(NODESET));
            }
        });
        let spec = json!({ "controllerRef": { "name": "x" }, "replicas": replicas, "slurmd": { "image": "slurmd" } });
        self.ours(cluster, "nodesets", "NodeSet", NODESET, &spec).await
    }

    /// Makes the operator delete the records of workers that leave.
    pub(super) async fn prune(&self, cluster: &Cluster) -> Result<(), Failure> {
        let path = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/nodesets/{NODESET}", cluster.namespace);
        self.merge(&path, &json!({ "spec": { "pruneSlurmNodeRecords": "NodeNotFound" } })).await
    }

    async fn ours(&self, cluster: &Cluster, plural: &str, kind: &str, name: &str, spec: &Value) -> Result<(), Failure> {
        let object = json!({ "apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": { "name": name }, "spec": spec });
        self.apply(&format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/{plural}/{name}", cluster.namespace), &object).await
    }

    pub(super) async fn nodeset(&self, cluster: &Cluster) -> Result<Value, Failure> {
        let path = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/nodesets/{NODESET}", cluster.namespace);
        let request = Request::get(path).body(Vec::new()).context(|| "no request".to_owned())?;
        self.client.request(request).await.context(|| "could not read the NodeSet".to_owned())
    }

    async fn apply(&self, path: &str, object: &Value) -> Result<(), Failure> {
        let request =
            Request::patch(format!("{path}?fieldManager=bench&force=true")).header("content-type", "application/apply-patch+yaml");
        self.send(request, object).await
    }

    /// Changes an object by a JSON merge patch.
    pub(super) async fn merge(&self, path: &str, patch: &Value) -> Result<(), Failure> {
        self.send(Request::patch(path).header("content-type", "application/merge-patch+json"), patch).await
    }

    async fn send(&self, request: http::request::Builder, object: &Value) -> Result<(), Failure> {
        let request = request.body(object.to_string().into_bytes()).context(|| "no request".to_owned())?;
        let path = request.uri().path().to_owned();
        let answer: Result<Value, _> = self.client.request(request).await;
        answer.map(drop).context(|| format!("could not write {path}"))
    }

    /// Cordons Kubernetes nodes, all at once.
    pub(super) async fn cordon(&self, hosts: &[String]) -> Result<(), Failure> {
        let cordon = json!({ "spec": { "unschedulable": true } });
        let all = futures::stream::iter(hosts).map(Ok);
        all.try_for_each_concurrent(AT_ONCE, async |host| self.merge(&format!("/api/v1/nodes/{host}"), &cordon).await).await
    }

    /// Waits until the NodeSet counts this many ready workers, and each shows the state of its Slurm node.
    pub(super) async fn until_settled(&self, operator: &Process, cluster: &Cluster, workers: u32) -> Result<Duration, Failure> {
        let began = Instant::now();
        until(&format!("{workers} workers in {}", cluster.namespace), async || {
            operator.check()?;
            let nodeset = self.nodeset(cluster).await?;
            let count = |field: &str| nodeset["status"][field].as_u64().unwrap_or_default();
            let found = (count("readyReplicas"), count("slurmIdle"));
            Ok(if found == (workers.into(), workers.into()) {
                Ok(())
            } else {
                Err(format!("{} ready, {} idle in Slurm", found.0, found.1))
            })
        })
        .await?;
        Ok(began.elapsed())
    }

    /// Waits until each node in Slurm has its comment.
    pub(super) async fn until_described(&self, operator: &Process, cluster: &Cluster) -> Result<(), Failure> {
        until("a comment on each node", async || {
            operator.check()?;
            let bare = cluster.sim.world(|world| world.nodes.values().filter(|node| node.comment.is_empty()).count());
            Ok(if bare == 0 { Ok(()) } else { Err(format!("{bare} have none")) })
        })
        .await
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        if !self.is_down {
            let _ = take_down(&self.cache, self.bed.layout());
        }
    }
}

/// Asks until the answer is `Ok`, and shows the last `Err` every few seconds.
pub(super) async fn until(what: &str, ask: impl AsyncFn() -> Result<Result<(), String>, Failure>) -> Result<(), Failure> {
    let (began, mut told) = (Instant::now(), Instant::now());
    loop {
        let Err(missing) = ask().await? else { return Ok(()) };
        if began.elapsed() > GIVE_UP {
            return Err(Failure::new(format!("gave up waiting for {what}: {missing}")));
        }
        if told.elapsed() > Duration::from_secs(10) {
            told = Instant::now();
            eprintln!("  {} s: waiting for {what}: {missing}", began.elapsed().as_secs());
        }
        tokio::time::sleep(POLL).await;
    }
}
