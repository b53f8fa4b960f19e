//! Scaling out and in without losing a job: scaling in deletes idle workers first and waits for busy ones, even if slurmctld is killed. It leaves an
//! administrator's drain alone, and kills jobs only on workers that a user gives up.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use slipway_bed::progress::seconds;
use slipway_tests::eventually::{eventually, steadily};
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::observer::Observer;
use slipway_tests::slurm::Slurm;

const WORKERS: u32 = 6;
const LEFT: u32 = 2;
const SCALE_IN: &str = "draining slurm-operator: Pod is pending termination for scale-in";
const ADMINS: &str = "draining bad disk";
/// Kills slurmctld, the only child of its container's first process.
const SIGKILL: &str = "kill -KILL $(cat /proc/1/task/1/children)";

/// A running cluster with a job on each of `busy`, in order, and one idle worker.
struct Scenario {
    slurm: Slurm,
    observer: Observer,
    busy: Vec<(String, u64)>,
    idle: String,
}

impl Scenario {
    /// Workers that are drained for scale-in, with their jobs.
    fn leaving(&self) -> Vec<(String, u64)> {
        self.busy.iter().filter(|(node, _)| self.slurm.node(node).unwrap() == SCALE_IN).cloned().collect()
    }

    /// The worker that an administrator drained.
    fn admins(&self) -> &str {
        &self.busy[0].0
    }

    /// Scales in: the idle worker is deleted at once, the busy ones stay until their jobs have ended.
    async fn shrinks(&self) {
        let since = Instant::now();
        self.slurm.scale(LEFT).unwrap();
        let mut staying: Vec<&str> = self.busy.iter().map(|(node, _)| node.as_str()).collect();
        staying.sort_unstable();
        self.slurm.until_pods(&staying).await.unwrap();
        eprintln!("the idle worker {} left after {}", self.idle, seconds(since.elapsed()));
        let why = eventually("the NodeSet to say what it waits for", async || match self.slurm.is_ready("nodeset", WORKER) {
            Err(why) if why.contains("jobs are running there") => Ok(why),
            other => Err(format!("{other:?}")),
        })
        .await
        .unwrap();
        assert!(why.contains("delete pod `worker-"), "{why}");
        self.nothing_is_lost().await;
    }

    async fn nothing_is_lost(&self) {
        assert_eq!(self.slurm.node(self.admins()).unwrap(), ADMINS);
        self.observer.look_again().await.unwrap();
        assert_eq!(self.observer.losses(), []);
    }

    /// Takes a scale-in back: workers drained for it take jobs again, except the administrator's.
    async fn takes_it_back(&self) {
        self.slurm.scale(WORKERS - 1).unwrap();
        for (worker, _) in &self.busy[1..] {
            self.slurm.until_node(worker, "allocated none").await.unwrap();
        }
        self.nothing_is_lost().await;
        self.slurm.scale(LEFT).unwrap();
        eventually("the drains to be there again", async || {
            // The administrator's worker may or may not be among those to be deleted.
            let count = self.leaving().len();
            if count >= self.busy.len() - 1 - LEFT as usize { Ok(()) } else { Err(format!("{count} are drained: {}", self.slurm.nodes())) }
        })
        .await
        .unwrap();
    }

