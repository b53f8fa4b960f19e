//! slurmctld outside Kubernetes with workers and slurmrestd inside, and slurmctld inside behind another port.

mod outside;

use std::collections::BTreeSet;
use std::time::Instant;

use http::Request;
use serde_json::{Value, json};
use slipway_bed::bed::Bed;
use slipway_bed::progress::{Progress, seconds};
use slipway_tests::eventually::eventually;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{CONTROLLER, Manifest, WORKER};
use slipway_tests::passes::passes;
use slipway_tests::slurm::{OPERATOR_USER, Slurm, restart_operator};

use self::outside::{ADDRESS, Outside, PORT};

/// Port of slurmctld's Service that differs from slurmctld's own.
const SERVICE_PORT: u16 = 7000;

/// The example with an external slurmctld.
fn manifest() -> Manifest {
    let spec = json!({ "spec": {
        "external": true, "externalConfig": { "host": ADDRESS, "port": PORT },
        "slurmctld": null, "persistence": null, "configFileRefs": null, "extraConf": null,
    } });
    Manifest::demo().unwrap().without("ConfigMap").with("Controller", &spec)
}

/// Message of the Controller's `Ready` condition.
fn ready_words(slurm: &Slurm) -> String {
    let object = slurm.resource("controller", CONTROLLER).unwrap();
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    ready["message"].as_str().unwrap().to_owned()
}

/// Workers and slurmrestd run inside, slurmctld outside.
async fn workers_register_outside(bed: &Bed, slurm: &Slurm, outside: &Outside) {
    let started = Instant::now();
    for (kind, name) in slurm.manifest.resources() {
        eventually(&format!("{kind} `{name}` to be Ready"), async || slurm.is_ready(&kind, &name)).await.unwrap();
    }
    eventually("both workers to be idle outside", async || {
        let idle =
            outside.run(&["sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"]).map_err(|failure| failure.to_string())?;
        if idle.split_whitespace().eq(["worker-0", "worker-1"]) { Ok(()) } else { Err(format!("idle: {idle}")) }
    })
    .await
    .unwrap();
    eprintln!("external: workers registered and all Ready in {}", seconds(started.elapsed()));

    assert!(ready_words(slurm).contains("slurmctld outside this Kubernetes"), "{}", ready_words(slurm));
    let made = slurm.kubectl(&["get", "statefulsets,services,pods", "--selector=app.kubernetes.io/component=controller", "--output=name"]);
    assert_eq!(made.unwrap(), "", "nothing is made for a slurmctld elsewhere");
    assert_eq!(slurm.kubectl(&["get", "statefulsets", "--output=name"]).unwrap(), "");
    let config: Value = serde_json::from_str(&slurm.kubectl(&["get", "configmap", "slurm-config", "--output=json"]).unwrap()).unwrap();
    let files = config["data"].as_object().unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["slurm.conf"]);
    let lines: BTreeSet<_> = files["slurm.conf"].as_str().unwrap().lines().filter(|line| !line.starts_with('#')).collect();
    let (host, port) = (format!("SlurmctldHost={ADDRESS}"), format!("SlurmctldPort={PORT}"));
    let expected =
        ["ClusterName=demo", "SlurmUser=slurm", &host, &port, "AuthType=auth/slurm", "CredType=cred/slurm", "AuthAltTypes=auth/jwt"];
    assert_eq!(lines.into_iter().filter(|line| !line.starts_with("Accounting")).collect::<BTreeSet<_>>(), BTreeSet::from(expected));

    let path = format!("/api/v1/namespaces/{}/services/{CONTROLLER}-restapi:6820/proxy/slurm/v0.0.45/nodes/", slurm.namespace);
    let request = Request::get(path).header("X-SLURM-USER-NAME", "slurm").header("X-SLURM-USER-TOKEN", outside.token().unwrap());
    let answer: Value = bed.client().await.unwrap().request(request.body(Vec::new()).unwrap()).await.unwrap();
    let nodes: BTreeSet<_> = answer["nodes"].as_array().unwrap().iter().filter_map(|node| node["name"].as_str()).collect();
    assert_eq!(nodes, BTreeSet::from(["worker-0", "worker-1"]), "what slurmrestd knows of the outside");
}

/// slurmctld's Service has the user's port and the one that running daemons use, and every client gets through.
async fn another_port_leads_to_slurmctld(slurm: &Slurm) {
    let ports = ["get", "service", "slurm-controller", "--output=jsonpath={range .spec.ports[*]}{.port}->{.targetPort} {end}"];
    assert_eq!(slurm.kubectl(&ports).unwrap().trim(), format!("{SERVICE_PORT}->slurmctld 6817->slurmctld"));
    let args = ["get", "pod", "worker-0", "--output=jsonpath={.spec.containers[?(@.name=='slurmd')].args}"];
    let args: Vec<String> = serde_json::from_str(&slurm.kubectl(&args).unwrap()).unwrap();
    let server = args.iter().skip_while(|arg| *arg != "--conf-server").nth(1).unwrap();
    assert!(server.ends_with(&format!(":{SERVICE_PORT}")), "{args:?}");
    two_nodes_answered(&slurm.run_job(2, "srun --label hostname").await.unwrap().output);
}

