//! The hand that disturbs a cluster. It knows what each of its faults is supposed to end, and says so in windows.

mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};
use slipway_bed::failure::{Context, Failure};
use slipway_bed::layout::pod_range;
use slipway_bed::progress::seconds;

use super::fault::{Bag, Fault};
use super::state::{lose_state, restore_state, until_slurmctld_answers};
use super::stream::Stream;
use super::verdict::{Scope, Window};
use super::{SPOOL, WORKERS, micros, now};
use crate::ground::Ground;
use crate::manifest::{CONTROLLER, WORKER};
use crate::observer::Observer;
use crate::observer::node::Seen;
use crate::slurm::{OPERATOR_NAMESPACE, Slurm};
use process::{Signal, fill_disk, signal_daemon, signal_in};

/// slurmctld saves its state up to five seconds late.
const UNSAVED: u64 = 7;
/// Time for Slurm to notice that a worker is back, or that a start is not confirmed.
const NOTICED: u64 = 45;
/// A new job is protected within three seconds; the rest is for a busy machine.
const PROTECTED: u64 = 10;
/// A task writes once a second; the rest is for a busy machine.
const SILENT: u64 = 5;
/// Time for which nodes stay cordoned or drained: most of the cluster should run jobs.
const LASTING: Duration = Duration::from_secs(40);
/// Reason of the drains that the hand makes as an administrator.
const DRAIN: &str = "soak: drained by hand";

/// A daemon in a container, to be killed or frozen.
struct Daemon {
    /// `None` for the namespace of the cluster.
    namespace: Option<&'static str>,
    /// Name of the program, and value of the label `app.kubernetes.io/name` of its pods.
    program: &'static str,
    container: &'static str,
}

const OPERATOR: Daemon = Daemon { namespace: Some(OPERATOR_NAMESPACE), program: "slipway", container: "operator" };
const SLURMCTLD: Daemon = Daemon { namespace: None, program: "slurmctld", container: "slurmctld" };
const SLURMRESTD: Daemon = Daemon { namespace: None, program: "slurmrestd", container: "slurmrestd" };
const SLURMD: Daemon = Daemon { namespace: None, program: "slurmd", container: "slurmd" };

/// Record of what a hand did.
pub(super) struct Deeds {
    /// Times in which it was supposed to end jobs.
    pub(super) windows: Vec<Window>,
    /// Lines that tell what was done, and when.
    pub(super) story: Vec<String>,
    /// How often each kind was carried out.
    pub(super) counts: BTreeMap<Fault, usize>,
}

/// Disturbs one cluster.
pub(super) struct Hand<'a> {
    ground: &'a Ground,
    slurm: &'a Slurm,
    observer: &'a Observer,
    stream: &'a Stream,
    bag: Bag,
    rng: Rng,
    began: Instant,
    windows: Vec<Window>,
    story: Vec<String>,
    counts: BTreeMap<Fault, usize>,
    cordoned: Option<(String, Instant)>,
    drained: Option<(String, Instant)>,
    replicas: u32,
    /// Number of changes so far, to make each differ.
    changes: u32,
    extra_conf: String,
}

