//! GPUs: the NodeSet reports which source disagrees, on a real API server with simulated Slurm.

use serde_json::{Value, json};

use crate::stage::cluster::{Cluster, operator};
use crate::stage::{Stage, condition, controller, eventually};

const NODESETS: &str = "nodesets";

fn slurmd(gpus: u64) -> Value {
    json!({ "image": "slurmd", "resources": { "limits": { "nvidia.com/gpu": gpus } } })
}

/// Waits until GresAgrees has this status and these words, for the current generation.
async fn until_agreement(nodeset: impl AsyncFn() -> Value, status: &str, words: &[&str]) {
    eventually(&format!("GresAgrees to be {status}"), async || {
        let nodeset = nodeset().await;
        let found = condition(&nodeset, "GresAgrees");
        let is_current = found["observedGeneration"] == nodeset["metadata"]["generation"];
        let message = found["message"].as_str().unwrap_or_default();
        let is_said = words.iter().all(|word| message.contains(word));
        if found["status"] == status && is_said && is_current { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_slurm_has_is_held_against_what_the_pods_say() {
    let stage = Stage::new("gres").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    cluster.create_nodeset_with("w", 2, &json!({ "slurmd": slurmd(8), "extraConf": "Gres=gpu:8" })).await;
    cluster.create_nodeset_with("plain", 1, &json!({})).await;
    let nodeset = async || cluster.nodeset("w").await;
    until_agreement(nodeset, "False", &["`Gres=gpu:8`", "nothing", "`w-0`, `w-1`", "scontrol delete"]).await;

    let set = |node: &str, gres: &str| {
        cluster.sim.world(|world| {
            gres.clone_into(&mut world.nodes.get_mut(node).unwrap().gres);
            world.changed.nodes = world.now;
        });
    };
    set("w-0", "gpu:8(S:0-1)");
    set("w-1", "gpu:8(S:0-1)");
    until_agreement(nodeset, "True", &["gpu:8"]).await;
    set("w-1", "gpu:h200:4(S:0)");
    until_agreement(nodeset, "False", &["`gpu:h200:4`", "node `w-1`:"]).await;
    assert_eq!(condition(&cluster.nodeset("plain").await, "GresAgrees"), Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_slurmctld_have_to_know_what_the_pods_have() {
    let stage = Stage::new("gres-files").await;
    let _operator = stage.operator("slipway", &[]);
    let literal = "--from-literal=key=0123456789abcdef0123456789abcdef";
    stage.kubectl(&["create", "secret", "generic", "keys", "--namespace", &stage.namespace, literal]);
    stage.kubectl(&[
        "create",
        "configmap",
        "files",
        "--from-literal=gres.conf=Name=gpu Type=h200 File=/dev/nvidia[0-7]",
        "--namespace",
        &stage.namespace,
    ]);
    // No controller manager runs here to create the service account that pods need.
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
    stage.put(&format!("/api/v1/namespaces/{}/serviceaccounts/default", stage.namespace), &account).await;
    let made = stage.create("controllers", &controller("c", &json!({ "slurmctld": { "image": "slurmctld" } }))).await;
    assert_eq!(made.code, 201, "{made:?}");
    let nodeset = json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": { "name": "w" },
        "spec": { "controllerRef": { "name": "c" }, "replicas": 1, "slurmd": slurmd(8) },
    });
    assert_eq!(stage.create(NODESETS, &nodeset).await.code, 201);
    let nodeset = async || stage.object(NODESETS, "w").await;
    until_agreement(nodeset, "False", &["`nvidia.com/gpu: 8`", "no GresTypes", "`GresTypes=gpu`", "Controller `c`"]).await;

    let with_types = json!({ "spec": { "extraConf": "GresTypes=gpu" } });
    assert_eq!(stage.patch("controllers", "c", &with_types).await.code, 200);
    until_agreement(nodeset, "True", &["gpu:8"]).await;

    assert_eq!(stage.patch(NODESETS, "w", &json!({ "spec": { "extraConf": "Gres=gpu:8" } })).await.code, 200);
    until_agreement(nodeset, "False", &["`Gres=gpu:8`", "names no device", "AutoDetect=nvidia"]).await;

    // If gres.conf names devices, slurmd uses only what `Gres` says, so the operator passes it `Gres`.
    assert_eq!(stage.patch("controllers", "c", &json!({ "spec": { "configFileRefs": [{ "name": "files" }] } })).await.code, 200);
    until_agreement(nodeset, "True", &["gpu:8"]).await;
    assert_eq!(stage.patch(NODESETS, "w", &json!({ "spec": { "extraConf": "Weight=2" } })).await.code, 200);
    until_agreement(nodeset, "True", &["gpu:8"]).await;
    let status = format!("/apis/apps/v1/namespaces/{}/statefulsets/c-controller/status", stage.namespace);
    let up = stage.edit(&status, &json!({ "status": { "replicas": 1, "readyReplicas": 1 } })).await;
    assert_eq!(up.code, 200, "{up:?}");
    eventually("a worker that is told of its GPUs", async || {
        let pod = stage.get(&format!("/api/v1/namespaces/{}/pods/w-0", stage.namespace)).await;
        let arguments = pod["spec"]["containers"][0]["args"].to_string();
        if arguments.contains("Gres=gpu:h200:8") && arguments.contains("Weight=2") { Ok(()) } else { Err(arguments) }
    })
    .await;
}