fn two_nodes_answered(output: &str) {
    let hosts: BTreeSet<_> = output.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(hosts, BTreeSet::from(["worker-0", "worker-1"]), "{output}");
}

/// A restarted operator has no memory of its writes. There are two objects of each kind, and every report about them is written.
async fn a_second_pass_writes_nothing(ground: &Ground, inside: &Slurm) {
    eventually("the Controller to say that its workers run the configuration", async || {
        let said = inside.condition("controller", CONTROLLER, "ConfigurationApplied")?;
        if said["status"] == "True" { Ok(()) } else { Err(said.to_string()) }
    })
    .await
    .unwrap();
    let audit = ground.audit();
    restart_operator(&ground.cluster).unwrap();
    eventually("a pass of the new operator over everything", async || {
        let passes = passes(&ground.cluster)?;
        if passes.len() == 3 && passes.values().all(|count| *count >= 2.0) { Ok(()) } else { Err(format!("passes so far: {passes:?}")) }
    })
    .await
    .unwrap();
    let writes = audit.writes_of(OPERATOR_USER);
    assert!(writes.is_empty(), "the operator wrote although nothing had changed: {writes:?}");
}

/// Deletes the Controller; slurmctld outside is not affected.
async fn what_is_outside_outlives_the_controller(ground: &Ground, slurm: &Slurm, outside: &mut Outside) {
    let job = outside.submit_patient().unwrap();
    eventually("the job to run", async || outside.job_is(job, "RUNNING")).await.unwrap();
    let started = outside.run(&["scontrol", "--oneliner", "show", "job", &job.to_string()]).unwrap();
    // Waits until the operator has written everything that follows from the job.
    slurm.until_all_busy().await.unwrap();
    let audit = ground.audit();
    let workers = ["get", "pods", "--selector=app.kubernetes.io/name=slurmd", "--output=jsonpath={.items[*].metadata.uid}"];
    let before = slurm.kubectl(&workers).unwrap();
    slurm.kubectl(&["delete", "controllers.slinky.slurm.net", CONTROLLER, "--wait"]).unwrap();
    eventually("the NodeSet to say that its Controller is gone", async || match slurm.is_ready("nodeset", WORKER) {
        Err(why) if why.contains("does not exist") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    assert!(outside.lives(), "slurmctld outside ended");
    assert_eq!(slurm.kubectl(&workers).unwrap(), before, "the workers stay");
    let field = |text: &str, name: &str| text.split_whitespace().find(|word| word.starts_with(name)).unwrap().to_owned();
    let now = outside.run(&["scontrol", "--oneliner", "show", "job", &job.to_string()]).unwrap();
    for name in ["JobState=", "StartTime=", "Restarts=", "NodeList="] {
        assert_eq!(field(&now, name), field(&started, name));
    }
    slurm.release(job).unwrap();
    eventually("the job to end", async || outside.job_is(job, "COMPLETED")).await.unwrap();
    let host = field(&now, "BatchHost=").replace("BatchHost=", "");
    let output = slurm.on_worker(&host, &["cat", &format!("/tmp/job-{job}.out")]).unwrap();
    let mut lines: Vec<_> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, Slurm::patient_output(2));
    let acts = audit.writes_of(OPERATOR_USER).into_iter();
    let acts: Vec<_> = acts.filter(|write| !write.resource.ends_with("/status") && write.resource != "events").collect();
    assert!(acts.is_empty(), "there was nothing to do: {acts:?}");
}

#[tokio::test]
async fn slurmctld_may_run_outside_and_behind_any_port() {
    let ground = Ground::alone("external", 2).await.unwrap();
    let slurm = ground.apply("outside", manifest()).unwrap();
    let mut outside = Outside::start(&ground.bed, &slurm).unwrap();
    let service = json!({ "spec": { "service": { "port": SERVICE_PORT } } });
    let inside = ground.apply("inside", Manifest::demo().unwrap().with("Controller", &service)).unwrap();

    workers_register_outside(&ground.bed, &slurm, &outside).await;
    let job = outside.submit("srun --label hostname").unwrap();
    eventually("the job to end", async || outside.job_is(job, "COMPLETED")).await.unwrap();
    let shown = outside.run(&["scontrol", "--oneliner", "show", "job", &job.to_string()]).unwrap();
    let host = shown.split_whitespace().find_map(|word| word.strip_prefix("BatchHost=")).unwrap();
    two_nodes_answered(&slurm.on_worker(host, &["cat", &format!("/tmp/job-{job}.out")]).unwrap());

    inside.until_ready(Progress::Quiet).await.unwrap();
    another_port_leads_to_slurmctld(&inside).await;
    inside.run_shown_job(2).await.unwrap();
    slurm.until_at_rest().await.unwrap();
    a_second_pass_writes_nothing(&ground, &inside).await;
    what_is_outside_outlives_the_controller(&ground, &slurm, &mut outside).await;
    drop(outside);
    ground.end().unwrap();
}
