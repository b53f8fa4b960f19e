//! The floor: a bare loop with the fewest writes that have the same result, for comparison: it creates each pod, and shows the state of its node on it.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use slipway_bed::failure::{Context, Failure};

use super::yard::{Cluster, NODESET, Yard, until};

/// Concurrent writes, as many as the operator makes.
const AT_ONCE: usize = 32;

/// Creates the pods of this many workers, waits until all have registered with Slurm, and writes a condition on each.
pub(super) async fn floor(yard: &Yard, cluster: &Cluster, workers: u32) -> Result<Duration, Failure> {
    let pods: Api<Pod> = Api::namespaced(yard.client.clone(), &cluster.namespace);
    let began = Instant::now();
    let create = async |index: u32| {
        let name = format!("{NODESET}-{index}");
        let slurmd = json!({ "name": "slurmd", "image": "slurmd", "args": ["-Z", "--conf", "Features=worker"] });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app.kubernetes.io/name": "slurmd" } },
            "spec": { "hostname": name, "containers": [slurmd] },
        });
        let pod = serde_json::from_value(pod).context(|| "no pod".to_owned())?;
        pods.create(&PostParams::default(), &pod).await.map(drop).context(|| format!("could not create {name}"))
    };
    futures::stream::iter(0..workers).map(Ok).try_for_each_concurrent(AT_ONCE, create).await?;
    until("the floor's workers", async || {
        let found = cluster.sim.world(|world| world.nodes.len());
        Ok(if found == workers as usize { Ok(()) } else { Err(format!("{found} of {workers} have registered")) })
    })
    .await?;
    let idle = json!({ "status": { "conditions": [{ "type": "SlurmNodeStateIdle", "status": "True" }] } });
    let show = async |index: u32| {
        let patch = Patch::Strategic(&idle);
        let shown = pods.patch_status(&format!("{NODESET}-{index}"), &PatchParams::default(), &patch).await;
        shown.map(drop).context(|| format!("could not show the state of {NODESET}-{index}"))
    };
    futures::stream::iter(0..workers).map(Ok).try_for_each_concurrent(AT_ONCE, show).await?;
    Ok(began.elapsed())
}
