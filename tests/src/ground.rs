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

    /// Runs kubectl and returns what it printed.
    pub fn kubectl(&self, args: &[&str]) -> Result<String, Failure> {
        self.cluster.kubectl().args(args).output()
    }
}
