//! slurmctld loses its state while a job runs: the job runs on, its pod is kept, and all goes on when the state is restored.

use slipway_tests::chapter::chapter;
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::passes::metric;
use slipway_tests::slurm::Slurm;
use slipway_tests::soak::{lose_state, restore_state};

fn is_protected(slurm: &Slurm, pod: &str) -> bool {
    slurm.pod(pod).unwrap()["metadata"]["labels"]["nodeset.slinky.slurm.net/pod-protect"] == "true"
}

/// Waits until the metric for alerts counts this many workers. No other scenario on this bed loses jobs.
async fn until_alert(ground: &Ground, workers: f64) {
    eventually("the metric of lost jobs", async || {
        let count = metric(&ground.cluster, "slipway_workers_with_lost_jobs")?;
        if (count - workers).abs() < 0.5 { Ok(()) } else { Err(format!("it is {count}")) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_job_whose_record_is_lost_runs_on_and_is_known_again_with_the_state() {
    let ground = Ground::up("lost-state", 2).await.unwrap();
    let slurm = ground.slurm("slurm", Manifest::demo().unwrap()).await.unwrap();
    let job = slurm.submit_patient(1).unwrap();
    slurm.until_job(job, "RUNNING").await.unwrap();
    slurm.until_saved(job).await.unwrap();
    let busy = slurm.busy().unwrap().remove(0);
    let before = slurm.uids().unwrap();
    let idle = before.keys().find(|pod| **pod != busy).unwrap().clone();
    eventually("the busy pod to be protected", async || if is_protected(&slurm, &busy) { Ok(()) } else { Err(slurm.nodes()) })
        .await
        .unwrap();

    {
        let _chapter = chapter("the state is lost");
        lose_state(&slurm).await.unwrap();
        slurm.until_condition("nodeset", WORKER, "SlurmStateLost", |lost| lost["status"] == "True").await.unwrap();
        let message = slurm.condition("nodeset", WORKER, "SlurmStateLost").unwrap()["message"].to_string();
        assert!(message.contains(&format!("such as `{busy}`")) && message.contains("slipway.dev/force-delete"), "{message}");
        until_alert(&ground, 1.0).await;
        // The other worker ran nothing. It is replaced and registers.
        eventually("the idle worker to be replaced and to register", async || {
            let is_new = slurm.uid(&idle) != before[&idle];
            let node = slurm.node(&idle).map_err(|failure| failure.to_string())?;
            if is_new && node.starts_with("idle") { Ok(()) } else { Err(format!("it is new: {is_new}; `{node}`; {}", slurm.nodes())) }
        })
        .await
        .unwrap();
        assert_eq!(slurm.uid(&busy), before[&busy]);
        assert!(is_protected(&slurm, &busy));
    }
    {
        let _chapter = chapter("the state is restored");
        restore_state(&slurm).await.unwrap();
        slurm.until_job(job, "RUNNING").await.unwrap();
        slurm.until_condition("nodeset", WORKER, "SlurmStateLost", serde_json::Value::is_null).await.unwrap();
        until_alert(&ground, 0.0).await;
        assert_eq!(slurm.uid(&busy), before[&busy]);
        slurm.release_one(job).unwrap();
        let result = slurm.until_ended(job).await.unwrap();
        assert_eq!(result.state, "COMPLETED");
        let mut lines: Vec<&str> = result.output.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, Slurm::patient_output(1), "it ran once");
        // The restored record of the worker that was replaced has the address of its former pod.
        slurm.until_node(&idle, "idle none").await.unwrap();
        eventually("the NodeSet to be ready", async || slurm.is_ready("nodeset", WORKER)).await.unwrap();
        assert_eq!(slurm.uid(&busy), before[&busy]);
    }
    ground.end().unwrap();
}
