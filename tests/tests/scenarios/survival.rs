//! A running job and a queued one survive every way of ending slurmctld, and neither is restarted.

use std::time::Instant;

use slipway_bed::progress::{Progress, seconds};
use slipway_tests::audit::Write;
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::Manifest;
use slipway_tests::observer::Observer;
use slipway_tests::observer::daemon::Counts;
use slipway_tests::slurm::{SIGKILL, Slurm};

/// A running cluster, its jobs and the expected number of slurmctld starts.
struct Scenario {
    ground: Ground,
    slurm: Slurm,
    observer: Observer,
    running: u64,
    queued: u64,
    starts: usize,
}

impl Scenario {
    /// Waits, after slurmctld was ended, until it has restarted and reports both jobs as they were.
    async fn survives(&mut self, how: &str, since: Instant) {
        self.starts += 1;
        eventually(&format!("slurmctld to start again after {how}"), async || {
            let Counts { starts, .. } = self.observer.counts("slurmctld");
            if starts >= self.starts { Ok(()) } else { Err(format!("it started {starts} times in all")) }
        })
        .await
        .unwrap();
        self.observer.look_again().await.unwrap();
        let state = |job| self.observer.job(job).map(|seen| seen.state);
        assert_eq!((state(self.running).as_deref(), state(self.queued).as_deref()), (Some("RUNNING"), Some("PENDING")), "after {how}");
        assert_eq!(self.observer.losses(), [], "after {how}");
        assert_eq!(self.observer.counts("slurmctld"), Counts { starts: self.starts, reconfigures: 0 }, "after {how}");
        eprintln!("{how}: jobs seen again after {}", seconds(since.elapsed()));
    }

    /// All nodes except this one.
    fn others(&self, spare: &str) -> Vec<String> {
        self.ground.nodes().into_iter().filter(|node| node != spare).collect()
    }

    async fn sigkill(&mut self, how: &str) {
        let pod = self.slurm.controller_pod();
        let since = sigkill_slurmctld(&self.slurm, &pod).await;
        self.survives(how, since).await;
    }
}

/// Kills slurmctld as soon as it listens.
async fn sigkill_slurmctld(slurm: &Slurm, pod: &str) -> Instant {
    eventually("slurmctld to listen and be killed", async || {
        slurm.on_pod(pod, "slurmctld", &["bash", "-c", SIGKILL]).map_err(|failure| failure.to_string())
    })
    .await
    .unwrap();
    Instant::now()
}

/// A cluster of two workers with a job on both and a pending one. slurmctld was killed while it came up, and then moved to a node without a worker.
async fn scenario(ground: Ground) -> Scenario {
    // The workers stay off one node, so that slurmctld can move there.
    let spare = ground.free_node().unwrap();
    ground.kubectl(&["cordon", &spare]).unwrap();
    let slurm = ground.apply("slurm", Manifest::demo().unwrap()).unwrap();
    sigkill_slurmctld(&slurm, &slurm.controller_pod()).await;
    slurm.until_ready(Progress::Quiet).await.unwrap();

    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let running = slurm.submit_patient(2).unwrap();
    observer.follow(running);
    slurm.until_job(running, "RUNNING").await.unwrap();
    let queued = slurm.submit_patient(2).unwrap();
    observer.follow(queued);
    slurm.until_saved(queued).await.unwrap();
    let starts = observer.counts("slurmctld").starts;
    assert_eq!(starts, 2, "the first start and the one after the kill");
    let mut scenario = Scenario { ground, slurm, observer, running, queued, starts };

    let others = scenario.others(&spare);
    for node in &others {
        scenario.ground.kubectl(&["cordon", node]).unwrap();
    }
    scenario.ground.kubectl(&["uncordon", &spare]).unwrap();
    let pod = scenario.slurm.controller_pod();
    let since = Instant::now();
    scenario.slurm.kubectl(&["delete", "pod", &pod, "--wait=false"]).unwrap();
    scenario.survives("its pod deleted, another node", since).await;
    for node in &others {
        scenario.ground.kubectl(&["uncordon", node]).unwrap();
    }
    assert_eq!(scenario.slurm.host_of(&pod).unwrap(), spare, "slurmctld is where no worker is");
    scenario
}

/// Ends both jobs as if nothing had happened, and checks that only Kubernetes acted on slurmctld.
async fn both_jobs_end(scenario: Scenario) {
    let Scenario { ground, slurm, observer, running, queued, .. } = scenario;
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
    observer.verdict().await.unwrap();
    // Marks on workers for jobs and for cordons of nodes do not count.
    let is_mark = |write: &Write| write.verb == "patch" && (write.name.starts_with("worker-") || write.resource == "poddisruptionbudgets");
    let acts: Vec<_> = observer.operator_acts().into_iter().filter(|write| !is_mark(write)).collect();
    assert_eq!(acts, [], "Kubernetes alone brings slurmctld back");
    assert_eq!(observer.counts("slurmd").starts, 2, "no worker was started again");
    eprintln!(
        "longest time without an answer: {}, {} writes of the operator",
        seconds(observer.outage()),
        observer.operator_writes().len()
    );
    drop(observer);
    ground.end().unwrap();
}

#[tokio::test]
async fn jobs_survive_slurmctlds_death_in_every_way() {
    let mut scenario = scenario(Ground::up("survival", 3).await.unwrap()).await;
    let pod = scenario.slurm.controller_pod();
    scenario.sigkill("SIGKILL").await;
    scenario.sigkill("SIGKILL again, the kubelet's pause included").await;
    let since = Instant::now();
    scenario.slurm.kubectl(&["delete", "pod", &pod, "--force", "--grace-period=0"]).unwrap();
    scenario.survives("its pod deleted by force", since).await;
    scenario.sigkill("SIGKILL right after a start").await;
    both_jobs_end(scenario).await;
}

#[tokio::test]
async fn jobs_survive_the_death_of_slurmctlds_node() {
    let mut scenario = scenario(Ground::up("node-death", 3).await.unwrap()).await;
    let node = scenario.slurm.host_of(&scenario.slurm.controller_pod()).unwrap();
    let since = Instant::now();
    scenario.ground.bed.kill_node(node.trim_start_matches('n').parse().unwrap()).unwrap();
    scenario.ground.kubectl(&["delete", "node", &node]).unwrap();
    scenario.survives("its node gone", since).await;
    both_jobs_end(scenario).await;
}
