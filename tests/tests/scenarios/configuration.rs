//! Every kind of configuration change takes effect exactly once, in both modes, while a job runs; an invalid change takes no effect at all.

use std::time::Instant;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use slipway_bed::progress::seconds;
use slipway_tests::chapter::chapter;
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{CONTROLLER, Manifest};
use slipway_tests::observer::Observer;
use slipway_tests::observer::daemon::Counts;
use slipway_tests::slurm::Slurm;

const SCRIPTS: &str = "scripts";
const FILES: &str = "slurm-files";

/// Expected way in which a change reaches slurmctld.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    InPlace,
    NewPod,
}

impl Mode {
    fn costs(self) -> Counts {
        match self {
            Self::InPlace => Counts { starts: 0, reconfigures: 1 },
            Self::NewPod => Counts { starts: 1, reconfigures: 0 },
        }
    }
}

struct Scenario {
    slurm: Slurm,
    client: Client,
    observer: Observer,
    /// The user's lines of slurm.conf, without those under test.
    extra_conf: String,
    mode: Mode,
    /// slurmctld's counts so far, all of them expected.
    counts: Counts,
}

impl Scenario {
    fn patch(&self, resource: &str, patch: &Value) {
        self.slurm.kubectl(&["patch", resource, "--type=merge", "--patch", &patch.to_string()]).unwrap();
    }

    fn extra(&self, line: &str) {
        let patch = json!({ "spec": { "extraConf": format!("{}{line}\n", self.extra_conf) } });
        self.patch(&format!("controllers.slinky.slurm.net/{CONTROLLER}"), &patch);
    }

    /// Applies the lines one after the other, as fast as the API server takes them: a kubectl for each would be slower than a kubelet's first update.
    async fn extras(&self, lines: impl Iterator<Item = String>) {
        let kind = GroupVersionKind::gvk("slinky.slurm.net", "v1beta1", "Controller");
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.slurm.namespace, &ApiResource::from_gvk_with_plural(&kind, "controllers"));
        for line in lines {
            let patch = json!({ "spec": { "extraConf": format!("{}{line}\n", self.extra_conf) } });
            api.patch(CONTROLLER, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        }
    }

    fn file(&self, config_map: &str, file: &str, text: &str) {
        self.patch(&format!("configmap/{config_map}"), &json!({ "data": { file: text } }));
    }

    /// A condition of the Controller: its status, reason and message.
    fn condition(&self, type_: &str) -> Result<[String; 3], String> {
        let object = self.slurm.resource("controller", CONTROLLER)?;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == type_).ok_or_else(|| format!("it has no {type_} yet"))?;
        if found["observedGeneration"] != object["metadata"]["generation"] {
            return Err(format!("{type_} is of an older generation"));
        }
        Ok(["status", "reason", "message"].map(|field| found[field].as_str().unwrap_or_default().to_owned()))
    }

    /// Waits until a change is in use (`shows` on the controller, or on a worker) and reported, and checks its cost in starts and reconfigures.
    async fn took_effect_once(&mut self, what: &str, since: Instant, effect: &Effect<'_>) {
        eventually(&format!("{what} to take effect"), async || {
            let seen = effect.look(&self.slurm).map_err(|failure| failure.to_string())?;
            if seen.contains(effect.shows) { Ok(()) } else { Err(format!("`{}` is not in:\n{seen}", effect.shows)) }
        })
        .await
        .unwrap();
        let took = since.elapsed();
        eventually(&format!("the Controller to say that {what} is in use"), async || {
            self.slurm.is_ready("controller", CONTROLLER)?;
            match self.condition("ConfigurationApplied")? {
                [status, ..] if status == "True" => Ok(()),
                other => Err(other.join(" ")),
            }
        })
        .await
        .unwrap();
        let known = since.elapsed();
        let now = self.observer.counts("slurmctld");
        assert_eq!(now - self.counts, self.mode.costs(), "what {what} cost");
        self.counts = now;
        assert_eq!(self.observer.losses(), [], "after {what}");
        eprintln!("{what}: in use after {}, said after {}", seconds(took), seconds(known));
    }
}

