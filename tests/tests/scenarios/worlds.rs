//! Kubernetes and Slurm in sync: cordons and drains of Kubernetes become drains in Slurm and end with their cause, Slurm's state shows on the pods,
//! and an administrator's drain in Slurm stays throughout.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use slipway_bed::progress::seconds;
use slipway_tests::chapter::chapter;
use slipway_tests::eventually::{eventually, steadily};
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

/// Long enough for at least two reconciles.
const A_WHILE: Duration = Duration::from_secs(4);
const ADMINS: &str = "drained bad fan";
const POD_CORDON: &str = "nodeset.slinky.slurm.net/pod-cordon";
const POD_DEADLINE: &str = "nodeset.slinky.slurm.net/pod-deadline";
const POD_PROTECT: &str = "nodeset.slinky.slurm.net/pod-protect";
const CORDON_REASON: &str = "nodeset.slinky.slurm.net/node-cordon-reason";

/// Slurm node state on a pod: our conditions that are true, and our marks.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    states: Vec<String>,
    is_protected: bool,
    has_deadline: bool,
}

fn shown(slurm: &Slurm, pod: &str) -> Shown {
    let pod = slurm.pod(pod).unwrap();
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is_ours = |condition: &&Value| condition["status"] == "True";
    let states = conditions.iter().filter(is_ours).filter_map(|condition| condition["type"].as_str()?.strip_prefix("SlurmNodeState"));
    let mut states: Vec<String> = states.map(str::to_owned).collect();
    states.sort();
    let (labels, annotations) = (&pod["metadata"]["labels"], &pod["metadata"]["annotations"]);
    Shown { states, is_protected: labels[POD_PROTECT] == "true", has_deadline: annotations[POD_DEADLINE].is_string() }
}

/// Waits until a pod shows this, and prints the time since `since`.
async fn until_shown(slurm: &Slurm, pod: &str, states: &[&str], is_busy: bool, since: Instant) {
    let expected = Shown { states: states.iter().map(|state| (*state).to_owned()).collect(), is_protected: is_busy, has_deadline: is_busy };
    let took = eventually(&format!("pod {pod} to show {expected:?}"), async || {
        let found = shown(slurm, pod);
        if found == expected { Ok(since.elapsed()) } else { Err(format!("it shows {found:?}")) }
    })
    .await
    .unwrap();
    eprintln!("{pod} showed {states:?} after {}", seconds(took));
}

/// Waits until a node has this state and reason, and prints the time it took.
async fn until_node(slurm: &Slurm, node: &str, expected: &str, since: Instant) {
    slurm.until_node(node, expected).await.unwrap();
    eprintln!("{node} was `{expected}` after {}", seconds(since.elapsed()));
}

/// Cordoning a Kubernetes node drains its worker with the user's reason; the administrator's drain of the other worker stays.
async fn a_cordon_comes_and_goes(ground: &Ground, slurm: &Slurm, hosts: &[String; 2]) {
    let _chapter = chapter("a cordon comes and goes");
    ground.kubectl(&["annotate", "node", &hosts[0], &format!("{CORDON_REASON}=rack 7 is moved")]).unwrap();
    let since = Instant::now();
    ground.kubectl(&["cordon", &hosts[0], &hosts[1]]).unwrap();
    until_node(slurm, "worker-0", "draining slurm-operator: rack 7 is moved", since).await;
    until_shown(slurm, "worker-0", &["Allocated", "Drain"], true, since).await;
    let since = Instant::now();
    ground.kubectl(&["uncordon", &hosts[0], &hosts[1]]).unwrap();
    until_node(slurm, "worker-0", "allocated none", since).await;
    until_shown(slurm, "worker-0", &["Allocated"], true, since).await;
    assert_eq!(slurm.node("worker-1").unwrap(), ADMINS);

    // Without a reason from the user, ours names node and pod.
    ground.kubectl(&["annotate", "node", &hosts[0], &format!("{CORDON_REASON}-")]).unwrap();
    ground.kubectl(&["cordon", &hosts[0]]).unwrap();
    let words = eventually("worker-0 to be drained", async || match slurm.node("worker-0") {
        Ok(node) if node.starts_with("draining slurm-operator: ") => Ok(node),
        other => Err(format!("{other:?}")),
    });
    let words = words.await.unwrap();
    assert!(words.contains(&hosts[0]) && words.contains("worker-0"), "{words}");
    ground.kubectl(&["uncordon", &hosts[0]]).unwrap();
    slurm.until_node("worker-0", "allocated none").await.unwrap();
}

