//! Topology and features of Kubernetes nodes become those of the Slurm nodes, as `scontrol`, jobs and partitions see them. An invalid value does no
//! harm.

use std::time::{Duration, Instant};

use serde_json::json;
use slipway_bed::progress::seconds;
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

const TOPOLOGY: &str = "topology.slinky.slurm.net/spec";
const FEATURES: &str = "features.slinky.slurm.net/spec";
/// Two switches and a block that nodes may join.
const TOPOLOGIES: &str = r#"
- topology: tree
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: s[1-2]
      - switch: s1
        nodes: ""
      - switch: s2
        nodes: ""
- topology: rows
  cluster_default: false
  block:
    block_sizes: [1]
    blocks:
      - block: b1
        nodes: ""
"#;
/// A partition of the nodes with a feature.
const BY_FEATURE: &str = "NodeSet=fast Feature=k8s/gpu\nPartitionName=fast Nodes=fast State=UP\n";

fn manifest() -> Manifest {
    let extra = format!(
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
         MpiDefault=none\nMailProg=/bin/true\nReturnToService=2\n{BY_FEATURE}"
    );
    Manifest::demo()
        .unwrap()
        .workers(1)
        .with("ConfigMap", &json!({ "data": { "topology.yaml": TOPOLOGIES } }))
        .with("Controller", &json!({ "spec": { "extraConf": extra } }))
}

/// Annotates a Kubernetes node; `-` at the end of a word removes the annotation.
fn annotate(ground: &Ground, host: &str, words: &[&str]) {
    let command = ["annotate", "--overwrite", "node", host];
    ground.kubectl(&command.iter().chain(words).copied().collect::<Vec<_>>()).unwrap();
}

/// A field of `scontrol show node`.
fn field(slurm: &Slurm, node: &str, name: &str) -> Result<String, String> {
    let shown = slurm.on_controller(&["scontrol", "--oneliner", "show", "node", node]).map_err(|failure| failure.to_string())?;
    let found = shown.split_whitespace().find_map(|word| word.strip_prefix(&format!("{name}=")));
    Ok(found.unwrap_or_default().to_owned())
}

/// Waits until a node has this topology and these features, all of them active; returns the time it took.
async fn until_set(slurm: &Slurm, node: &str, topology: &str, features: &str) -> Duration {
    let since = Instant::now();
    eventually(&format!("{node} at `{topology}` with `{features}`"), async || {
        let found = [field(slurm, node, "Topology")?, field(slurm, node, "AvailableFeatures")?, field(slurm, node, "ActiveFeatures")?];
        if found == [topology, features, features] { Ok(()) } else { Err(format!("{found:?}; {:?}", said(slurm))) }
    })
    .await
    .unwrap();
    since.elapsed()
}

