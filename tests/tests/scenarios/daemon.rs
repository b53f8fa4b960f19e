//! One worker on each matching Kubernetes node: it is created and deleted with the node, its labels and its taints, and no job is lost.

use std::time::{Duration, Instant};

use serde_json::json;
use slipway_bed::progress::seconds;
use slipway_tests::chapter::chapter;
use slipway_tests::eventually::{eventually, steadily};
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

/// Long enough for at least two reconciles.
const A_WHILE: Duration = Duration::from_secs(5);
/// Label that a node needs to get a worker.
const LABEL: &str = "example.org/slurm";
/// Slurm node name of the worker on the second node, from the node's annotation.
const SECOND: &str = "gpu-second";

struct Scene<'a> {
    ground: &'a Ground,
    slurm: &'a Slurm,
    observer: &'a Observer,
}

impl Scene<'_> {
    fn label(&self, node: &str, value: &str) {
        self.ground.kubectl(&["label", "node", node, &format!("{LABEL}{value}")]).unwrap();
    }

    /// Starts a job on one worker that runs until it is released.
    async fn job_on(&self, node: &str) -> u64 {
        let job = self.slurm.submit_patient_on(node).unwrap();
        self.observer.follow(job);
        self.slurm.until_job(job, "RUNNING").await.unwrap();
        self.observer.look_again().await.unwrap();
        job
    }

    async fn end(&self, job: u64) {
        self.slurm.release_one(job).unwrap();
        self.slurm.until_job(job, "COMPLETED").await.unwrap();
    }

    /// UID of the pod of a Slurm node; empty if there is none.
    fn uid_on(&self, node: &str) -> String {
        self.slurm.pod_of(node).map(|pod| self.slurm.uid(&pod)).unwrap_or_default()
    }

    async fn until_no_pod(&self, node: &str) -> Duration {
        let since = Instant::now();
        eventually(&format!("{node} to have no worker"), async || match self.slurm.pod_of(node) {
            Ok(pod) => Err(format!("there is {pod}; {}; {:?}", self.slurm.nodes(), self.slurm.is_ready("nodeset", WORKER))),
            Err(_) => Ok(since.elapsed()),
        })
        .await
        .unwrap()
    }

    async fn until_desired(&self, desired: u64) {
        eventually(&format!("{desired} workers to be wanted and ready"), async || {
            let status = self.slurm.resource("nodeset", WORKER)?["status"].clone();
            let is_ready = self.slurm.is_ready("nodeset", WORKER);
            let is_so = status["desired"] == desired && status["availableReplicas"] == desired && status["replicas"] == desired;
            if is_so && is_ready.is_ok() { Ok(()) } else { Err(format!("{is_ready:?}: {status}")) }
        })
        .await
        .unwrap();
    }
}

/// A new node gets no worker before it has the label, and then at once.
async fn a_new_node(scene: &Scene<'_>) -> String {
    let _chapter = chapter("a node joins");
    let node = scene.ground.add_node().await.unwrap();
    assert_eq!(scene.uid_on(&node), "");
    let since = Instant::now();
    scene.label(&node, "=yes");
    eventually("a pod for the new node", async || match scene.uid_on(&node).as_str() {
        "" => Err("there is none".to_owned()),
        _ => Ok(()),
    })
    .await
    .unwrap();
    let created = since.elapsed();
    scene.slurm.until_node(&node, "idle none").await.unwrap();
    eprintln!("new node: its worker was created within {}, idle after {}", seconds(created), seconds(since.elapsed()));
    scene.until_desired(3).await;
    node
}

/// A cordoned node keeps its worker, which takes no new jobs. If the worker is deleted it gets a new one, as from a DaemonSet.
async fn a_cordoned_node(scene: &Scene<'_>, node: &str) {
    let _chapter = chapter("a node is cordoned");
    let job = scene.job_on(node).await;
    scene.ground.kubectl(&["cordon", node]).unwrap();
    let pod = scene.slurm.pod_of(node).unwrap();
    let words = format!("slurm-operator: Node ({node}) was cordoned, Pod ({}/{pod}) must be cordoned", scene.slurm.namespace);
    scene.slurm.until_node(node, &format!("draining {words}")).await.unwrap();
    scene.end(job).await;
    scene.slurm.until_node(node, &format!("drained {words}")).await.unwrap();
    let before = scene.uid_on(node);
    scene.slurm.kubectl(&["delete", "pod", &pod]).unwrap();
    eventually("another worker on the cordoned node", async || {
        let now = scene.uid_on(node);
        if now.is_empty() || now == before { Err(format!("it is `{now}`")) } else { Ok(()) }
    })
    .await
    .unwrap();
    scene.slurm.until_node(node, &format!("drained {words}")).await.unwrap();
    scene.ground.kubectl(&["uncordon", node]).unwrap();
    scene.slurm.until_node(node, "idle none").await.unwrap();
}

