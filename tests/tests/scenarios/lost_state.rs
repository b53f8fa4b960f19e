//! slurmctld loses its state while a job runs: the job runs on, its pod is kept, and all goes on when the state is restored.

use slipway_tests::chapter::chapter;
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::slurm::Slurm;

/// Runs a command in the folder with slurmctld's state, which is a volume, while slurmctld is stopped, and kills it.
fn with_slurmctld_stopped(slurm: &Slurm, command: &str) {
    const SLURMCTLD: &str = "$(cat /proc/1/task/1/children)";
    let script = format!("set -e; kill -STOP {SLURMCTLD}; cd /var/spool/slurmctld/*/; {command}");
    slurm.on_controller(&["bash", "-O", "extglob", "-c", &script]).unwrap();
    // The shell may end with the container, before it can report success.
    let _ = slurm.on_controller(&["bash", "-c", &format!("kill -KILL {SLURMCTLD}")]);
}

async fn until_slurmctld_answers(slurm: &Slurm) {
    eventually("slurmctld to answer", async || slurm.on_controller(&["sinfo"]).map(drop).map_err(|failure| failure.to_string()))
        .await
        .unwrap();
}

fn is_protected(slurm: &Slurm, pod: &str) -> bool {
    slurm.pod(pod).unwrap()["metadata"]["labels"]["nodeset.slinky.slurm.net/pod-protect"] == "true"
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
        with_slurmctld_stopped(&slurm, "mkdir saved; cp -a !(saved) saved; rm -r !(saved)");
        until_slurmctld_answers(&slurm).await;
        slurm.until_condition("nodeset", WORKER, "SlurmStateLost", |lost| lost["status"] == "True").await.unwrap();
        let message = slurm.condition("nodeset", WORKER, "SlurmStateLost").unwrap()["message"].to_string();
        assert!(message.contains(&format!("such as `{busy}`")) && message.contains("slipway.dev/force-delete"), "{message}");
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
        with_slurmctld_stopped(&slurm, "rm -r !(saved); mv saved/* .; rmdir saved");
        until_slurmctld_answers(&slurm).await;
        slurm.until_job(job, "RUNNING").await.unwrap();
        slurm.until_condition("nodeset", WORKER, "SlurmStateLost", serde_json::Value::is_null).await.unwrap();
        assert_eq!(slurm.uid(&busy), before[&busy]);
        slurm.release_one(job).unwrap();
        let result = slurm.until_ended(job).await.unwrap();
        assert_eq!(result.state, "COMPLETED");
        let mut lines: Vec<&str> = result.output.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, Slurm::patient_output(1), "it ran once");
    }
    ground.end().unwrap();
}