/// Status and message of the `NodeAnnotationsApplied` condition.
fn said(slurm: &Slurm) -> Option<(String, String)> {
    let nodeset = slurm.resource("nodeset", WORKER).ok()?;
    let condition = nodeset["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == "NodeAnnotationsApplied")?.clone();
    Some((condition["status"].as_str()?.to_owned(), condition["message"].as_str()?.to_owned()))
}

async fn until_reported(slurm: &Slurm, status: &str, words: &[&str]) {
    eventually(&format!("the condition to be {status}"), async || match said(slurm) {
        Some((found, message)) if found == status && words.iter().all(|word| message.contains(word)) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
}

/// Waits until exactly these nodes are in the partition; returns the time it took.
async fn until_members(slurm: &Slurm, partition: &str, expected: &[&str]) -> Duration {
    let since = Instant::now();
    eventually(&format!("{expected:?} in {partition}"), async || {
        let shown = slurm.on_controller(&["sinfo", "--noheader", "--Node", "--partition", partition, "--format=%N"]);
        let shown = shown.map_err(|failure| failure.to_string())?;
        let found: Vec<&str> = shown.split_whitespace().collect();
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
    .unwrap();
    since.elapsed()
}

#[tokio::test]
async fn what_kubernetes_nodes_say_of_their_place_is_so_in_slurm() {
    let ground = Ground::up("node-attributes", 2).await.unwrap();
    let slurm = ground.slurm("slurm", manifest()).await.unwrap();
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let host = slurm.host_of("worker-0").unwrap();
    let other = ground.nodes().into_iter().find(|node| *node != host).unwrap();
    let job = slurm.submit_patient_on("worker-0").unwrap();
    observer.follow(job);
    slurm.until_job(job, "RUNNING").await.unwrap();

    // While a job runs.
    annotate(&ground, &host, &[&format!("{TOPOLOGY}=tree:s1,rows:b1"), &format!("{FEATURES}=gpu, zone=a")]);
    let took = until_set(&slurm, "worker-0", "tree:s1,rows:b1", "worker,k8s/gpu,k8s/zone=a").await;
    eprintln!("topology and features were in Slurm after {}", seconds(took));
    until_reported(&slurm, "True", &[]).await;
    let tree = slurm.on_controller(&["scontrol", "show", "topology"]).unwrap();
    let line = tree.lines().find(|line| line.contains("SwitchName=s1")).unwrap_or(&tree);
    assert!(line.contains("worker-0"), "{tree}");
    let took = until_members(&slurm, "fast", &["worker-0"]).await;
    eprintln!("the node was in the partition of its feature {} later", seconds(took));
    assert_eq!(slurm.show_job(job).unwrap().state, "RUNNING");

    // A new worker has them from the start.
    annotate(&ground, &other, &[&format!("{TOPOLOGY}=tree:s2"), &format!("{FEATURES}=gpu")]);
    slurm.scale(2).unwrap();
    until_set(&slurm, "worker-1", "tree:s2", "worker,k8s/gpu").await;
    until_members(&slurm, "fast", &["worker-0", "worker-1"]).await;
    let second = slurm.submit_patient_on("worker-1").unwrap();
    observer.follow(second);
    slurm.until_job(second, "RUNNING").await.unwrap();

    // An invalid value is reported and changes nothing, whether we detect it or only Slurm does.
    annotate(&ground, &other, &[&format!("{FEATURES}=gpu&ib")]);
    until_reported(&slurm, "False", &["worker-1", FEATURES, "gpu&ib"]).await;
    annotate(&ground, &other, &[&format!("{FEATURES}=gpu"), &format!("{TOPOLOGY}=tree:nosuch")]);
    until_reported(&slurm, "False", &["worker-1", "tree:nosuch", "2178"]).await;
    until_set(&slurm, "worker-1", "tree:s2", "worker,k8s/gpu").await;
    assert_eq!(slurm.is_ready("nodeset", WORKER), Ok(()));
    annotate(&ground, &other, &[&format!("{TOPOLOGY}=tree:s1")]);
    until_set(&slurm, "worker-1", "tree:s1", "worker,k8s/gpu").await;
    until_reported(&slurm, "True", &[]).await;

    // Without the annotations the feature is removed, the node leaves the partition while its job runs on, and its topology stays.
    annotate(&ground, &host, &[&format!("{TOPOLOGY}-"), &format!("{FEATURES}-")]);
    until_set(&slurm, "worker-0", "tree:s1,rows:b1", "worker").await;
    until_members(&slurm, "fast", &["worker-1"]).await;
    for job in [job, second] {
        slurm.release_one(job).unwrap();
        slurm.until_job(job, "COMPLETED").await.unwrap();
    }

    // A recreated pod has the topology of its node.
    let uid = slurm.uid("worker-1");
    slurm.kubectl(&["delete", "pod", "worker-1"]).unwrap();
    slurm.until_gone("worker-1", &uid).await.unwrap();
    slurm.until_node("worker-1", "idle none").await.unwrap();
    until_set(&slurm, "worker-1", "tree:s1", "worker,k8s/gpu").await;
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}
