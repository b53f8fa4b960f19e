//! slurmrestd and slurmctld when their configuration and their keys change, during jobs and a stream of calls.

mod stream;

use std::io::Read;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::Client;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use slipway_bed::progress::seconds;
use slipway_slurm::rest::token::sign;
use slipway_tests::audit::{Audit, Write};
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{CONTROLLER, Manifest};
use slipway_tests::observer::Observer;
use slipway_tests::observer::daemon::Counts;
use slipway_tests::slurm::{OPERATOR_USER, Slurm};

use self::stream::{Call, Outcome, Stream, call};

/// A second RestApi of the same Controller, with two slurmrestd behind its own port.
const SECOND: &str = "second";
const SECOND_PORT: u16 = 8080;
/// Label of slurmrestd pods.
const SLURMRESTD: &str = "app.kubernetes.io/name=slurmrestd";
/// Number of slurmrestd of both RestApis.
const SLURMRESTDS: usize = 3;

struct Scenario {
    ground: Ground,
    slurm: Slurm,
    client: Client,
    observer: Observer,
    /// Expected number of starts of each daemon so far.
    slurmctld: usize,
    slurmrestd: usize,
}

fn random_key() -> String {
    let mut buffer = [0; 32];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut buffer).unwrap();
    buffer.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// A token of Slurm's own user, signed as any client with the key could sign it.
#[allow(clippy::disallowed_methods, reason = "a real server runs by the real clock")]
fn token(key: &str) -> String {
    sign("slurm", &key.as_bytes().to_vec().into(), Timestamp::now()).unwrap().expose_secret().to_owned()
}

/// Writes of the operator, without status and events.
fn acts(audit: &Audit) -> Vec<Write> {
    let writes = audit.writes_of(OPERATOR_USER).into_iter();
    writes.filter(|write| !write.resource.ends_with("/status") && write.resource != "events").collect()
}

impl Scenario {
    fn key(&self, key: &str) -> String {
        let template = format!("--output=go-template={{{{index .data \"{key}\" | base64decode}}}}");
        self.slurm.kubectl(&["get", "secret", "slurm-keys", &template]).unwrap()
    }

    fn patch(&self, resource: &str, patch: &Value) {
        self.slurm.kubectl(&["patch", resource, "--type=merge", "--patch", &patch.to_string()]).unwrap();
    }

    /// Replaces a key in the Secret and returns the new one.
    fn rotate(&self, key: &str) -> String {
        let new = random_key();
        self.set(key, &new);
        new
    }

    /// Sets a key in the Secret, and changes the Controller, so that the operator reads the Secret now and not within five minutes.
    fn set(&self, key: &str, new: &str) {
        self.patch("secret/slurm-keys", &json!({ "stringData": { key: new } }));
        let note = json!({ "metadata": { "annotations": { "slipway.dev/read-secrets": random_key() } } });
        self.patch(&format!("controllers.slinky.slurm.net/{CONTROLLER}"), &note);
    }

    fn configuration(&self) -> String {
        self.slurm.kubectl(&["get", "configmap", "slurm-config", "--output=jsonpath={.data.slurm\\.conf}"]).unwrap()
    }

    /// API path of Slurm's nodes through a Service or a pod.
    fn nodes_at(&self, kind: &str, name: &str, port: u16) -> String {
        format!("/api/v1/namespaces/{}/{kind}/{name}:{port}/proxy/slurm/v0.0.45/nodes/", self.slurm.namespace)
    }

    /// Checks that every slurmrestd and both Services respond.
    async fn everyone_answers(&self, key: &str) {
        let pods = self.slurm.pods_with(SLURMRESTD).unwrap();
        let mut paths: Vec<_> = pods.iter().map(|pod| self.nodes_at("pods", pod, 6820)).collect();
        assert_eq!(paths.len(), SLURMRESTDS, "{pods:?}");
        paths.push(self.nodes_at("services", "slurm-restapi", 6820));
        paths.push(self.nodes_at("services", "second-restapi", SECOND_PORT));
        for path in paths {
            assert_eq!(call(&self.client, &path, &token(key)).await, Outcome::Accepted, "{path}");
        }
    }