/// A NoSchedule taint leaves the worker alone. A NoExecute taint removes it, and it returns once the taint is removed.
async fn a_tainted_node(scene: &Scene<'_>, node: &str) {
    let _chapter = chapter("a node is tainted");
    let before = scene.uid_on(node);
    scene.ground.kubectl(&["taint", "node", node, "example.org/x=y:NoSchedule"]).unwrap();
    steadily(
        "the worker to stay beside a taint",
        A_WHILE,
        async || {
            if scene.uid_on(node) == before { Ok(()) } else { Err(scene.slurm.nodes()) }
        },
    )
    .await
    .unwrap();
    scene.ground.kubectl(&["taint", "node", node, "example.org/x=y:NoExecute"]).unwrap();
    let took = scene.until_no_pod(node).await;
    eprintln!("tainted node: its worker left within {}", seconds(took));
    steadily(
        "nobody to come to the tainted node",
        A_WHILE,
        async || {
            if scene.uid_on(node).is_empty() { Ok(()) } else { Err(scene.slurm.nodes()) }
        },
    )
    .await
    .unwrap();
    scene.until_desired(2).await;
    scene.ground.kubectl(&["taint", "node", node, "example.org/x-"]).unwrap();
    scene.slurm.until_node(node, "idle none").await.unwrap();
    scene.until_desired(3).await;
}

/// A node that loses its label keeps its worker until the job there has ended.
async fn a_node_that_does_not_match_any_more(scene: &Scene<'_>, node: &str) {
    let _chapter = chapter("a node loses its label");
    let job = scene.job_on(node).await;
    let before = scene.uid_on(node);
    scene.label(node, "-");
    scene.slurm.until_node(node, "draining slurm-operator: Pod is pending termination for scale-in").await.unwrap();
    steadily("the job to go on", A_WHILE, async || {
        let shown = scene.slurm.show_job(job).map_err(|failure| failure.to_string())?;
        if shown.state == "RUNNING" && scene.uid_on(node) == before { Ok(()) } else { Err(format!("{shown:?}")) }
    })
    .await
    .unwrap();
    scene.slurm.until_not_ready("nodeset", WORKER, |why| why.contains("jobs are running there")).await.unwrap();
    scene.end(job).await;
    let took = scene.until_no_pod(node).await;
    eprintln!("unlabelled node: its worker left within {} of the end of its job", seconds(took));
    scene.label(node, "=yes");
    scene.slurm.until_node(node, "idle none").await.unwrap();
    scene.until_desired(3).await;
}

/// A new template reaches every node's worker, one at a time, and the busy one after its job has ended.
async fn a_new_template(scene: &Scene<'_>, idle: [&str; 2], busy: &str) {
    let _chapter = chapter("a new template reaches every node");
    let job = scene.job_on(busy).await;
    let uids = |nodes: &[&str]| nodes.iter().map(|node| scene.uid_on(node)).collect::<Vec<_>>();
    let (before, of_busy, since) = (uids(&idle), scene.uid_on(busy), Instant::now());
    scene.observer.demand(2);
    let template = json!({ "spec": { "template": { "metadata": { "annotations": { "example.org/release": "2" } } } } });
    scene.slurm.kubectl(&["patch", "nodesets.slinky.slurm.net", WORKER, "--type=merge", "--patch", &template.to_string()]).unwrap();
    eventually("the idle workers to be replaced", async || {
        let now = uids(&idle);
        let is_new = now.iter().zip(&before).all(|(now, before)| !now.is_empty() && now != before);
        if is_new { Ok(()) } else { Err(format!("{}; {:?}", scene.slurm.nodes(), scene.slurm.is_ready("nodeset", WORKER))) }
    })
    .await
    .unwrap();
    for node in idle {
        scene.slurm.until_node(node, "idle none").await.unwrap();
    }
    assert_eq!((scene.uid_on(busy), scene.slurm.show_job(job).unwrap().state.as_str()), (of_busy, "RUNNING"));
    scene.end(job).await;
    scene.slurm.until_updated(3).await.unwrap();
    eprintln!("new template: all three workers were replaced within {}", seconds(since.elapsed()));
    scene.observer.demand(0);
}

fn switch(scene: &Scene<'_>, mode: &str) {
    let patch = json!({ "spec": { "scalingMode": mode, "replicas": 3 } });
    scene.slurm.kubectl(&["patch", "nodesets.slinky.slurm.net", WORKER, "--type=merge", "--patch", &patch.to_string()]).unwrap();
}

