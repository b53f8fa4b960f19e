//! A NodeSet is deleted while jobs run in it, wait in it and name it: no job is lost, slurmctld survives a kill at every stage, and nothing is left.

use std::time::Instant;

use serde_json::json;
use slipway_bed::progress::seconds;
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::Manifest;
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

const LEAVING: &str = "batch";
/// A user's own partition, with the nodes of both NodeSets.
const POOL: &str = "PartitionName=pool Nodes=worker,batch MaxTime=UNLIMITED State=UP\n";
const PATIENT: &str = "until [ -e /tmp/release-$SLURM_JOB_ID ]; do sleep 0.5; done";

/// Submits a job with these options that runs until it is released.
fn submit(slurm: &Slurm, options: &[&str]) -> u64 {
    let wrapped = format!("--wrap={PATIENT}");
    let mut command = vec!["sbatch", "--parsable", "--chdir=/tmp", "--exclusive", "--nodes=1", wrapped.as_str()];
    command.extend(options);
    slurm.on_controller(&command).unwrap().trim().parse().unwrap()
}

/// Sets the Controller's `extraConf`.
fn set_extra(slurm: &Slurm, extra: &str) {
    let patch = json!({ "spec": { "extraConf": extra } }).to_string();
    slurm.kubectl(&["patch", "controllers.slinky.slurm.net/slurm", "--type=merge", "--patch", &patch]).unwrap();
}

/// Waits until slurmctld has the partition.
async fn until_partition(slurm: &Slurm, partition: &str) {
    eventually(&format!("partition {partition}"), async || {
        slurm.on_controller(&["scontrol", "show", "partition", partition]).map(drop).map_err(|failure| failure.to_string())
    })
    .await
    .unwrap();
}

/// Waits until one element of an array runs, and returns its own job ID.
async fn until_element(slurm: &Slurm, array: u64) -> u64 {
    eventually(&format!("an element of array {array} to run"), async || {
        let job = format!("--jobs={array}");
        let command = ["squeue", "--noheader", "--states=RUNNING", "--format=%A", job.as_str()];
        let running = slurm.on_controller(&command).map_err(|failure| failure.to_string())?;
        running.trim().parse().map_err(|_| format!("squeue says `{running}`"))
    })
    .await
    .unwrap()
}

/// Runs a Slurm command until it succeeds: right after its start slurmctld refuses it for a moment.
async fn run(slurm: &Slurm, command: &[&str]) {
    eventually(&format!("{command:?}"), async || slurm.on_controller(command).map_err(|failure| failure.to_string())).await.unwrap();
}

fn message(slurm: &Slurm) -> String {
    slurm.is_ready("nodeset", LEAVING).err().unwrap_or_default()
}

async fn until_reported(slurm: &Slurm, words: &str) {
    slurm.until_not_ready("nodeset", LEAVING, |why| why.contains(words)).await.unwrap();
}