    /// Waits until both RestApis have exactly the pods that they should have.
    async fn until_restapis_are_ready(&self) {
        eventually("both RestApis to be Ready with their pods alone", async || {
            let pods = self.slurm.pods_with(SLURMRESTD)?;
            let starts = self.observer.counts("slurmrestd").starts;
            if pods.len() != SLURMRESTDS || starts < self.slurmrestd {
                return Err(format!("{starts} starts in all, there are {pods:?}"));
            }
            self.slurm.is_ready("restapi", CONTROLLER)?;
            self.slurm.is_ready("restapi", SECOND)
        })
        .await
        .unwrap();
    }

    /// Waits until the Controller reports that every daemon runs the published configuration, after the last expected start of slurmctld.
    async fn until_configuration_is_applied(&self) {
        eventually("the Controller to say that its configuration is applied", async || {
            let starts = self.observer.counts("slurmctld").starts;
            if starts < self.slurmctld {
                return Err(format!("slurmctld was started {starts} times"));
            }
            self.slurm.is_ready("controller", CONTROLLER)?;
            let applied = self.slurm.condition("controller", CONTROLLER, "ConfigurationApplied")?;
            if applied["status"] == "True" { Ok(()) } else { Err(applied.to_string()) }
        })
        .await
        .unwrap();
    }

    fn counts_are_right(&self, what: &str) {
        assert_eq!(self.observer.counts("slurmctld"), Counts { starts: self.slurmctld, reconfigures: 0 }, "slurmctld after {what}");
        assert_eq!(self.observer.counts("slurmrestd").starts, self.slurmrestd, "slurmrestd after {what}");
    }

    /// A foreign edit of the published configuration is reverted, and no daemon restarts for it.
    async fn a_strangers_edit_is_undone(&self) {
        let published = self.configuration();
        let audit = self.ground.audit();
        self.patch("configmap/slurm-config", &json!({ "data": { "slurm.conf": "ClusterName=oops\n" } }));
        eventually("the edit to be undone", async || {
            let found = self.configuration();
            if found == published { Ok(()) } else { Err(found) }
        })
        .await
        .unwrap();
        self.until_restapis_are_ready().await;
        let acts = acts(&audit);
        let written: Vec<_> = acts.iter().map(|write| (write.resource.as_str(), write.name.as_str(), write.code)).collect();
        assert_eq!(written, [("configmaps", "slurm-config", 200)], "one write puts it back");
        self.counts_are_right("a stranger's edit");
    }

    /// Each slurmrestd reads a new slurm.conf through one restart.
    async fn a_change_restarts_everyone_once(&mut self) {
        let since = Instant::now();
        let extra = self.slurm.resource("controller", CONTROLLER).unwrap()["spec"]["extraConf"].as_str().unwrap().to_owned();
        let controller = format!("controllers.slinky.slurm.net/{CONTROLLER}");
        self.patch(&controller, &json!({ "spec": { "extraConf": format!("{extra}KillWait=31\n") } }));
        self.slurmctld += 1;
        self.slurmrestd += SLURMRESTDS;
        self.until_configuration_is_applied().await;
        self.until_restapis_are_ready().await;
        self.counts_are_right("a change of slurm.conf");
        self.everyone_answers(&self.key("jwt.key")).await;
        eprintln!("a change of slurm.conf: slurmctld and {SLURMRESTDS} slurmrestd run it after {}", seconds(since.elapsed()));
    }

    /// A new JWT key: only slurmctld restarts, and from then on it accepts the new tokens and refuses the old ones.
    async fn the_jwt_key_rotates_under_a_stream(&mut self, running: u64, queued: u64) {
        self.observer.look_again().await.unwrap();
        let (old, new) = (self.key("jwt.key"), random_key());
        let path = self.nodes_at("services", "slurm-restapi", 6820);
        let stream = Stream::start(self.client.clone(), path, vec![token(&old), token(&new)]);
        let audit = self.ground.audit();
        eventually("ten calls with the old token", async || has_calls(&stream, 0, Outcome::Accepted, 10)).await.unwrap();
        let since = Instant::now();
        self.set("jwt.key", &new);
        self.slurmctld += 1;
        eventually("the new token to be accepted", async || has_calls(&stream, 1, Outcome::Accepted, 20)).await.unwrap();
        self.until_configuration_is_applied().await;
        let known = since.elapsed();
        self.counts_are_right("a new JWT key");
        let acts = acts(&audit);
        let written: Vec<_> = acts.iter().map(|write| (write.resource.as_str(), write.name.as_str(), write.code)).collect();
        assert_eq!(written, [("statefulsets", "slurm-controller", 200)], "one write does it");

        self.the_operator_hears_from_slurm().await;

        let calls = stream.calls();
        drop(stream);
        report(&calls, since, known);
        // A second observer reads Slurm's jobs with the new key: the first one has a token of the old key.
        let second = Observer::start(&self.ground.bed, &self.slurm).unwrap();
        second.look_again().await.unwrap();
        assert_eq!(self.observer.losses(), []);
        assert_eq!(second.job(running), self.observer.job(running), "the running job goes on as it was");
        let waiting = |observer: &Observer| observer.job(queued).map(|job| (job.state, job.restarts, job.submitted));
        assert_eq!(waiting(&second), waiting(&self.observer), "the queued job waits as before");
        assert_eq!(waiting(&second).unwrap().0, "PENDING");
        second.verdict().await.unwrap();
    }

