//! Deletion of a NodeSet whose Controller is gone, on a real API server.

use serde_json::json;

use crate::stage::cluster::{CONTROLLER, Cluster, operator};
use crate::stage::{Stage, eventually, says};

const NODESET: &str = "worker";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_outlives_its_controller_until_a_user_gives_it_up() {
    let stage = Stage::new("gone").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    cluster.create_nodeset(NODESET, 2).await;
    cluster.until_settled(NODESET, 2).await;
    cluster.run_job(NODESET, &["worker-0"], 3600).await;
    eventually("the busy pod to be protected", async || {
        let pods = cluster.pods(NODESET).await;
        let protected = pods.iter().filter(|pod| pod["metadata"]["labels"]["nodeset.slinky.slurm.net/pod-protect"] == "true").count();
        if protected == 1 { Ok(()) } else { Err(format!("{protected} are")) }
    })
    .await;
    let before = cluster.uids(NODESET).await;
    for path in [cluster.path("controllers", CONTROLLER), cluster.path("nodesets", NODESET)] {
        assert_eq!(stage.delete(&path, "Background").await.code, 200);
    }
    cluster.until_condition(NODESET, "Ready", |ready| says(ready, &["its slurmctld is gone", "slipway.dev/force-delete"])).await;
    eventually("the idle worker to be deleted", async || match cluster.uids(NODESET).await {
        left if left.len() == 1 => Ok(()),
        left => Err(format!("{left:?}")),
    })
    .await;
    assert_eq!(cluster.uids(NODESET).await["worker-0"], before["worker-0"]);

    let force = json!({ "metadata": { "annotations": { "slipway.dev/force-delete": "true" } } });
    assert_eq!(stage.edit(&cluster.path("nodesets", NODESET), &force).await.code, 200);
    eventually("the NodeSet to be deleted", async || match cluster.nodeset(NODESET).await {
        gone if gone["code"] == 404 => Ok(()),
        left => Err(left["status"].to_string()),
    })
    .await;
}
