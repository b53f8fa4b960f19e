//! The beds that the tests of one run share: a cluster for scenarios, an API server for tests that need no node.

use std::time::Instant;

use serde_json::json;
use slipway_bed::bed::Bed;
use slipway_bed::cache::Cache;
use slipway_bed::failure::Failure;
use slipway_bed::image::Image;
use slipway_bed::name::BedName;
use slipway_bed::progress::{Progress, seconds};
use slipway_bed::up::{Wanted, down, prepare, up};

use crate::cluster::Cluster;
use crate::slurm::{apply_operator, until_operator_ready};

/// The cluster's node that belongs to no scenario: it runs DNS and the operator.
const COMMON_NODE: &str = "n1";

/// Installs and builds everything that beds need.
pub fn prepare_beds(cache: &Cache) -> Result<(), Failure> {
    prepare(cache, &cluster_wanted("prepared".parse()?, Progress::Shown)).map(drop)
}

fn cluster_wanted(name: BedName, progress: Progress) -> Wanted {
    Wanted { images: Image::of_slurm(), progress, ..Wanted::cluster(name, 1) }
}

/// A cluster with the operator on a node of its own; scenarios add their nodes.
pub async fn cluster(cache: &Cache, name: BedName) -> Result<Bed, Failure> {
    let began = Instant::now();
    let bed = up(cache, &cluster_wanted(name, Progress::Quiet)).await?;
    let cluster = Cluster::of_bed(&bed);
    apply_operator(&cluster)?;
    // A scenario's nodes are deleted with it, so they must not run anything that others need. The operator's pod is on this node by now and stays:
    // pods do not move. DNS may be rescheduled at any time.
    let here = json!({ "spec": { "template": { "spec": { "nodeSelector": { "kubernetes.io/hostname": COMMON_NODE } } } } });
    cluster.merge("/apis/apps/v1/namespaces/kube-system/deployments/coredns", &here)?;
    until_operator_ready(&cluster).await?;
    eprintln!("a cluster for scenarios is up after {}", seconds(began.elapsed()));
    Ok(bed)
}

/// The running cluster of this name, or a new one; it outlives this process. One whose images are older than ours is replaced.
pub async fn lasting_cluster(cache: &Cache, name: BedName) -> Result<Bed, Failure> {
    let golden = prepare(cache, &cluster_wanted(name.clone(), Progress::Shown))?.golden;
    if let Ok(bed) = Bed::open(cache, &name) {
        if bed.spec().golden == golden && bed.layout().up_marker().exists() {
            return Ok(bed);
        }
        down(cache, &name)?;
    }
    let mut bed = cluster(cache, name).await?;
    bed.detach()?;
    Ok(bed)
}

/// An API server with our kinds and the operator's permissions; no operator runs.
pub async fn api_server(cache: &Cache, name: BedName) -> Result<Bed, Failure> {
    let bed = up(cache, &Wanted::api_only(name)).await?;
    apply_operator(&Cluster::of_bed(&bed))?;
    Ok(bed)
}
