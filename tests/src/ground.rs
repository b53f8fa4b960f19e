//! The environment of a scenario: its own Kubernetes nodes and namespaces, on a shared bed or on its own, with our operator.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use slipway_bed::bed::{Bed, take_down};
use slipway_bed::cache::Cache;
use slipway_bed::control::PartState;
use slipway_bed::failure::{Failure, tail};
use slipway_bed::image::Image;
use slipway_bed::layout::node_name;
use slipway_bed::progress::Progress;
use slipway_bed::turn::{NODE_WATCHERS, Turn};
use slipway_bed::up::{Wanted, prepare, up};

use crate::audit::Audit;
use crate::cluster::Cluster;
use crate::eventually::eventually;
use crate::manifest::Manifest;
use crate::slurm::{Slurm, install_operator};
use crate::world::World;

/// Environment variable with the name of the bed that scenarios share; set by the process that brought it up.
pub const SHARED_BED: &str = "SLIPWAY_SHARED_BED";
/// On Kubernetes nodes of a shared bed: the scenario that they are reserved for.
const RESERVED_FOR: &str = "slipway.dev/reserved-for";

/// The environment of one scenario; dropping it removes everything in it.
pub struct Ground {
    pub bed: Bed,
    pub cluster: Cluster,
    cache: Cache,
    /// Unique among the scenarios on this machine.
    name: String,
    is_shared: bool,
    /// Numbers of our nodes.
    nodes: Mutex<Vec<u8>>,
    namespaces: Mutex<Vec<String>>,
    _turn: Turn,
}

impl Ground {
    /// `nodes` Kubernetes nodes of its own on the bed that scenarios share, or on a bed of its own if none is shared.
    pub async fn up(name: &str, nodes: u8) -> Result<Self, Failure> {
        match std::env::var(SHARED_BED) {
            Ok(bed) if !bed.is_empty() => Self::on_shared(name, nodes, &bed).await,
            _ => Self::alone(name, nodes).await,
        }
    }

    /// A bed of its own, for scenarios that restart or change the operator.
    pub async fn alone(name: &str, nodes: u8) -> Result<Self, Failure> {
        let cache = Cache::open()?;
        let turn = Turn::take(&cache, usize::from(nodes) * NODE_WATCHERS).await?;
        let name = unique(name);
        let wanted = Wanted { images: Image::of_slurm(), ..Wanted::cluster(name.parse()?, nodes) };
        prepare(&cache, &wanted)?;
        let bed = up(&cache, &wanted).await?;
        let cluster = Cluster::of_bed(&bed);
        install_operator(&cluster, Progress::Quiet).await?;
        let (nodes, namespaces) = (Mutex::new((1..=nodes).collect()), Mutex::default());
        Ok(Self { bed, cluster, cache, name, is_shared: false, nodes, namespaces, _turn: turn })
    }

    async fn on_shared(name: &str, nodes: u8, bed: &str) -> Result<Self, Failure> {
        let cache = Cache::open()?;
        let turn = Turn::take(&cache, usize::from(nodes) * NODE_WATCHERS).await?;
        let bed = Bed::open(&cache, &bed.parse()?)?;
        let (cluster, name) = (Cluster::of_bed(&bed), unique(name));
        let ground =
            Self { bed, cluster, cache, name, is_shared: true, nodes: Mutex::default(), namespaces: Mutex::default(), _turn: turn };
        let mut added = Vec::new();
        for _ in 0..nodes {
            added.push(ground.start_node()?);
        }
        for node in added {
            ground.until_joined(&node).await?;
        }
        Ok(ground)
    }

    /// Adds a node; returns its name once Kubernetes reports it ready.
    pub async fn add_node(&self) -> Result<String, Failure> {
        let node = self.start_node()?;
        self.until_joined(&node).await?;
        Ok(node)
    }