    /// Checks that the operator shows changes in Slurm, for which it needs the new key.
    async fn the_operator_hears_from_slurm(&self) {
        let shows_drain = || -> Result<bool, String> {
            let pod = self.slurm.pod("worker-1").map_err(|failure| failure.to_string())?;
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            Ok(conditions.iter().any(|condition| condition["type"] == "SlurmNodeStateDrain" && condition["status"] == "True"))
        };
        self.slurm.drain("worker-1", "look here").unwrap();
        eventually("the operator to show a drain", async || if shows_drain()? { Ok(()) } else { Err("it does not".to_owned()) })
            .await
            .unwrap();
        self.slurm.on_controller(&["scontrol", "update", "nodename=worker-1", "state=resume"]).unwrap();
        eventually("the operator to show its end", async || if shows_drain()? { Err("it does not".to_owned()) } else { Ok(()) })
            .await
            .unwrap();
    }

    /// A new auth/slurm key: slurmctld and every slurmrestd restart once. A running slurmd keeps its old key until it is told to read its
    /// configuration, which costs no job.
    async fn the_slurm_key_rotates(&mut self) {
        let since = Instant::now();
        let new = self.rotate("slurm.key");
        self.slurmctld += 1;
        self.slurmrestd += SLURMRESTDS;
        self.until_restapis_are_ready().await;
        eventually("slurmctld to serve with the new key", async || {
            let starts = self.observer.counts("slurmctld").starts;
            if starts < self.slurmctld {
                return Err(format!("it was started {starts} times"));
            }
            self.slurm.is_ready("controller", CONTROLLER)
        })
        .await
        .unwrap();
        assert_eq!(self.slurm.on_controller(&["cat", "/etc/slurm/slurm.key"]).unwrap(), new);
        self.everyone_answers(&self.key("jwt.key")).await;
        eprintln!("a new auth/slurm key: slurmctld and slurmrestd work with it after {}", seconds(since.elapsed()));

        for worker in ["worker-0", "worker-1"] {
            eventually(&format!("the kubelet to bring the new key to {worker}"), async || {
                let held = self.slurm.on_worker(worker, &["cat", "/etc/slurm/slurm.key"]).map_err(|failure| failure.to_string())?;
                if held == new { Ok(()) } else { Err("it has the old one".to_owned()) }
            })
            .await
            .unwrap();
            // The oldest child of the container's first process is slurmd.
            self.slurm.on_worker(worker, &["sh", "-c", "kill -HUP $(cut -d' ' -f1 /proc/1/task/1/children)"]).unwrap();
        }
        self.until_configuration_is_applied().await;
        let job = self.slurm.run_job(2, "srun --label hostname").await.unwrap();
        assert_eq!(job.state, "COMPLETED", "{job:?}");
        self.counts_are_right("a new auth/slurm key");
        assert_eq!(self.observer.counts("slurmd").starts, 2, "no worker was started again");
        eprintln!("a new auth/slurm key: workers told, a job done after {}", seconds(since.elapsed()));
    }
}

/// Ok if this many calls with a token had this outcome.
fn has_calls(stream: &Stream, token: usize, outcome: Outcome, count: usize) -> Result<(), String> {
    let calls = stream.calls();
    let found = calls.iter().filter(|call| call.token == token && call.outcome == outcome).count();
    if found >= count { Ok(()) } else { Err(format!("{found} of {} calls", calls.len())) }
}

