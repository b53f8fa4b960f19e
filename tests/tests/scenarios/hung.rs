//! A slurmd that hangs for longer than a kubelet would wait keeps its job: no probe restarts its container.

use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::slurm::Slurm;

/// Readiness probes, one every two seconds, until the pod has hung for longer than the liveness probe of former releases waited (78 s).
const FAILED_PROBES: u64 = 50;

/// Sends a signal to slurmd alone, not to the steps of jobs.
fn signal_slurmd(slurm: &Slurm, pod: &str, signal: &str) {
    let script = format!("for one in /proc/[0-9]*; do [ \"$(cat $one/comm)\" = slurmd ] && kill -{signal} ${{one#/proc/}}; done; true");
    slurm.on_worker(pod, &["bash", "-c", &script]).unwrap();
}

/// Number of failed readiness probes of a pod, as its kubelet reports them.
fn failed_probes(slurm: &Slurm, pod: &str) -> Result<u64, String> {
    let selector = format!("involvedObject.name={pod},reason=Unhealthy");
    let events =
        slurm.kubectl(&["get", "events", "--field-selector", &selector, "--output", "json"]).map_err(|failure| failure.to_string())?;
    let events: serde_json::Value = serde_json::from_str(&events).map_err(|error| error.to_string())?;
    let counts = events["items"].as_array().into_iter().flatten().filter_map(|event| event["count"].as_u64());
    Ok(counts.sum())
}

#[tokio::test]
async fn a_slurmd_that_hangs_keeps_its_job() {
    let ground = Ground::up("hung", 1).await.unwrap();
    let slurm = ground.slurm("slurm", Manifest::demo().unwrap().workers(1)).await.unwrap();
    let job = slurm.submit_patient(1).unwrap();
    slurm.until_job(job, "RUNNING").await.unwrap();
    let pod = slurm.pods().unwrap().remove(0);
    let before = failed_probes(&slurm, &pod).unwrap();
    signal_slurmd(&slurm, &pod, "STOP");
    slurm.until_not_ready("nodeset", WORKER, |why| why.contains("slurmd does not respond")).await.unwrap();
    eventually("the kubelet to find it unready again and again", async || {
        let failed = failed_probes(&slurm, &pod)?.saturating_sub(before);
        if failed >= FAILED_PROBES { Ok(()) } else { Err(format!("{failed} times so far")) }
    })
    .await
    .unwrap();
    signal_slurmd(&slurm, &pod, "CONT");
    eventually("the NodeSet to be ready", async || slurm.is_ready("nodeset", WORKER)).await.unwrap();
    let statuses = slurm.pod(&pod).unwrap()["status"]["containerStatuses"].clone();
    let restarts: Vec<_> = statuses.as_array().unwrap().iter().map(|status| status["restartCount"].clone()).collect();
    assert!(restarts.iter().all(|count| *count == 0), "{statuses}");
    slurm.release_one(job).unwrap();
    let result = slurm.until_ended(job).await.unwrap();
    assert_eq!(result.state, "COMPLETED");
    assert_eq!(result.output.lines().count(), 2, "it ran once: {}", result.output);
    ground.end().unwrap();
}