/// Command that shows a change.
struct Effect<'a> {
    on_worker: bool,
    command: &'a [&'a str],
    shows: &'a str,
}

impl<'a> Effect<'a> {
    fn config(shows: &'a str) -> Self {
        Self { on_worker: false, command: &["scontrol", "show", "config"], shows }
    }

    fn look(&self, slurm: &Slurm) -> Result<String, slipway_bed::Failure> {
        if self.on_worker { slurm.on_worker("worker-0", self.command) } else { slurm.on_controller(self.command) }
    }
}

/// Makes the same changes in either mode; `round` makes their values differ.
async fn every_change_takes_effect_once(scenario: &mut Scenario, round: u32) {
    let _chapter = chapter("every change takes effect once");
    let since = Instant::now();
    scenario.extra(&format!("KillWait={}", 30 + round));
    let shows = format!("KillWait                = {} sec", 30 + round);
    scenario.took_effect_once("a line of extraConf", since, &Effect::config(&shows)).await;

    let since = Instant::now();
    let (name, controller) = (format!("extra{round}"), json!({ "name": CONTROLLER }));
    let nodeset = json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": { "name": name },
        "spec": { "controllerRef": controller, "replicas": 0, "partition": { "enabled": true },
                  "slurmd": { "image": "localhost/slipway/slurmd:26.05" } },
    });
    let partition = format!("PartitionName={name}");
    let path = std::env::temp_dir().join(format!("slipway-{name}-{}.json", std::process::id()));
    std::fs::write(&path, nodeset.to_string()).unwrap();
    scenario.slurm.kubectl(&["apply", "--server-side", "--filename", path.to_str().unwrap()]).unwrap();
    std::fs::remove_file(&path).unwrap();
    let effect = Effect { on_worker: false, command: &["scontrol", "show", "partition"], shows: &partition };
    scenario.took_effect_once("another NodeSet", since, &effect).await;

    let since = Instant::now();
    let comment = format!("# round {round}");
    scenario.file(FILES, "cgroup.conf", &format!("CgroupPlugin=disabled\n{comment}\n"));
    let effect = Effect { on_worker: true, command: &["cat", "/run/slurm/conf/cgroup.conf"], shows: &comment };
    scenario.took_effect_once("a file of a ConfigMap", since, &effect).await;

    let since = Instant::now();
    scenario.file(SCRIPTS, "prolog.sh", &format!("#!/bin/sh\n{comment}\nexit 0\n"));
    let effect = Effect { on_worker: true, command: &["cat", "/run/slurm/conf/prolog.sh"], shows: &comment };
    scenario.took_effect_once("a script", since, &effect).await;

    let since = Instant::now();
    scenario.extras((1..=5).map(|wait| format!("KillWait={}", 40 + 10 * round + wait))).await;
    let shows = format!("KillWait                = {} sec", 45 + 10 * round);
    scenario.took_effect_once("five changes in a row", since, &Effect::config(&shows)).await;
}

async fn a_mistake_takes_no_effect(scenario: &mut Scenario, round: u32) {
    let _chapter = chapter("a mistake takes no effect");
    let config = ["get", "configmap", "slurm-config", "--output=jsonpath={.metadata.resourceVersion}"];
    let published = scenario.slurm.kubectl(&config).unwrap();
    scenario.extra("KillWiat=3");
    eventually("the Controller to refuse the configuration", async || {
        let [status, reason, message] = scenario.condition("Ready")?;
        let names_it = message.contains("line") && message.contains("extraConf") && message.contains("KillWiat");
        if status == "False" && reason == "ConfigurationRefused" && names_it {
            Ok(())
        } else {
            Err(format!("{status} {reason}: {message}"))
        }
    })
    .await
    .unwrap();
    // An invalid file of the user, in addition.
    scenario.file(FILES, "cgroup.conf", "CgroupPlugin=disabled\nNoSuchKey=1\n");
    scenario.extra(&format!("KillWait={}", 70 + round));
    eventually("the Controller to name the file", async || {
        let [status, reason, message] = scenario.condition("Ready")?;
        if reason == "ConfigurationRefused" && message.contains("cgroup.conf") {
            Ok(())
        } else {
            Err(format!("{status} {reason}: {message}"))
        }
    })
    .await
    .unwrap();
    assert_eq!(scenario.slurm.kubectl(&config).unwrap(), published, "the last good configuration stays as it is");
    assert_eq!(scenario.observer.counts("slurmctld"), scenario.counts, "slurmctld never heard of it");

    let since = Instant::now();
    scenario.file(FILES, "cgroup.conf", "CgroupPlugin=disabled\n# mended\n");
    let shows = format!("KillWait                = {} sec", 70 + round);
    scenario.took_effect_once("a mended mistake", since, &Effect::config(&shows)).await;
}

