//! Two slurmctld on one claim: the active one is always known, a frozen one is replaced and deleted, and jobs are not affected.

use std::time::Instant;

use serde_json::json;
use slipway_bed::progress::seconds;
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{CONTROLLER, Manifest};
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

const PODS: [&str; 2] = ["slurm-controller-0", "slurm-controller-1"];
/// Asks a slurmctld for its role: 204 active, 500 standby.
const READYZ: &str = r#"exec 3<>/dev/tcp/127.0.0.1/6817 && printf 'GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
read -r -t 3 _ code _ <&3 && echo "$code""#;

/// The pods with the label of the active slurmctld.
fn labelled(slurm: &Slurm) -> Result<Vec<String>, String> {
    slurm.pods_with("controller.slinky.slurm.net/active=true")
}

/// Waits until this pod alone is active, by its own report and by its label, and the other is standby.
async fn until_active(slurm: &Slurm, pod: &str) {
    eventually(&format!("{pod} to be in charge and the other to stand by"), async || {
        let labelled = labelled(slurm)?;
        let codes = PODS.map(|pod| slurm.on_pod(pod, "slurmctld", &["bash", "-c", READYZ]).map(|code| code.trim().to_owned()));
        let codes = codes.map(|code| code.unwrap_or_else(|failure| failure.what().to_owned()));
        let wanted = PODS.map(|other| if other == pod { "204" } else { "500" });
        if labelled == [pod] && codes == wanted { Ok(()) } else { Err(format!("the label is on {labelled:?}, they say {codes:?}")) }
    })
    .await
    .unwrap();
}

async fn jobs_are_as_they_were(observer: &Observer, running: u64, queued: u64, after: &str) {
    observer.look_again().await.unwrap();
    let state = |job| observer.job(job).map(|seen| seen.state);
    assert_eq!((state(running).as_deref(), state(queued).as_deref()), (Some("RUNNING"), Some("PENDING")), "after {after}");
    assert_eq!(observer.losses(), [], "after {after}");
}

#[tokio::test]
async fn a_frozen_slurmctld_is_replaced_and_taken_away_under_a_running_job() {
    let ground = Ground::up("failover", 2).await.unwrap();
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "state" },
        "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    let ha = json!({ "spec": {
        "ha": { "enabled": true, "backups": 1 },
        "persistence": { "enabled": true, "existingClaim": "state", "accessModes": null, "resources": null },
    }});
    let manifest = Manifest::demo().unwrap().and(claim).with("Controller", &ha).with_conf("SlurmctldTimeout=10");
    let slurm = ground.slurm("slurm", manifest).await.unwrap();
    until_active(&slurm, PODS[0]).await;
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let running = slurm.submit_patient(2).unwrap();
    observer.follow(running);
    slurm.until_job(running, "RUNNING").await.unwrap();
    let queued = slurm.submit_patient(2).unwrap();
    observer.follow(queued);
    slurm.until_saved(queued).await.unwrap();

    let frozen = slurm.uid(PODS[0]);
    let since = Instant::now();
    slurm.on_pod(PODS[0], "slurmctld", &["bash", "-c", "kill -STOP $(cat /proc/1/task/1/children)"]).unwrap();
    eventually("the label to move to the standby", async || match labelled(&slurm)? {
        pods if pods == [PODS[1]] => Ok(()),
        pods => Err(format!("it is on {pods:?}")),
    })
    .await
    .unwrap();
    let moved = since.elapsed();
    eventually("the frozen pod to be taken away", async || {
        let now = slurm.uid(PODS[0]);
        if now == frozen { Err("it is still there".to_owned()) } else { Ok(()) }
    })
    .await
    .unwrap();
    let fenced = since.elapsed();
    jobs_are_as_they_were(&observer, running, queued, "a frozen slurmctld").await;
    until_active(&slurm, PODS[0]).await;
    eprintln!(
        "frozen: standby in charge after {}, frozen pod taken away after {}, handed back after {}, longest time without an answer {}",
        seconds(moved),
        seconds(fenced),
        seconds(since.elapsed()),
        seconds(observer.outage())
    );

    let since = Instant::now();
    slurm.kubectl(&["delete", "pod", PODS[0], "--wait"]).unwrap();
    until_active(&slurm, PODS[0]).await;
    jobs_are_as_they_were(&observer, running, queued, "a deleted pod").await;
    eprintln!("pod deleted: in charge again after {}", seconds(since.elapsed()));

    let standby = slurm.uid(PODS[1]);
    slurm.kubectl(&["delete", "pod", PODS[1], "--wait"]).unwrap();
    until_active(&slurm, PODS[0]).await;
    assert_ne!(slurm.uid(PODS[1]), standby);
    jobs_are_as_they_were(&observer, running, queued, "a deleted standby").await;

    for job in [running, queued] {
        slurm.until_job(job, "RUNNING").await.unwrap();
        slurm.release(job).unwrap();
        let ended = slurm.until_ended(job).await.unwrap();
        let mut output: Vec<_> = ended.output.lines().collect();
        output.sort_unstable();
        assert_eq!(
            (ended.state.as_str(), output),
            ("COMPLETED", Slurm::patient_output(2).iter().map(String::as_str).collect()),
            "job {job}"
        );
    }
    slurm.is_ready("controller", CONTROLLER).unwrap();
    observer.verdict().await.unwrap();
    let deleted: Vec<_> = observer.operator_writes().into_iter().filter(|write| write.verb == "delete").map(|write| write.name).collect();
    assert_eq!(deleted, [PODS[0]], "one pod was frozen and one taken away");
    assert_eq!(observer.counts("slurmd").starts, 2, "no worker was started again");
    drop(observer);
    ground.end().unwrap();
}