    fn start_node(&self) -> Result<String, Failure> {
        let index = self.bed.add_node()?;
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).push(index);
        Ok(node_name(index))
    }

    /// Waits until a node is ready, and reserves it.
    async fn until_joined(&self, node: &str) -> Result<(), Failure> {
        eventually(&format!("node {node} to be ready"), async || {
            let found =
                self.cluster.get(&format!("/api/v1/nodes/{node}")).map_err(|failure| format!("{failure}; {}", self.parts_of(node)))?;
            let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_ready = conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            if is_ready { Ok(()) } else { Err(Value::from(conditions).to_string()) }
        })
        .await?;
        self.cluster.merge(&format!("/api/v1/nodes/{node}"), &json!({ "metadata": { "labels": { RESERVED_FOR: self.name } } }))
    }

    /// State of a node's daemons, with the last lines of their logs.
    fn parts_of(&self, node: &str) -> String {
        let parts = self.bed.parts().unwrap_or_default();
        let here = parts.iter().filter(|part| part.name.split('/').next() == Some(node));
        let tell = |part: &PartState| format!("{} {:?}: {}", part.name, part.life, tail(&part.log, 3).join(" | "));
        here.map(tell).collect::<Vec<_>>().join("; ")
    }

    /// Names of our nodes.
    pub fn nodes(&self) -> Vec<String> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|index| node_name(*index)).collect()
    }

    /// The labels of our nodes, for pods that must run there.
    pub fn node_labels(&self) -> Value {
        if self.is_shared { json!({ RESERVED_FOR: self.name }) } else { json!({}) }
    }

    /// The full name of our namespace: it is longer on a shared bed.
    pub fn namespace(&self, name: &str) -> String {
        let namespace = if self.is_shared { format!("{}-{name}", self.name) } else { name.to_owned() };
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if !namespaces.contains(&namespace) {
            namespaces.push(namespace.clone());
        }
        namespace
    }

    /// A unique name for a cluster-scoped object.
    pub fn unique(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Applies a Slurm cluster in our namespace of this name.
    pub fn apply(&self, namespace: &str, manifest: Manifest) -> Result<Slurm, Failure> {
        let manifest = if self.is_shared { manifest.on_nodes(&self.node_labels()) } else { manifest };
        Slurm::apply(&self.cluster, &self.namespace(namespace), manifest, Progress::Quiet)
    }

    /// A Slurm cluster that is ready.
    pub async fn slurm(&self, namespace: &str, manifest: Manifest) -> Result<Slurm, Failure> {
        let slurm = self.apply(namespace, manifest)?;
        slurm.until_ready(Progress::Quiet).await?;
        Ok(slurm)
    }

    /// The API server's audit log from now on, limited to our namespaces.
    pub fn audit(&self) -> Audit {
        Audit::from_now(&self.bed, self.namespaces.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Waits until Kubernetes' garbage collector knows our kinds. It learns of new kinds half a minute late, and until then deletes none of their
    /// objects.
    pub fn garbage_collector_knows_our_kinds(&self, slurm: &Slurm) -> Result<(), Failure> {
        let probe = json!({
            "apiVersion": "slinky.slurm.net/v1beta1", "kind": "RestApi", "metadata": { "name": "probe" },
            "spec": { "controllerRef": { "name": "nobody" } },
        });
        self.cluster.apply_text(&probe.to_string(), Some(&slurm.namespace))?;
        slurm.kubectl(&["delete", "restapis.slinky.slurm.net", "probe", "--cascade=foreground", "--timeout=10m"]).map(drop)
    }

    /// One of our nodes without any pod, so neither DNS nor the operator runs there.
    pub fn free_node(&self) -> Result<String, Failure> {
        let busy = self.kubectl(&["get", "pods", "--all-namespaces", "--output=jsonpath={.items[*].spec.nodeName}"])?;
        let is_busy = |node: &String| busy.split_whitespace().any(|other| other == node);
        self.nodes().into_iter().find(|node| !is_busy(node)).ok_or_else(|| Failure::new("every node runs something"))
    }

    /// Runs kubectl and returns its output.
    pub fn kubectl(&self, args: &[&str]) -> Result<String, Failure> {
        self.cluster.kubectl().args(args).output()
    }

    /// Removes everything in the environment, and reports a failure to do so.
    pub fn end(self) -> Result<(), Failure> {
        self.clear()
    }

    fn clear(&self) -> Result<(), Failure> {
        if !self.is_shared {
            return take_down(&self.cache, self.bed.layout());
        }
        let nodes = std::mem::take(&mut *self.nodes.lock().unwrap_or_else(PoisonError::into_inner));
        let namespaces = std::mem::take(&mut *self.namespaces.lock().unwrap_or_else(PoisonError::into_inner));
        if nodes.is_empty() {
            return Ok(());
        }
        // Nodes end before their objects are deleted, so that their pods end at once without a grace period and no kubelet recreates its Node.
        for node in &nodes {
            self.bed.end_node(*node)?;
        }
        for namespace in &namespaces {
            self.empty(namespace)?;
        }
        for node in &nodes {
            self.cluster.delete(&format!("/api/v1/nodes/{}", node_name(*node)), None)?;
        }
        // Last, because another scenario may have a node of that name from then on.
        nodes.iter().try_for_each(|node| self.bed.remove_node(*node))
    }

    /// Deletes a namespace whose pods have no kubelet.
    fn empty(&self, namespace: &str) -> Result<(), Failure> {
        let ours = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{namespace}");
        for kind in ["nodesets", "restapis", "controllers"] {
            self.cluster.delete(&format!("{ours}/{kind}"), None)?;
        }
        let sets = self.cluster.get(&format!("{ours}/nodesets"))?;
        for set in sets["items"].as_array().into_iter().flatten() {
            let path = format!("{ours}/nodesets/{}", set["metadata"]["name"].as_str().unwrap_or_default());
            // Slurm is gone and cannot report the end of its jobs. An error is ignored, because the NodeSet may be gone already.
            let _ = self.cluster.merge(&path, &json!({ "metadata": { "finalizers": null } }));
        }
        self.cluster.delete(&format!("/api/v1/namespaces/{namespace}/pods"), Some(0))?;
        self.cluster.delete(&format!("/api/v1/namespaces/{namespace}"), None)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if std::thread::panicking() {
            eprintln!("{}", World { bed: &self.bed, cluster: &self.cluster, namespaces: &namespaces });
        }
        if let Err(failure) = self.clear() {
            eprintln!("{failure}");
        }
    }
}

fn unique(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}
