//! A slurmd that hangs for longer than a kubelet would wait keeps its job: no probe restarts its container. Without a job its pod is replaced when
//! slurmctld has given it up.

use std::time::Duration;

use slipway_tests::eventually::{eventually, steadily};
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::slurm::Slurm;

/// Longer than the liveness probe of former releases waited: 78 s.
const LONG: Duration = Duration::from_secs(90);

/// Sends a signal to slurmd alone, not to the steps of jobs.
fn signal_slurmd(slurm: &Slurm, pod: &str, signal: &str) {
    let script = format!("for one in /proc/[0-9]*; do case $(cat $one/comm) in slurmd*) kill -{signal} ${{one#/proc/}};; esac; done");
    slurm.on_worker(pod, &["bash", "-c", &script]).unwrap();
}

fn restarts(slurm: &Slurm, pod: &str) -> Result<Vec<u64>, String> {
    let pod = slurm.pod(pod).map_err(|failure| failure.to_string())?;
    let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    Ok(statuses.iter().filter_map(|status| status["restartCount"].as_u64()).collect())
}

#[tokio::test]
async fn a_slurmd_that_hangs_keeps_its_job() {
    let ground = Ground::up("hung", 1).await.unwrap();
    let slurm = ground.slurm("slurm", Manifest::demo().unwrap().workers(1)).await.unwrap();
    let job = slurm.submit_patient(1).unwrap();
    slurm.until_job(job, "RUNNING").await.unwrap();
    let pod = slurm.pods().unwrap().remove(0);
    signal_slurmd(&slurm, &pod, "STOP");
    slurm.until_not_ready("nodeset", WORKER, |why| why.contains("slurmd does not respond")).await.unwrap();
    steadily("the job and its container", LONG, async || {
        let state = slurm.show_job(job).map_err(|failure| failure.to_string())?.state;
        let restarts = restarts(&slurm, &pod)?;
        if state == "RUNNING" && restarts.iter().all(|count| *count == 0) { Ok(()) } else { Err(format!("{state}, restarts {restarts:?}")) }
    })
    .await
    .unwrap();
    signal_slurmd(&slurm, &pod, "CONT");
    eventually("the NodeSet to be ready", async || slurm.is_ready("nodeset", WORKER)).await.unwrap();
    assert_eq!(restarts(&slurm, &pod).unwrap().iter().sum::<u64>(), 0);
    slurm.release_one(job).unwrap();
    let result = slurm.until_ended(job).await.unwrap();
    assert_eq!(result.state, "COMPLETED");
    assert_eq!(result.output.lines().count(), 2, "it ran once: {}", result.output);
    ground.end().unwrap();
}

#[tokio::test]
async fn a_slurmd_that_hangs_without_a_job_is_replaced_when_slurm_gives_it_up() {
    let ground = Ground::up("hung-idle", 1).await.unwrap();
    // Slurm's default is five minutes; the meaning is the same.
    let manifest = Manifest::demo().unwrap().workers(1).with_conf("SlurmdTimeout=30");
    let slurm = ground.slurm("slurm", manifest).await.unwrap();
    let pod = slurm.pods().unwrap().remove(0);
    let uid = slurm.uid(&pod);
    slurm.until_at_rest().await.unwrap();
    signal_slurmd(&slurm, &pod, "STOP");
    slurm.until_gone(&pod, &uid).await.unwrap();
    slurm.until_node(&pod, "idle none").await.unwrap();
    eventually("the NodeSet to be ready", async || slurm.is_ready("nodeset", WORKER)).await.unwrap();
    ground.end().unwrap();
}
