//! A restarted operator finds the cluster as the last process left it: it writes nothing, replaces no worker, makes slurmctld read nothing, and keeps
//! what a user requested.

use std::time::Duration;

use serde_json::json;
use slipway_tests::chapter::chapter;
use slipway_tests::eventually::{eventually, steadily};
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{CONTROLLER, Manifest, WORKER};
use slipway_tests::observer::Observer;
use slipway_tests::passes::passes;
use slipway_tests::slurm::{OPERATOR_USER, Slurm, restart_operator};

/// Long enough for at least two reconciles.
const A_WHILE: Duration = Duration::from_secs(5);
const POD_CORDON: &str = "nodeset.slinky.slurm.net/pod-cordon";

/// Makes edits that mean nothing to Slurm, among them what `kubectl apply` leaves on a resource and what only a chart changes.
fn edit_without_meaning(slurm: &Slurm) {
    let controller = format!("controllers.slinky.slurm.net/{CONTROLLER}");
    let edits = [
        (controller.as_str(), "kubectl.kubernetes.io/last-applied-configuration={}"),
        ("configmap/slurm-files", "example.org/seen=yes"),
        ("secret/slurm-keys", "example.org/seen=yes"),
    ];
    for (resource, annotation) in edits {
        slurm.kubectl(&["annotate", resource, annotation]).unwrap();
    }
    let chart = json!({ "spec": { "template": { "metadata": { "labels": { "helm.sh/chart": "slurm-9.9.9" } } } } });
    slurm.kubectl(&["patch", "nodesets.slinky.slurm.net", WORKER, "--type=merge", "--patch", &chart.to_string()]).unwrap();
}

/// Waits until the operator has written nothing for a while.
async fn until_quiet(ground: &Ground) {
    eventually("the operator to be quiet", async || {
        let audit = ground.audit();
        tokio::time::sleep(A_WHILE).await;
        let writes = audit.writes_of(OPERATOR_USER);
        if writes.is_empty() { Ok(()) } else { Err(format!("{writes:?}")) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_restarted_operator_writes_nothing_replaces_nobody_and_keeps_a_users_cordon() {
    let ground = Ground::alone("restart", 2).await.unwrap();
    let manifest = Manifest::demo().unwrap().with("Controller", &json!({ "spec": { "inplaceReconfigure": true } }));
    let slurm = ground.slurm("slurm", manifest).await.unwrap();
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let job = slurm.submit_patient_on("worker-0").unwrap();
    observer.follow(job);
    slurm.until_job(job, "RUNNING").await.unwrap();
    slurm.kubectl(&["annotate", "pod", "worker-0", &format!("{POD_CORDON}=true")]).unwrap();
    let cordoned = format!("draining slurm-operator: Pod ({}/worker-0) was cordoned", slurm.namespace);
    slurm.until_node("worker-0", &cordoned).await.unwrap();
    until_quiet(&ground).await;
    let (before, counts) = (slurm.uids().unwrap(), observer.counts("slurmctld"));

    let edits = chapter("edits without meaning replace nobody, and slurmctld reads nothing");
    edit_without_meaning(&slurm);
    eventually("the NodeSet to have seen the edit", async || {
        let object = slurm.resource("nodeset", WORKER)?;
        let is_seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        if is_seen { Ok(()) } else { Err(object["status"].to_string()) }
    })
    .await
    .unwrap();
    until_quiet(&ground).await;
    drop(edits);

    let restart = chapter("a new process writes nothing");
    let audit = ground.audit();
    restart_operator(&ground.cluster).unwrap();
    eventually("the new operator to look at everything, at the Controller a few times", async || {
        let passes = passes(&ground.cluster)?;
        let looked = |kind: &str, times: f64| passes.get(kind).is_some_and(|count| *count >= times);
        let has_looked = looked("controller", 3.0) && looked("restapi", 1.0) && looked("nodeset", 1.0);
        if has_looked { Ok(()) } else { Err(format!("passes so far: {passes:?}")) }
    })
    .await
    .unwrap();
    steadily("nobody to be replaced", A_WHILE, async || {
        let now = slurm.uids().map_err(|failure| failure.to_string())?;
        if now == before { Ok(()) } else { Err(format!("{before:?} became {now:?}")) }
    })
    .await
    .unwrap();
    let writes = audit.writes_of(OPERATOR_USER);
    assert!(writes.is_empty(), "the operator wrote although nothing had changed: {writes:?}");
    assert_eq!(observer.counts("slurmctld"), counts, "nothing changed, and slurmctld heard of it");
    drop(restart);

    let _cordon = chapter("the user's cordon stays, whatever else comes and goes");
    assert_eq!(slurm.node("worker-0").unwrap(), cordoned);
    let host = slurm.host_of("worker-0").unwrap();
    ground.kubectl(&["cordon", &host]).unwrap();
    ground.kubectl(&["uncordon", &host]).unwrap();
    steadily("the user's cordon to stay", A_WHILE, async || match slurm.node("worker-0") {
        Ok(node) if node.starts_with("draining slurm-operator: ") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    slurm.until_node("worker-0", &cordoned).await.unwrap();
    assert_eq!(slurm.pod("worker-0").unwrap()["metadata"]["annotations"][POD_CORDON], "true");
    slurm.kubectl(&["annotate", "pod", "worker-0", &format!("{POD_CORDON}-")]).unwrap();
    slurm.until_node("worker-0", "allocated none").await.unwrap();
    slurm.release_one(job).unwrap();
    slurm.until_job(job, "COMPLETED").await.unwrap();
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}
