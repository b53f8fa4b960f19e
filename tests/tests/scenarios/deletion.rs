//! Everything is deleted, in every way that Kubernetes has: the deletion ends, nothing is recreated meanwhile, and a new cluster of the same name
//! works.

use std::time::Instant;

use slipway_bed::progress::{Progress, seconds};
use slipway_tests::audit::Audit;
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::Manifest;
use slipway_tests::slurm::{OPERATOR_USER, Slurm};

const OURS: &str = "controllers.slinky.slurm.net,restapis.slinky.slurm.net,nodesets.slinky.slurm.net";
const MADE: &str = "statefulsets,deployments,replicasets,pods,services,configmaps,poddisruptionbudgets,endpointslices";
/// Objects in the namespace that are not ours.
const USERS: [&str; 2] = ["configmap/kube-root-ca.crt", "configmap/slurm-files"];

/// Objects that we created and that still exist.
fn left(slurm: &Slurm) -> Vec<String> {
    let names = slurm.kubectl(&["get", MADE, "--output=name"]).unwrap();
    names.lines().map(str::to_owned).filter(|name| !USERS.contains(&name.as_str())).collect()
}

/// UIDs of the workers' pods.
fn workers(slurm: &Slurm) -> Vec<String> {
    slurm.pods().unwrap().iter().map(|pod| slurm.uid(pod)).collect()
}

/// Writes of the operator, without status, events and patches of NodeSets, which remove finalizers.
fn acts(audit: &Audit) -> Vec<String> {
    let writes =
        audit.acts_of(OPERATOR_USER).into_iter().filter(|write| (write.verb.as_str(), write.resource.as_str()) != ("patch", "nodesets"));
    writes.map(|write| format!("{} {} {} ({})", write.verb, write.resource, write.name, write.code)).collect()
}

async fn until_nothing_is_left(slurm: &Slurm) {
    eventually("nothing of ours to be left", async || match left(slurm) {
        left if left.is_empty() => Ok(()),
        left => Err(left.join(" ")),
    })
    .await
    .unwrap();
}

/// Deletes all our resources and returns an audit that starts before the deletion.
fn delete(ground: &Ground, slurm: &Slurm, cascade: &str) -> Audit {
    let audit = ground.audit();
    slurm.kubectl(&["delete", OURS, "--all", &format!("--cascade={cascade}"), "--wait", "--timeout=10m"]).unwrap();
    audit
}

/// Applies the same manifest again: Slurm comes up and knows a job from before the deletion.
async fn second_life(ground: &Ground, slurm: &Slurm, former_job: u64) -> u64 {
    ground.cluster.apply_text(&slurm.manifest.text(), Some(&slurm.namespace)).unwrap();
    slurm.until_ready(Progress::Quiet).await.unwrap();
    assert_eq!(slurm.show_job(former_job).unwrap().state, "COMPLETED", "the table of jobs is on the claim, which stayed");
    let job = slurm.run_shown_job(2).await.unwrap();
    assert!(job > former_job, "{job}");
    job
}

/// An idle cluster that has run a job.
async fn cluster(ground: &Ground) -> (Slurm, u64) {
    let slurm = ground.slurm("slurm", Manifest::demo().unwrap()).await.unwrap();
    ground.garbage_collector_knows_our_kinds(&slurm).unwrap();
    let job = slurm.run_shown_job(2).await.unwrap();
    (slurm, job)
}

async fn everything_is_deleted_and_made_again(name: &str, cascade: &str) {
    let ground = Ground::up(name, 2).await.unwrap();
    let (slurm, job) = cluster(&ground).await;
    let started = Instant::now();
    let audit = delete(&ground, &slurm, cascade);
    until_nothing_is_left(&slurm).await;
    // Where no slurmctld is left, the operator deletes the workers that show no job, before it releases their NodeSet.
    let acts: Vec<String> = acts(&audit).into_iter().filter(|act| !act.starts_with("delete pods worker-")).collect();
    assert_eq!(acts, Vec::<String>::new(), "the operator acted while everything was deleted ({cascade})");
    let gone = started.elapsed();
    second_life(&ground, &slurm, job).await;
    eprintln!("{cascade}: gone in {}, back and a job done after {}", seconds(gone), seconds(started.elapsed()));
    ground.end().unwrap();
}

#[tokio::test]
async fn everything_can_be_deleted_in_the_background_and_made_again() {
    everything_is_deleted_and_made_again("background", "background").await;
}

#[tokio::test]
async fn everything_can_be_deleted_in_the_foreground_and_made_again() {
    everything_is_deleted_and_made_again("foreground", "foreground").await;
}

#[tokio::test]
async fn what_is_orphaned_is_adopted_as_it_is_and_goes_with_its_namespace() {
    let ground = Ground::up("orphans", 2).await.unwrap();
    let (slurm, job) = cluster(&ground).await;
    let (before, orphans) = (left(&slurm), workers(&slurm));
    let audit = delete(&ground, &slurm, "orphan");
    assert_eq!(left(&slurm), before, "what was orphaned stays as it is");
    assert_eq!(acts(&audit), Vec::<String>::new(), "the operator acted on what it does not own any more");
    second_life(&ground, &slurm, job).await;
    assert_eq!(left(&slurm), before, "all were adopted: none was recreated");
    assert_eq!(workers(&slurm), orphans, "workers keep their pods, and with them their jobs");

    let started = Instant::now();
    let audit = ground.audit();
    ground.kubectl(&["delete", "namespace", &slurm.namespace, "--wait", "--timeout=10m"]).unwrap();
    let made: Vec<_> = acts(&audit).into_iter().filter(|act| act.starts_with("create") && act.ends_with("(201)")).collect();
    assert_eq!(made, Vec::<String>::new(), "the operator made something in a namespace that goes");
    eprintln!("namespace gone in {}", seconds(started.elapsed()));
    ground.end().unwrap();
}