/// Switches the modes while a job runs: the job ends undisturbed, on the worker where it started.
async fn the_other_mode_and_back(scene: &Scene<'_>, nodes: &[String; 3]) {
    let _chapter = chapter("the other mode, and back");
    let node = nodes[0].as_str();
    let job = scene.job_on(node).await;
    let (before, since) = (scene.uid_on(node), Instant::now());
    scene.observer.demand(2);
    switch(scene, "StatefulSet");
    // The scheduler decides which of them find room first.
    eventually("two numbered workers to be idle", async || {
        let nodes = scene.slurm.nodes();
        let idle = nodes.split(", ").filter(|node| node.starts_with("worker-") && node.ends_with(" idle none")).count();
        if idle == 2 { Ok(()) } else { Err(format!("{nodes}; {:?}", scene.slurm.is_ready("nodeset", WORKER))) }
    })
    .await
    .unwrap();
    eprintln!("switched: two of three numbered workers were idle after {}", seconds(since.elapsed()));
    assert_eq!(scene.uid_on(node), before, "the busy one was replaced");
    assert_eq!(scene.slurm.show_job(job).unwrap().state, "RUNNING");
    scene.end(job).await;
    scene.slurm.until_pods(&["worker-0", "worker-1", "worker-2"]).await.unwrap();
    scene.until_desired(3).await;
    eprintln!("switched: all of them after {}", seconds(since.elapsed()));

    let job = scene.job_on("worker-1").await;
    let (host, since) = (scene.slurm.host_of("worker-1").unwrap(), Instant::now());
    switch(scene, "DaemonSet");
    let [first, second, third] = nodes;
    let workers = [(first, first.as_str()), (second, SECOND), (third, third.as_str())];
    for (_, other) in workers.iter().filter(|(of, _)| **of != host) {
        scene.slurm.until_node(other, "idle none").await.unwrap();
    }
    assert_eq!(scene.slurm.show_job(job).unwrap().state, "RUNNING");
    scene.end(job).await;
    for (_, last) in workers {
        scene.slurm.until_node(last, "idle none").await.unwrap();
    }
    scene.until_desired(3).await;
    eprintln!("switched back: all of them after {}", seconds(since.elapsed()));
    scene.observer.demand(0);
}

/// When its node is gone Kubernetes deletes the pod, and its Slurm node is DOWN at once.
async fn a_removed_node(scene: &Scene<'_>, node: &str) {
    let _chapter = chapter("a node is removed");
    scene.ground.bed.kill_node(node.trim_start_matches('n').parse().unwrap()).unwrap();
    let since = Instant::now();
    scene.ground.kubectl(&["delete", "node", node]).unwrap();
    scene.until_no_pod(node).await;
    // Drained, or DOWN if slurmctld had already noticed that it does not respond.
    eventually(&format!("{node} to take no jobs"), async || {
        let shown = scene.slurm.node(node).map_err(|failure| failure.to_string())?;
        if shown.starts_with("down") || shown.starts_with("drained") { Ok(()) } else { Err(shown) }
    })
    .await
    .unwrap();
    eprintln!("removed node: out of use in Slurm after {}", seconds(since.elapsed()));
    scene.until_desired(2).await;
}

/// A worker for each of our nodes; the second one has another name in Slurm.
async fn cluster(ground: &Ground) -> Slurm {
    let nodes = ground.nodes();
    for node in &nodes {
        ground.kubectl(&["label", "node", node, &format!("{LABEL}=yes")]).unwrap();
    }
    ground.kubectl(&["annotate", "node", &nodes[1], &format!("nodeset.slinky.slurm.net/hostname-override={SECOND}")]).unwrap();
    let template = json!({ "spec": { "nodeSelector": { LABEL: "yes" } } });
    let mode = json!({ "spec": { "scalingMode": "DaemonSet", "template": template } });
    let workers = u32::try_from(nodes.len()).unwrap();
    ground.slurm("slurm", Manifest::demo().unwrap().workers(workers).with("NodeSet", &mode)).await.unwrap()
}

#[tokio::test]
async fn each_kubernetes_node_that_suits_has_one_worker_and_no_job_is_lost() {
    let ground = Ground::up("daemon", 2).await.unwrap();
    let slurm = cluster(&ground).await;
    let result = slurm.run_job(2, "srun --label hostname").await.unwrap();
    let mut hosts: Vec<&str> = result.output.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, [SECOND, &ground.nodes()[0]], "{result:?}");

    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let scene = Scene { ground: &ground, slurm: &slurm, observer: &observer };
    let new = a_new_node(&scene).await;
    a_cordoned_node(&scene, &new).await;
    a_tainted_node(&scene, &new).await;
    a_node_that_does_not_match_any_more(&scene, &new).await;
    a_removed_node(&scene, &new).await;
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}

#[tokio::test]
async fn a_new_template_and_another_mode_reach_the_worker_of_every_node_and_no_job_is_lost() {
    let ground = Ground::up("modes", 3).await.unwrap();
    let slurm = cluster(&ground).await;
    let nodes: [String; 3] = ground.nodes().try_into().unwrap();
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let scene = Scene { ground: &ground, slurm: &slurm, observer: &observer };
    a_new_template(&scene, [SECOND, &nodes[2]], &nodes[0]).await;
    the_other_mode_and_back(&scene, &nodes).await;
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}