    /// Kills slurmctld while workers wait for deletion: it restarts and knows the drains, and no worker was deleted meanwhile.
    async fn outlives_slurmctld(&self) {
        let (before, leaving) = (self.slurm.pods().unwrap(), self.leaving());
        // Once the newest job is saved, all are.
        self.slurm.until_saved(self.busy[self.busy.len() - 1].1).await.unwrap();
        let since = Instant::now();
        self.slurm.on_controller(&["bash", "-c", SIGKILL]).unwrap();
        self.observer.look_again().await.unwrap();
        eprintln!("slurmctld killed: jobs seen again after {}", seconds(since.elapsed()));
        steadily("nobody to leave", Duration::from_secs(4), async || match self.slurm.pods() {
            Ok(pods) if pods == before => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await
        .unwrap();
        assert_eq!(self.leaving(), leaving);
        self.nothing_is_lost().await;
    }

    /// A worker that a user gives up is deleted while busy; the loss of its job is intended.
    async fn leaves_by_wish(&self, worker: &(String, u64), annotation: &str, not_before: Duration) {
        let (pod, job) = worker;
        let uid = self.slurm.uid(pod);
        self.observer.excuse(*job);
        let since = Instant::now();
        self.slurm.kubectl(&["annotate", "pod", pod, annotation]).unwrap();
        // The time that slurmd takes to end does not count.
        eventually(&format!("pod {pod} to be deleted"), async || match self.slurm.pod(pod) {
            Ok(found) if found["metadata"]["uid"] == *uid && found["metadata"]["deletionTimestamp"].is_null() => {
                Err("it is not".to_owned())
            }
            _ => Ok(()),
        })
        .await
        .unwrap();
        eprintln!("{pod} with {annotation} was deleted after {}", seconds(since.elapsed()));
        assert!(
            since.elapsed() > not_before,
            "{pod} left {} after the wish, and should not before {not_before:?}",
            seconds(since.elapsed())
        );
        // The job was requeued or killed; this scenario does not need it any more.
        let _ = self.slurm.on_controller(&["scancel", &job.to_string()]);
    }
}

/// Runs a job on three nodes, which find one another by their bare names.
async fn bare_names_resolve(slurm: &Slurm) {
    let names = "worker-0 worker-1 worker-2 worker-3 worker-4 worker-5";
    let job = slurm.run_job(3, &format!("srun --label sh -c 'hostname; getent hosts {names} | wc --lines'")).await.unwrap();
    let mut said: Vec<&str> = job.output.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    said.sort_unstable();
    assert_eq!(job.state, "COMPLETED", "{job:?}");
    assert!(said[..3] == ["6"; 3] && said[3..].iter().all(|host| host.starts_with("worker-")) && said.len() == 6, "{}", job.output);
    let hosts = slurm.run_job(3, "srun --nodes=3 --label hostname && getent hosts worker-1").await.unwrap();
    assert_eq!((hosts.state.as_str(), hosts.output.lines().count()), ("COMPLETED", 4), "{hosts:?}");
}

#[tokio::test]
async fn a_node_set_grows_from_zero_and_shrinks_to_it_and_loses_no_job() {
    let ground = Ground::up("scaling", 2).await.unwrap();
    // A worker that is deleted with its jobs takes its whole grace period.
    let spec = json!({ "spec": { "oversubscribeNode": true, "template": { "spec": { "terminationGracePeriodSeconds": 5 } } } });
    let manifest = Manifest::demo().unwrap().workers(0).with("NodeSet", &spec);
    let slurm = ground.slurm("slurm", manifest).await.unwrap();
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let since = Instant::now();
    slurm.scale(WORKERS).unwrap();
    for number in 0..WORKERS {
        slurm.until_node(&format!("worker-{number}"), "idle none").await.unwrap();
    }
    eprintln!("from none to {WORKERS} workers in {}", seconds(since.elapsed()));
    bare_names_resolve(&slurm).await;

    // A job on each worker but one; an administrator drains the first busy one.
    let busy: Vec<(String, u64)> = (1..WORKERS)
        .map(|number| format!("worker-{number}"))
        .map(|worker| {
            let job = slurm.submit_patient_on(&worker).unwrap();
            observer.follow(job);
            (worker, job)
        })
        .collect();
    for (_, job) in &busy {
        slurm.until_job(*job, "RUNNING").await.unwrap();
    }
    slurm.drain(&busy[0].0, "bad disk").unwrap();
    observer.demand(LEFT as usize);
    let scenario = Scenario { slurm, observer, busy, idle: "worker-0".to_owned() };
    scenario.shrinks().await;
    scenario.takes_it_back().await;
    scenario.outlives_slurmctld().await;

    let leaving = scenario.leaving();
    scenario.leaves_by_wish(&leaving[0], "slipway.dev/force-delete=true", Duration::ZERO).await;
    #[allow(clippy::disallowed_methods, reason = "a real cluster runs by the real clock")]
    let deadline = Timestamp::now() + SignedDuration::from_secs(5);
    let deadline = format!("slipway.dev/drain-deadline={deadline:.0}");
    scenario.leaves_by_wish(&leaving[1], &deadline, Duration::from_secs(3)).await;

    let Scenario { slurm, observer, busy, .. } = scenario;
    let since = Instant::now();
    for (_, job) in busy.iter().filter(|worker| !leaving[..2].contains(worker)) {
        slurm.release_one(*job).unwrap();
        slurm.until_job(*job, "COMPLETED").await.unwrap();
    }
    slurm.until_pod_count(LEFT as usize).await.unwrap();
    eprintln!("the others left {} after their jobs were let go", seconds(since.elapsed()));
    observer.verdict().await.unwrap();

    // Workers that return under an old name take jobs, except the one that an administrator drained.
    slurm.scale(WORKERS).unwrap();
    for number in 0..WORKERS {
        let worker = format!("worker-{number}");
        slurm.until_node(&worker, if worker == busy[0].0 { "drained bad disk" } else { "idle none" }).await.unwrap();
    }
    let since = Instant::now();
    observer.demand(0);
    slurm.scale(0).unwrap();
    slurm.until_pod_count(0).await.unwrap();
    eprintln!("from {WORKERS} idle workers to none in {}", seconds(since.elapsed()));
    observer.verdict().await.unwrap();
    drop(observer);
    ground.end().unwrap();
}