/// Checks a stream: first the old token is accepted, then the new one, never both; in between calls may fail.
fn report(calls: &[Call], since: Instant, known: Duration) {
    let of = |token: usize, outcome: Outcome| calls.iter().filter(move |call| call.token == token && call.outcome == outcome);
    let first_new = of(1, Outcome::Accepted).map(|call| call.ended).min().unwrap();
    let last_old = of(0, Outcome::Accepted).map(|call| call.sent).max().unwrap();
    assert!(last_old < first_new, "the old token was accepted after the new one");
    let after = of(0, Outcome::Refused).filter(|call| call.sent > first_new).count();
    assert!(after >= 10, "the old token was refused {after} times only, by now");
    let refused_new = of(1, Outcome::Refused).filter(|call| call.sent > first_new).count();
    assert_eq!(refused_new, 0, "the new token was refused after it had been accepted");
    let mut good: Vec<_> = calls.iter().filter(|call| call.outcome == Outcome::Accepted).map(|call| call.ended).collect();
    good.sort_unstable();
    let gap = good.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
    let failed = calls.iter().filter(|call| call.outcome == Outcome::Failed).count();
    eprintln!(
        "a new JWT key: new token accepted after {}, said after {}; {} calls, {failed} without an answer, longest time without a good one {}",
        seconds(first_new - since),
        seconds(known),
        calls.len(),
        seconds(gap)
    );
}

/// A cluster with three slurmrestd behind two RestApis, a job on both workers and a pending one.
async fn scenario(name: &str) -> (Scenario, [u64; 2]) {
    let ground = Ground::up(name, 2).await.unwrap();
    let second = json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "RestApi", "metadata": { "name": SECOND },
        "spec": { "controllerRef": { "name": CONTROLLER }, "replicas": 2, "service": { "port": SECOND_PORT },
                  "slurmrestd": { "image": "localhost/slipway/slurmrestd:26.05" } },
    });
    let slurm = ground.slurm("slurm", Manifest::demo().unwrap().and(second)).await.unwrap();
    let client = ground.bed.client().await.unwrap();
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let running = slurm.submit_patient(2).unwrap();
    slurm.until_job(running, "RUNNING").await.unwrap();
    let queued = slurm.submit_patient(2).unwrap();
    for job in [running, queued] {
        observer.follow(job);
    }
    let scenario = Scenario { ground, slurm, client, observer, slurmctld: 1, slurmrestd: SLURMRESTDS };
    scenario.counts_are_right("coming up");
    scenario.everyone_answers(&scenario.key("jwt.key")).await;
    // Waits until the operator has written everything that follows from the job.
    scenario.slurm.until_all_busy().await.unwrap();
    (scenario, [running, queued])
}

/// Ends both jobs as if nothing had happened.
async fn both_end(scenario: &Scenario, jobs: [u64; 2]) {
    for job in jobs {
        scenario.slurm.until_job(job, "RUNNING").await.unwrap();
        scenario.slurm.release(job).unwrap();
        let ended = scenario.slurm.until_ended(job).await.unwrap();
        let mut output: Vec<_> = ended.output.lines().collect();
        output.sort_unstable();
        assert_eq!((ended.state.as_str(), output), ("COMPLETED", Slurm::patient_output(2).iter().map(String::as_str).collect()));
    }
}

fn end(scenario: Scenario) {
    let Scenario { ground, observer, .. } = scenario;
    assert_eq!(observer.last_words(), Vec::<String>::new());
    drop(observer);
    ground.end().unwrap();
}

#[tokio::test]
async fn a_changed_configuration_and_a_new_slurm_key_restart_each_daemon_that_reads_them_once() {
    let (mut scenario, jobs) = scenario("slurm-key").await;
    scenario.a_strangers_edit_is_undone().await;
    scenario.a_change_restarts_everyone_once().await;
    both_end(&scenario, jobs).await;
    scenario.the_slurm_key_rotates().await;
    end(scenario);
}

// Two threads, so that the stream continues while the scenario waits for programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jwt_key_rotates_under_a_stream_of_calls_and_slurmctld_alone_restarts() {
    let (mut scenario, jobs) = scenario("jwt-key").await;
    let [running, queued] = jobs;
    scenario.the_jwt_key_rotates_under_a_stream(running, queued).await;
    both_end(&scenario, jobs).await;
    end(scenario);
}
