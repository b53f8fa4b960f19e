//! What a scenario stands on: a bed with our operator, and Slurm clusters on it.

use slipway_bed::bed::Bed;
use slipway_bed::cache::Cache;
use slipway_bed::failure::Failure;
use slipway_bed::image::Image;
use slipway_bed::progress::Progress;
use slipway_bed::up::{Wanted, prepare, up};

use crate::cluster::Cluster;
use crate::manifest::Manifest;
use crate::slurm::{Slurm, install_operator};

/// A bed of its own for one test; it goes down with it.
pub struct Ground {
    pub bed: Bed,
    pub cluster: Cluster,
}

impl Ground {
    /// A bed with `nodes` nodes and the operator on it.
    pub async fn up(name: &str, nodes: u8) -> Result<Self, Failure> {
        let cache = Cache::open()?;
        let name = format!("{name}-{}", std::process::id()).parse()?;
        let wanted = Wanted { images: Image::of_slurm(), ..Wanted::cluster(name, nodes) };
        prepare(&cache, &wanted)?;
        let bed = up(&cache, &wanted).await?;
        let cluster = Cluster::of_bed(&bed);
        install_operator(&cluster, Progress::Quiet).await?;
        Ok(Self { bed, cluster })
    }

    /// A Slurm cluster that serves.
    pub async fn slurm(&self, namespace: &str, manifest: Manifest) -> Result<Slurm, Failure> {
        let slurm = Slurm::apply(&self.cluster, namespace, manifest, Progress::Quiet)?;
        slurm.until_ready(Progress::Quiet).await?;
        Ok(slurm)
    }

    /// Kubernetes' garbage collector learns of new kinds half a minute late, and until then deletes nothing of theirs: waits until it knows ours.
    pub fn garbage_collector_knows_our_kinds(&self) -> Result<(), Failure> {
        let probe = r#"{"apiVersion": "slinky.slurm.net/v1beta1", "kind": "RestApi", "metadata": {"name": "probe"}, "spec": {"controllerRef": {"name": "nobody"}}}"#;
        self.cluster.apply_text(probe, Some("kube-public"))?;
        let probe = ["restapis.slinky.slurm.net", "probe", "--namespace=kube-public", "--cascade=foreground", "--timeout=60s"];
        self.kubectl(&["delete"].into_iter().chain(probe).collect::<Vec<_>>()).map(drop)
    }

    /// A node that runs nothing which anybody else needs: neither DNS nor the operator.
    pub fn free_node(&self) -> Result<String, Failure> {
        let busy = self.kubectl(&["get", "pods", "--all-namespaces", "--output=jsonpath={.items[*].spec.nodeName}"])?;
        let nodes = self.kubectl(&["get", "nodes", "--output=jsonpath={.items[*].metadata.name}"])?;
        let is_busy = |node: &str| busy.split_whitespace().any(|other| other == node);
        let free = nodes.split_whitespace().find(|node| !is_busy(node)).map(str::to_owned);
        free.ok_or_else(|| Failure::new("every node runs something"))
    }

    /// Runs kubectl and returns what it printed.
    pub fn kubectl(&self, args: &[&str]) -> Result<String, Failure> {
        self.cluster.kubectl().args(args).output()
    }
}