/// A user's own cordon of a pod stays until the user removes it, whatever else happens.
async fn a_users_cordon_stays(ground: &Ground, slurm: &Slurm, host: &str) {
    let _chapter = chapter("a user's cordon stays");
    let since = Instant::now();
    slurm.kubectl(&["annotate", "pod", "worker-0", &format!("{POD_CORDON}=true")]).unwrap();
    let cordoned = format!("draining slurm-operator: Pod ({}/worker-0) was cordoned", slurm.namespace);
    until_node(slurm, "worker-0", &cordoned, since).await;
    ground.kubectl(&["cordon", host]).unwrap();
    ground.kubectl(&["uncordon", host]).unwrap();
    steadily("the user's cordon to stay", A_WHILE, async || match slurm.node("worker-0") {
        Ok(node) if node.starts_with("draining slurm-operator: ") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    slurm.until_node("worker-0", &cordoned).await.unwrap();
    assert_eq!(slurm.pod("worker-0").unwrap()["metadata"]["annotations"][POD_CORDON], "true");
    assert_eq!(slurm.node("worker-1").unwrap(), ADMINS);
    let since = Instant::now();
    slurm.kubectl(&["annotate", "pod", "worker-0", &format!("{POD_CORDON}-")]).unwrap();
    until_node(slurm, "worker-0", "allocated none", since).await;
}

/// `kubectl drain` of a node, for its workers alone: the node also runs parts that this test needs.
fn kubectl_drain(ground: &Ground, node: &str) -> Child {
    let mut kubectl = ground.cluster.kubectl_command();
    kubectl.args([
        "drain",
        node,
        "--pod-selector=app.kubernetes.io/name=slurmd",
        "--delete-emptydir-data",
        "--ignore-daemonsets",
        "--timeout=15m",
    ]);
    kubectl.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A drain of a node waits for the job on it; then the worker moves to another node and works.
async fn a_kubernetes_drain_waits_for_the_job(ground: &Ground, slurm: &Slurm, host: &str, job: u64) {
    let _chapter = chapter("kubectl drain waits for the job");
    let uid = slurm.uid("worker-0");
    let since = Instant::now();
    let mut draining = kubectl_drain(ground, host);
    until_node(
        slurm,
        "worker-0",
        &format!("draining slurm-operator: Node ({host}) was cordoned, Pod ({}/worker-0) must be cordoned", slurm.namespace),
        since,
    )
    .await;
    steadily("the drain to wait for the job", A_WHILE + A_WHILE, async || match (draining_ended(slurm, &uid), slurm.show_job(job)) {
        (false, Ok(job)) if job.state == "RUNNING" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    assert!(draining.try_wait().unwrap().is_none(), "the drain ended before the job");
    slurm.release_one(job).unwrap();
    slurm.until_job(job, "COMPLETED").await.unwrap();
    let since = Instant::now();
    let drained = draining.wait().unwrap();
    let mut said = String::new();
    draining.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(drained.success(), "{said}");
    assert!(said.contains("disruption budget"), "the eviction was not refused while the job ran: {said}");
    eprintln!("kubectl drain ended {} after the job", seconds(since.elapsed()));
    let since = Instant::now();
    slurm.until_gone("worker-0", &uid).await.unwrap();
    until_node(slurm, "worker-0", "idle none", since).await;
    assert_ne!(slurm.host_of("worker-0").unwrap(), host, "it came back to a node that is cordoned");
    let job = slurm.submit_patient_on("worker-0").unwrap();
    slurm.until_job(job, "RUNNING").await.unwrap();
    slurm.release_one(job).unwrap();
    slurm.until_job(job, "COMPLETED").await.unwrap();
    ground.kubectl(&["uncordon", host]).unwrap();
}

/// True if this pod is terminating or gone.
fn draining_ended(slurm: &Slurm, uid: &str) -> bool {
    slurm.pod("worker-0").map_or(true, |pod| pod["metadata"]["uid"] != uid || pod["metadata"]["deletionTimestamp"].is_string())
}

#[tokio::test]
async fn cordons_drains_and_jobs_are_the_same_in_both_worlds() {
    // One more node than workers: a worker that has to move finds a free one.
    let ground = Ground::up("worlds", 3).await.unwrap();
    let slurm = ground.slurm("slurm", Manifest::demo().unwrap()).await.unwrap();
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let hosts = ["worker-0", "worker-1"].map(|pod| slurm.host_of(pod).unwrap());
    let since = Instant::now();
    until_shown(&slurm, "worker-0", &["Idle"], false, since).await;
    observer.demand(2);

    let job = slurm.submit_patient_on("worker-0").unwrap();
    observer.follow(job);
    slurm.until_job(job, "RUNNING").await.unwrap();
    until_shown(&slurm, "worker-0", &["Allocated"], true, Instant::now()).await;
    slurm.drain("worker-1", "bad fan").unwrap();
    until_shown(&slurm, "worker-1", &["Drain", "Idle"], false, Instant::now()).await;

    a_cordon_comes_and_goes(&ground, &slurm, &hosts).await;
    a_users_cordon_stays(&ground, &slurm, &hosts[0]).await;
    observer.demand(1);
    a_kubernetes_drain_waits_for_the_job(&ground, &slurm, &hosts[0], job).await;
    until_shown(&slurm, "worker-0", &["Idle"], false, Instant::now()).await;

    assert_eq!(slurm.node("worker-1").unwrap(), ADMINS, "an administrator's drain stays through all of it");
    observer.look_again().await.unwrap();
    observer.lift("worker-1");
    slurm.on_controller(&["scontrol", "update", "nodename=worker-1", "state=resume"]).unwrap();
    until_shown(&slurm, "worker-1", &["Idle"], false, Instant::now()).await;
    slurm.is_ready("nodeset", WORKER).unwrap();
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}
