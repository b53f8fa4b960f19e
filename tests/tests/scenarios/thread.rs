//! The whole path on real parts: manifests that a user would write, the operator as a pod, real daemons, a real job.

use std::time::Instant;

use serde_json::Value;
use slipway_bed::progress::seconds;
use slipway_tests::chapter::chapter;
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{CONTROLLER, Manifest, WORKER};
use slipway_tests::passes::passes;
use slipway_tests::slurm::{OPERATOR_USER, Slurm, restart_operator};

#[tokio::test]
async fn a_user_applies_manifests_and_runs_a_job_on_two_nodes() {
    let started = Instant::now();
    let ground = Ground::alone("thread", 2).await.unwrap();
    let ground_time = started.elapsed();
    let started = Instant::now();
    let slurm = ground.slurm("slurm", Manifest::demo().unwrap()).await.unwrap();
    let slurm_time = started.elapsed();

    let job = slurm.run_job(2, "srun --label hostname").await.unwrap();
    assert_eq!(job.state, "COMPLETED", "{job:?}");
    let mut hosts: Vec<_> = job.output.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["worker-0", "worker-1"], "{}", job.output);

    slurm.run_shown_job(2).await.unwrap();
    a_pass_over_an_unchanged_world_writes_nothing(&ground, &slurm).await;
    an_edited_child_is_repaired(&slurm).await;
    a_scale_in_that_cannot_be_judged_removes_nothing(&slurm).await;

    let memory = ground.bed.memory().unwrap_or_default() >> 20;
    let started = Instant::now();
    ground.end().unwrap();
    eprintln!(
        "bed of 2 nodes and operator up in {}, Slurm ready in {}, {memory} MiB, down in {}",
        seconds(ground_time),
        seconds(slurm_time),
        seconds(started.elapsed())
    );
}

/// A restarted operator has no memory of its writes, so its first reconcile of each object is the hardest one to do without a write.
async fn a_pass_over_an_unchanged_world_writes_nothing(ground: &Ground, slurm: &Slurm) {
    let _chapter = chapter("a pass over an unchanged world writes nothing");
    // Settled: every report about the last change is written.
    eventually("the Controller to say that its configuration runs everywhere", async || {
        let object = slurm.resource("controller", CONTROLLER)?;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let applied = conditions.into_iter().find(|condition| condition["type"] == "ConfigurationApplied").unwrap_or_default();
        if applied["status"] == "True" { Ok(()) } else { Err(applied.to_string()) }
    })
    .await
    .unwrap();
    let audit = ground.audit();
    restart_operator(&ground.cluster).unwrap();
    eventually("a pass of the new operator over each kind", async || {
        let passes = passes(&ground.cluster)?;
        if passes.len() == 3 && passes.values().all(|count| *count >= 1.0) { Ok(()) } else { Err(format!("passes so far: {passes:?}")) }
    })
    .await
    .unwrap();
    let writes = audit.writes_of(OPERATOR_USER);
    assert!(writes.is_empty(), "the operator wrote although nothing had changed: {writes:?}");
}

async fn an_edited_child_is_repaired(slurm: &Slurm) {
    let _chapter = chapter("an edited child is repaired");
    let service = ["service", "slurm-restapi"];
    let wrong = r#"{"spec":{"selector":{"app.kubernetes.io/name":"nobody"}}}"#;
    slurm.kubectl(&["patch", "--patch", wrong, service[0], service[1]]).unwrap();
    eventually("the operator to put the selector right", async || {
        let text = slurm.kubectl(&["get", "--output=json", service[0], service[1]]).map_err(|failure| failure.to_string())?;
        let service: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let selector = &service["spec"]["selector"]["app.kubernetes.io/name"];
        if selector == "slurmrestd" { Ok(()) } else { Err(format!("it is {selector}")) }
    })
    .await
    .unwrap();
}

/// Without a RestApi Slurm cannot be queried.
async fn a_scale_in_that_cannot_be_judged_removes_nothing(slurm: &Slurm) {
    let _chapter = chapter("a scale-in that cannot be judged removes nothing");
    slurm.kubectl(&["delete", "restapis.slinky.slurm.net/slurm", "--wait"]).unwrap();
    let before = slurm.uids().unwrap();
    slurm.scale(1).unwrap();
    eventually("the NodeSet to say why it does not shrink", async || {
        let object = slurm.resource("nodeset", WORKER)?;
        if object["status"]["observedGeneration"] != object["metadata"]["generation"] {
            return Err("it has not seen the change yet".to_owned());
        }
        let conditions = object["status"]["conditions"].to_string();
        if conditions.contains("Slurm") && conditions.contains("cannot tell whether that would kill jobs") {
            Ok(())
        } else {
            Err(conditions)
        }
    })
    .await
    .unwrap();
    assert_eq!(before, slurm.uids().unwrap(), "a worker was removed although Slurm could not be asked");
}