/// A cluster with a running job, whose configuration is changed in place.
async fn scenario(ground: &Ground) -> (Scenario, u64) {
    let scripts =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": SCRIPTS }, "data": { "prolog.sh": "#!/bin/sh\nexit 0\n" } });
    let spec = json!({ "spec": { "inplaceReconfigure": true, "prologScriptRefs": [{ "name": SCRIPTS }] } });
    let manifest = Manifest::demo().unwrap().and(scripts).with("Controller", &spec);
    let slurm = ground.slurm("slurm", manifest).await.unwrap();
    let extra_conf = slurm.resource("controller", CONTROLLER).unwrap()["spec"]["extraConf"].as_str().unwrap().to_owned();
    let observer = Observer::start(&ground.bed, &slurm).unwrap();
    let job = slurm.submit_patient(2).unwrap();
    observer.follow(job);
    slurm.until_job(job, "RUNNING").await.unwrap();
    slurm.until_saved(job).await.unwrap();
    let counts = observer.counts("slurmctld");
    assert_eq!(counts, Counts { starts: 1, reconfigures: 0 }, "to come up took one start");
    (Scenario { slurm, client: ground.bed.client().await.unwrap(), observer, extra_conf, mode: Mode::InPlace, counts }, job)
}

/// Ends the job as if nothing had happened, and checks that nothing comes late.
async fn the_job_ends(scenario: Scenario, job: u64) {
    let Scenario { slurm, observer, counts, .. } = scenario;
    slurm.release(job).unwrap();
    let ended = slurm.until_ended(job).await.unwrap();
    let mut output: Vec<_> = ended.output.lines().collect();
    output.sort_unstable();
    assert_eq!((ended.state.as_str(), output), ("COMPLETED", Slurm::patient_output(2).iter().map(String::as_str).collect()));
    observer.verdict().await.unwrap();
    assert_eq!(observer.counts("slurmctld"), counts, "nothing came late");
    assert_eq!(observer.counts("slurmd").starts, 2, "no worker was started again");
}

#[tokio::test]
async fn every_change_takes_effect_exactly_once_in_place() {
    let ground = Ground::up("in-place", 2).await.unwrap();
    let (mut scenario, job) = scenario(&ground).await;
    every_change_takes_effect_once(&mut scenario, 1).await;
    a_mistake_takes_no_effect(&mut scenario, 1).await;
    the_job_ends(scenario, job).await;
    ground.end().unwrap();
}

#[tokio::test]
async fn every_change_takes_effect_exactly_once_by_a_new_pod() {
    let ground = Ground::up("by-new-pod", 2).await.unwrap();
    let (mut scenario, job) = scenario(&ground).await;
    let since = Instant::now();
    scenario.mode = Mode::NewPod;
    scenario.patch(&format!("controllers.slinky.slurm.net/{CONTROLLER}"), &json!({ "spec": { "inplaceReconfigure": false } }));
    scenario.took_effect_once("the other mode", since, &Effect::config("KillWait")).await;
    every_change_takes_effect_once(&mut scenario, 2).await;
    a_mistake_takes_no_effect(&mut scenario, 2).await;
    the_job_ends(scenario, job).await;
    ground.end().unwrap();
}