#[tokio::test]
async fn a_node_set_is_deleted_and_no_job_is_lost() {
    let ground = Ground::up("nodeset-deletion", 2).await.unwrap();
    let demo = Manifest::demo().unwrap().with("NodeSet", &json!({ "spec": { "oversubscribeNode": true } }));
    let slurm = ground.slurm("slurm", demo).await.unwrap();
    let other = slurm.resource("nodeset", "worker").unwrap();
    let leaving = json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": { "name": LEAVING, "namespace": slurm.namespace },
        "spec": {
            "controllerRef": other["spec"]["controllerRef"], "replicas": 2, "oversubscribeNode": true, "slurmd": other["spec"]["slurmd"],
            "partition": { "enabled": true, "config": "State=UP MaxTime=UNLIMITED" },
            "template": other["spec"]["template"],
        },
    });
    ground.cluster.apply_text(&leaving.to_string(), Some(&slurm.namespace)).unwrap();
    eventually("the second NodeSet to be ready", async || slurm.is_ready("nodeset", LEAVING)).await.unwrap();
    until_partition(&slurm, LEAVING).await;
    let extra = slurm.resource("controller", "slurm").unwrap()["spec"]["extraConf"].as_str().unwrap().to_owned();
    set_extra(&slurm, &format!("{extra}{POOL}"));
    until_partition(&slurm, "pool").await;

    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let in_it = format!("--partition={LEAVING}");
    let just_ended = submit(&slurm, &[&in_it, "--nodelist=batch-0"]);
    slurm.until_job(just_ended, "RUNNING").await.unwrap();
    // One job came through the partition that both NodeSets share, the other is an element of an array.
    let shared = submit(&slurm, &["--partition=pool", "--nodelist=batch-1"]);
    slurm.until_job(shared, "RUNNING").await.unwrap();
    slurm.release_one(just_ended).unwrap();
    slurm.until_job(just_ended, "COMPLETED").await.unwrap();
    let pending = submit(&slurm, &[&in_it, "--array=0-2"]);
    let running = [until_element(&slurm, pending).await, shared];
    for job in running {
        observer.follow(job);
    }
    let held = submit(&slurm, &[&in_it, "--hold"]);
    let either = submit(&slurm, &[&format!("--partition={LEAVING},worker"), "--begin=now+1hour"]);
    for job in [pending, held, either] {
        observer.follow(job);
    }
    slurm.until_saved(either).await.unwrap();

    let since = Instant::now();
    slurm.kubectl(&["delete", "nodesets.slinky.slurm.net", LEAVING, "--wait=false"]).unwrap();
    until_reported(&slurm, "jobs are running there").await;
    eventually("the partition to take no new job", async || {
        let shown = slurm.on_controller(&["scontrol", "show", "partition", LEAVING]).map_err(|failure| failure.to_string())?;
        if shown.contains("State=DRAIN") { Ok(()) } else { Err(shown) }
    })
    .await
    .unwrap();
    eprintln!("the partition was closed {} after the deletion", seconds(since.elapsed()));
    slurm.kill_slurmctld().await.unwrap();
    observer.look_again().await.unwrap();
    assert_eq!(observer.losses(), []);

    // One job ends, then the other: their workers are deleted, and the message names the pending jobs.
    for job in running {
        slurm.release_one(job).unwrap();
        slurm.until_job(job, "COMPLETED").await.unwrap();
        slurm.until_saved(held).await.unwrap(); // everything before it is saved with it
        slurm.kill_slurmctld().await.unwrap();
    }
    until_reported(&slurm, "still name partition `batch`").await;
    let words = message(&slurm);
    for job in [pending, held, either] {
        assert!(words.contains(&job.to_string()), "job {job} is not named: {words}");
    }
    let waits_elsewhere = submit(&slurm, &["--partition=pool", "--begin=now+1hour"]);
    observer.follow(waits_elsewhere);
    slurm.until_saved(waits_elsewhere).await.unwrap();
    slurm.kill_slurmctld().await.unwrap();
    observer.look_again().await.unwrap();
    assert_eq!(observer.losses(), []);

    // Users decide about the pending jobs: one is moved, the others are cancelled.
    run(&slurm, &["scontrol", "update", &format!("jobid={either}"), "partition=worker"]).await;
    for job in [pending, held] {
        observer.excuse(job);
        run(&slurm, &["scancel", &job.to_string()]).await;
    }
    // slurmctld does not save when a pending job is cancelled: if killed now, it would restore the job.
    slurm.until_saved(either).await.unwrap();
    let since = Instant::now();
    eventually("the NodeSet to be gone", async || match slurm.resource("nodeset", LEAVING) {
        Err(_) => Ok(()),
        Ok(_) => Err(message(&slurm)),
    })
    .await
    .unwrap();
    eprintln!("it was gone {} after its last job", seconds(since.elapsed()));
    // The user's own line still names the NodeSet. Without the NodeSet's line slurmctld would not start again, so both stay until the user changes
    // it.
    eventually("the Controller to say what still names it", async || match slurm.is_ready("controller", "slurm") {
        Err(words) if words.contains("pool") && words.contains(LEAVING) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    slurm.kill_slurmctld().await.unwrap();
    until_partition(&slurm, "pool").await;
    set_extra(&slurm, &format!("{extra}{}", POOL.replace(",batch", "")));
    // slurmctld may be restarting to drop the lines. If killed before it saves, it would restore the nodes from its last save.
    eventually("slurmctld to save", async || slurm.until_saved(either).await.map_err(|failure| failure.to_string())).await.unwrap();
    slurm.kill_slurmctld().await.unwrap();
    eventually("its partition and its records to be gone", async || {
        let partitions = slurm.on_controller(&["sinfo", "--noheader", "--format=%R"]).map_err(|failure| failure.to_string())?;
        let nodes = slurm.on_controller(&["scontrol", "show", "nodes", "--oneliner"]).map_err(|failure| failure.to_string())?;
        let is_left = partitions.contains(LEAVING) || nodes.contains(&format!("NodeName={LEAVING}-"));
        let controller = slurm.resource("controller", "slurm")?;
        let jobs = slurm.on_controller(&["squeue", "--states=all", "--format=%i %P %T %r"]).map_err(|failure| failure.to_string())?;
        if is_left { Err(format!("{partitions}{nodes}{jobs}{}", controller["status"]["conditions"])) } else { Ok(()) }
    })
    .await
    .unwrap();
    eventually("the Controller to be ready", async || slurm.is_ready("controller", "slurm")).await.unwrap();
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}