impl<'a> Hand<'a> {
    pub(super) fn new(
        ground: &'a Ground,
        slurm: &'a Slurm,
        observer: &'a Observer,
        stream: &'a Stream,
        seed: u64,
    ) -> Result<Self, Failure> {
        let controller = slurm.resource("controller", CONTROLLER).map_err(Failure::new)?;
        let extra_conf = controller["spec"]["extraConf"].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            ground,
            slurm,
            observer,
            stream,
            bag: Bag::new(seed),
            rng: Rng::with_seed(seed ^ 0x5eed),
            began: Instant::now(),
            windows: Vec::new(),
            story: Vec::new(),
            counts: BTreeMap::new(),
            cordoned: None,
            drained: None,
            replicas: WORKERS,
            changes: 0,
            extra_conf,
        })
    }

    /// Carries out the next fault, until it is over. A fault that the present disorder prevents is told and left out.
    pub(super) async fn strike(&mut self) {
        if let Err(why) = self.relieve() {
            self.tell(&format!("could not undo a lasting fault yet: {why}"));
        }
        let fault = self.bag.draw();
        let at = now() / 1_000_000;
        match self.carry_out(fault).await {
            Ok(what) => {
                *self.counts.entry(fault).or_default() += 1;
                self.tell(&format!("{at} {fault}: {what}"));
            }
            Err(why) => self.tell(&format!("{at} {fault}: left out, as {why}")),
        }
        self.wait(2..6).await;
    }

    /// Resumes every node that the operator does not hold: also those that Slurm drained after a fault, such as with `Duplicate jobid`.
    fn resume_all(&mut self) -> Result<(), Failure> {
        self.drained = None;
        let held: Vec<String> = self.observer.nodes().into_iter().filter(Seen::is_held_by_others).map(|node| node.name).collect();
        held.iter().try_for_each(|node| self.resume(node))
    }

    /// Undoes what has lasted long enough.
    fn relieve(&mut self) -> Result<(), Failure> {
        let is_due = |lasting: &Option<(String, Instant)>| lasting.as_ref().is_some_and(|(_, since)| since.elapsed() > LASTING);
        if is_due(&self.cordoned) {
            let what = self.cordon()?;
            self.tell(&what);
        }
        if is_due(&self.drained) {
            let what = self.drain()?;
            self.tell(&what);
        }
        Ok(())
    }

    fn tell(&mut self, line: &str) {
        let line = format!("+{} {line}", seconds(self.began.elapsed()));
        eprintln!("{line}");
        self.story.push(line);
    }

    async fn carry_out(&mut self, fault: Fault) -> Result<String, Failure> {
        match fault {
            Fault::Scale => self.scale(),
            Fault::Roll => self.roll(),
            Fault::Configure => self.configure(),
            Fault::Cordon => self.cordon(),
            Fault::Drain => self.drain(),
            Fault::Evict => self.evict(),
            Fault::KillOperator => self.kill(&OPERATOR),
            Fault::FreezeOperator => self.freeze(&OPERATOR, 10..35).await,
            Fault::KillSlurmctld => self.kill_slurmctld().await,
            Fault::FreezeSlurmctld => self.freeze(&SLURMCTLD, 10..30).await,
            Fault::KillSlurmrestd => self.kill(&SLURMRESTD),
            Fault::FreezeSlurmrestd => self.freeze(&SLURMRESTD, 10..35).await,
            Fault::KillSlurmd => self.kill_slurmd(),
            Fault::FreezeSlurmd => self.freeze(&SLURMD, 20..60).await,
            Fault::KillKubelet => self.kill_daemon("kubelet"),
            Fault::FreezeKubelet => self.freeze_daemon("kubelet").await,
            Fault::KillContainerd => self.kill_daemon("containerd"),
            Fault::FreezeContainerd => self.freeze_daemon("containerd").await,
            Fault::FreezeNode => self.freeze_node().await,
            Fault::CutNode => self.cut_node().await,
            Fault::FillDisk => self.fill_disk().await,
            Fault::LoseState => self.lose_state().await,
        }
    }

    fn scale(&mut self) -> Result<String, Failure> {
        let others: Vec<u32> = (2..=4).filter(|replicas| *replicas != self.replicas).collect();
        let replicas = self.rng.choice(others).unwrap_or(WORKERS);
        self.slurm.scale(replicas)?;
        let before = std::mem::replace(&mut self.replicas, replicas);
        Ok(format!("from {before} to {replicas}"))
    }

    fn roll(&mut self) -> Result<String, Failure> {
        self.changes += 1;
        let annotations = json!({ "example.org/release": self.changes.to_string() });
        self.patch("nodesets", WORKER, &json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } }))?;
        Ok(format!("release {}", self.changes))
    }

    fn configure(&mut self) -> Result<String, Failure> {
        self.changes += 1;
        let line = format!("KillWait={}", 30 + self.changes % 60);
        self.patch("controllers", CONTROLLER, &json!({ "spec": { "extraConf": format!("{}{line}\n", self.extra_conf) } }))?;
        Ok(line)
    }

    fn cordon(&mut self) -> Result<String, Failure> {
        if let Some((node, _)) = self.cordoned.clone() {
            self.ground.kubectl(&["uncordon", &node])?;
            self.cordoned = None;
            return Ok(format!("{node} uncordoned"));
        }
        let node = self.random_node()?;
        self.ground.kubectl(&["cordon", &node])?;
        self.cordoned = Some((node.clone(), Instant::now()));
        Ok(format!("{node} cordoned"))
    }

    fn drain(&mut self) -> Result<String, Failure> {
        if let Some((node, _)) = self.drained.take() {
            self.resume(&node)?;
            return Ok(format!("{node} resumed"));
        }
        let node = self.random_worker()?;
        self.slurm.drain(&node, DRAIN)?;
        self.drained = Some((node.clone(), Instant::now()));
        Ok(format!("{node} drained"))
    }

    /// Resumes a node that the operator does not hold, as an administrator does after a fault.
    fn resume(&mut self, node: &str) -> Result<(), Failure> {
        self.observer.lift(node);
        let shown = self.slurm.node(node)?;
        // Scaled in and out again, it is a new node without the drain.
        if shown.starts_with("drain") && !shown.contains("slurm-operator:") {
            self.slurm.on_controller(&["scontrol", "update", &format!("nodename={node}"), "state=resume"])?;
        }
        Ok(())
    }

    /// Evicts as `kubectl drain` does. What has run for a while must be protected.
    fn evict(&mut self) -> Result<String, Failure> {
        let (worker, from) = (self.random_worker()?, now());
        let path = format!("/api/v1/namespaces/{}/pods/{worker}/eviction", self.slurm.namespace);
        let body =
            json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": worker, "namespace": self.slurm.namespace } });
        match self.slurm.cluster.create(&path, &body) {
            Ok(()) => {
                self.windows.push(Window {
                    scope: Scope::StartsOn(worker.clone()),
                    from: from - micros(PROTECTED),
                    to: now() + micros(NOTICED),
                });
                Ok(format!("{worker} evicted"))
            }
            Err(refusal) if refusal.to_string().contains("refused for now") => Ok(format!("{worker} is protected")),
            Err(failure) => Err(failure),
        }
    }

    /// Kills the daemon in one of its pods, and returns the pod.
    fn kill(&mut self, daemon: &Daemon) -> Result<String, Failure> {
        let (pod, container) = self.random_container(daemon)?;
        signal_in(&container, daemon.program, Signal::KILL)?;
        Ok(pod)
    }

    async fn kill_slurmctld(&mut self) -> Result<String, Failure> {
        let from = now();
        let pod = self.kill(&SLURMCTLD)?;
        let answers = until_slurmctld_answers(self.slurm).await;
        self.windows.push(Window { scope: Scope::Changes, from: from - micros(UNSAVED), to: now() });
        answers.map(|()| pod)
    }

    /// Kills slurmd, and with it whatever its container runs.
    fn kill_slurmd(&mut self) -> Result<String, Failure> {
        let from = now();
        let worker = self.kill(&SLURMD)?;
        self.windows.push(Window { scope: Scope::On(worker.clone()), from: from - micros(SILENT), to: from + micros(NOTICED) });
        Ok(worker)
    }

    async fn freeze(&mut self, daemon: &Daemon, length: Range<u64>) -> Result<String, Failure> {
        let ((pod, container), from) = (self.random_container(daemon)?, now());
        signal_in(&container, daemon.program, Signal::STOP)?;
        let length = self.wait(length).await;
        // A probe may have had it killed in the meantime.
        let _ = signal_in(&container, daemon.program, Signal::CONT);
        self.messages_are_lost([pod.clone()], from);
        Ok(format!("{pod} for {length} s"))
    }

    fn kill_daemon(&mut self, daemon: &str) -> Result<String, Failure> {
        let node = self.random_node()?;
        signal_daemon(&self.ground.bed, &node, daemon, Signal::KILL)?;
        Ok(node)
    }

    async fn freeze_daemon(&mut self, daemon: &str) -> Result<String, Failure> {
        let node = self.random_node()?;
        signal_daemon(&self.ground.bed, &node, daemon, Signal::STOP)?;
        let length = self.wait(10..30).await;
        signal_daemon(&self.ground.bed, &node, daemon, Signal::CONT)?;
        Ok(format!("{node} for {length} s"))
    }

    async fn freeze_node(&mut self) -> Result<String, Failure> {
        let (node, from) = (self.random_node()?, now());
        let pods = self.pods_on(&node)?;
        self.ground.bed.freeze_node(index(&node)?)?;
        let length = self.wait(10..30).await;
        self.ground.bed.thaw_node(index(&node)?)?;
        self.messages_are_lost(pods, from);
        Ok(format!("{node} for {length} s"))
    }

    /// Cuts a node and its pods off from all others: no packet leaves it.
    async fn cut_node(&mut self) -> Result<String, Failure> {
        let (node, from) = (self.random_node()?, now());
        let pods = self.pods_on(&node)?;
        let rules = [format!("pref 1 to {} lookup main", pod_range(index(&node)?)), "pref 2 blackhole".to_owned()];
        for rule in &rules {
            process::on_node(&self.ground.bed, &node, &format!("ip rule add {rule}"))?;
        }
        let length = self.wait(10..45).await;
        for rule in &rules {
            process::on_node(&self.ground.bed, &node, &format!("ip rule del {rule}"))?;
        }
        self.messages_are_lost(pods, from);
        Ok(format!("{node} for {length} s"))
    }

    /// Fills the disk of slurmd under running jobs. The worker is drained before, since Slurm cannot start a job without space.
    async fn fill_disk(&mut self) -> Result<String, Failure> {
        let (worker, container) = self.random_container(&SLURMD)?;
        self.slurm.drain(&worker, DRAIN)?;
        let starts_in_progress = 2..4;
        self.wait(starts_in_progress).await;
        let outcome = match fill_disk(&container, SLURMD.program, SPOOL) {
            Ok(file) => {
                let length = self.wait(15..40).await;
                // The worker may have been replaced in the meantime.
                let _ = std::fs::remove_file(file);
                Ok(format!("{worker} for {length} s"))
            }
            Err(failure) => Err(failure),
        };
        self.resume(&worker)?;
        outcome
    }

    /// Takes the state of slurmctld away for a while, in which no job is submitted.
    async fn lose_state(&mut self) -> Result<String, Failure> {
        self.stream.pause().await?;
        let outcome = self.without_state().await;
        self.stream.resume();
        outcome
    }

    async fn without_state(&mut self) -> Result<String, Failure> {
        // Drains are part of the state, so their end must be saved.
        self.resume_all()?;
        tokio::time::sleep(Duration::from_secs(UNSAVED)).await;
        let from = now();
        let outcome = async {
            lose_state(self.slurm).await?;
            let length = self.wait(15..40).await;
            restore_state(self.slurm).await?;
            self.register_again().await?;
            Ok(format!("for {length} s"))
        }
        .await;
        self.windows.push(Window { scope: Scope::Changes, from: from - micros(UNSAVED), to: now() + micros(NOTICED) });
        outcome
    }

    /// Makes the workers with jobs register again. A job that ended while slurmctld had no record of it shows as running until then. slurmctld counts a
    /// job as missing only some time after it has loaded its state: its BatchStartTimeout and MessageTimeout, 10 s each.
    async fn register_again(&mut self) -> Result<(), Failure> {
        self.wait(25..30).await;
        let busy = self.slurm.on_controller(&[
            "bash",
            "-c",
            "scontrol show hostnames $(squeue --noheader --states=R --format=%N | paste -sd,)",
        ])?;
        for worker in busy.lines().collect::<BTreeSet<_>>() {
            // It may end at this moment.
            if let Ok((_, container)) = self.container(&SLURMD, |name| name == worker) {
                let _ = signal_in(&container, SLURMD.program, Signal::HUP);
            }
        }
        Ok(())
    }

    /// Slurm cannot confirm what it starts on these workers from then until now, and does not hear what ends there; if slurmctld is among them, it hears
    /// nothing.
    fn messages_are_lost(&mut self, pods: impl IntoIterator<Item = String>, from: u64) {
        let (controller, from, to) = (self.controller(), from - micros(2), now() + micros(NOTICED));
        for pod in pods {
            let scopes = if pod == controller { vec![Scope::Ends] } else { vec![Scope::StartsOn(pod.clone()), Scope::EndsOn(pod)] };
            self.windows.extend(scopes.into_iter().map(|scope| Window { scope, from, to }));
        }
    }

    /// Name of the pod of slurmctld.
    fn controller(&self) -> String {
        format!("{}-controller-0", self.slurm.controller)
    }

    /// Ends every lasting fault, and tells what was done.
    pub(super) async fn end(mut self) -> Result<Deeds, Failure> {
        until_slurmctld_answers(self.slurm).await?;
        if self.cordoned.is_some() {
            self.cordon()?;
        }
        self.resume_all()?;
        self.slurm.scale(WORKERS)?;
        let Self { windows, story, counts, .. } = self;
        Ok(Deeds { windows, story, counts })
    }

    /// Lets some seconds pass, in which a fault lasts or the cluster recovers.
    async fn wait(&mut self, length: Range<u64>) -> u64 {
        let length = self.rng.u64(length);
        tokio::time::sleep(Duration::from_secs(length)).await;
        length
    }

    fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<(), Failure> {
        let path = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/{kind}/{name}", self.slurm.namespace);
        self.slurm.cluster.merge(&path, patch)
    }

    fn random_node(&mut self) -> Result<String, Failure> {
        self.rng.choice(self.ground.nodes()).context(|| "there is no node".to_owned())
    }

    fn random_worker(&mut self) -> Result<String, Failure> {
        self.rng.choice(self.slurm.pods()?).context(|| "there is no worker".to_owned())
    }

    /// Workers and slurmctld, as far as they are on the node.
    fn pods_on(&self, node: &str) -> Result<Vec<String>, Failure> {
        let mut pods = self.slurm.pods()?;
        pods.push(self.controller());
        Ok(pods.into_iter().filter(|pod| self.slurm.host_of(pod).is_ok_and(|host| host == node)).collect())
    }

    /// One of a daemon's pods, and the ID of its container.
    fn random_container(&mut self, daemon: &Daemon) -> Result<(String, String), Failure> {
        self.container(daemon, |_| true)
    }

    /// One of those of a daemon's pods that are meant, and the ID of its container.
    fn container(&mut self, daemon: &Daemon, is_meant: impl Fn(&str) -> bool) -> Result<(String, String), Failure> {
        let namespace = daemon.namespace.unwrap_or(&self.slurm.namespace);
        let list = self
            .slurm
            .cluster
            .get(&format!("/api/v1/namespaces/{namespace}/pods?labelSelector=app.kubernetes.io/name={}", daemon.program))?;
        let mut pods = list["items"].as_array().cloned().unwrap_or_default();
        pods.retain(|pod| pod["metadata"]["name"].as_str().is_some_and(&is_meant));
        let pod = self.rng.choice(pods).context(|| format!("there is no pod of {}", daemon.program))?;
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        let id = statuses.find(|status| status["name"] == daemon.container).and_then(|status| status["containerID"].as_str());
        let id = id.and_then(|id| id.strip_prefix("containerd://")).context(|| format!("{name} does not run yet"))?;
        Ok((name, id.to_owned()))
    }
}

/// Number of a node, by its name.
fn index(node: &str) -> Result<u8, Failure> {
    node.trim_start_matches('n').parse().context(|| format!("{node} has no number"))
}
