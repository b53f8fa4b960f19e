//! A Controller reports why its pod cannot run, in the words of the kubelet, the scheduler or slurmctld. It comes up by itself once that is fixed,
//! even if its StatefulSet alone would wait forever.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use serde_json::{Value, json};
use slipway_bed::progress::seconds;
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{CONTROLLER, Manifest};
use slipway_tests::slurm::Slurm;

const CONTROLLERS: &str = "controllers.slinky.slurm.net/slurm";
/// Starts slurmctld with a file that was not checked.
const CRASH: &str = "echo NoSuchKey=1 > /tmp/slurm.conf; exec slurmctld -D -f /tmp/slurm.conf";
const GOOD_IMAGE: &str = "localhost/slipway/slurmctld:26.05";

/// Applies a Controller alone, in a namespace of its own.
fn apply(ground: &Ground, namespace: &str, spec: &Value) -> Slurm {
    let manifest = Manifest::demo().unwrap().without("NodeSet").without("RestApi").with("Controller", &json!({ "spec": spec }));
    ground.apply(namespace, manifest).unwrap()
}

/// Waits until Ready is False for the newest generation and its message contains all of these words.
async fn until_reported(slurm: &Slurm, words: &[&str]) {
    let started = Instant::now();
    let message = eventually(&format!("the Controller in {} to say {words:?}", slurm.namespace), async || {
        match slurm.is_ready("controller", CONTROLLER) {
            Err(message) if words.iter().all(|part| message.contains(part)) => Ok(message),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    eprintln!("{}: after {}: {message}", slurm.namespace, seconds(started.elapsed()));
}

async fn until_up(slurm: &Slurm, mended: Instant) {
    eventually(&format!("slurmctld in {}", slurm.namespace), async || slurm.is_ready("controller", CONTROLLER)).await.unwrap();
    eprintln!("{}: Ready {} after it was mended", slurm.namespace, seconds(mended.elapsed()));
}

fn patch(slurm: &Slurm, resource: &str, patch: &Value) -> Instant {
    slurm.kubectl(&["patch", resource, "--type=merge", &format!("--patch={patch}")]).unwrap();
    Instant::now()
}

/// A volume for the claim that no provisioner serves.
fn volume(ground: &Ground) -> Value {
    let folder = ground.bed.layout().volumes().join(ground.unique("by-hand"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": ground.unique("by-hand") },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
            "claimRef": { "namespace": ground.namespace("claim"), "name": "statesave-slurm-controller-0" },
            "hostPath": { "path": folder },
        },
    })
}

#[tokio::test]
async fn what_keeps_slurmctld_from_running_is_told_and_it_comes_up_when_that_is_mended() {
    let ground = Ground::up("conditions", 1).await.unwrap();
    let image = apply(&ground, "image", &json!({ "slurmctld": { "image": "localhost/slipway/slurmctld:none" } }));
    let claim = apply(&ground, "claim", &json!({ "persistence": { "storageClassName": "none" } }));
    let crash = apply(&ground, "crash", &json!({ "slurmctld": { "command": ["sh", "-c", CRASH] } }));

    until_reported(&image, &["slurm-controller-0", "slurmctld:none", "Pull"]).await;
    let unbound = format!("claim `{}/statesave-slurm-controller-0` of storage class `none` is not bound", claim.namespace);
    until_reported(&claim, &["unbound", &unbound]).await;
    until_reported(&crash, &["slurm-controller-0", "CrashLoopBackOff", "it ended with code 1", "fatal"]).await;

    let mended = patch(&image, CONTROLLERS, &json!({ "spec": { "slurmctld": { "image": GOOD_IMAGE } } }));
    until_up(&image, mended).await;
    let mended = patch(&crash, CONTROLLERS, &json!({ "spec": { "slurmctld": { "command": null } } }));
    until_up(&crash, mended).await;
    ground.cluster.apply_text(&volume(&ground).to_string(), None).unwrap();
    until_up(&claim, Instant::now()).await;
    ground.end().unwrap();
}
