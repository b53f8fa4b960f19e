//! ssh into a worker: only for a user with a job there, only while it runs, and confined to it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_bed::failure::Failure;
use slipway_bed::progress::{Progress, seconds};
use slipway_tests::eventually::{eventually, steadily};
use slipway_tests::ground::Ground;
use slipway_tests::manifest::{Manifest, WORKER};
use slipway_tests::slurm::Slurm;

/// Long enough for at least two reconciles.
const A_WHILE: Duration = Duration::from_secs(5);
const NAMESPACE: &str = "slurm";
const REFUSAL: &str = "Access denied by pam_slurm_adopt: you have no active jobs on this node";
/// Users on the workers. None can log in with a password.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash
slurm:x:401:401::/var/lib/slurm:/usr/sbin/nologin
sshd:x:996:65534::/run/sshd:/usr/sbin/nologin
nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin
alice:*:1000:1000::/tmp:/bin/sh
bob:*:1001:1001::/tmp:/bin/sh
";
/// Path of each user's public key.
const KEYS: &str = "AuthorizedKeysFile /etc/ssh/keys/%u\nStrictModes no\n";

/// A pod to connect from, such as a login node.
fn client(node_labels: &Value) -> Value {
    let container = json!({ "name": "client", "image": "localhost/slipway/login:26.05", "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"] });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "client" },
        "spec": { "terminationGracePeriodSeconds": 0, "nodeSelector": node_labels, "containers": [container] } })
}

/// Workers that know two users, and that confine jobs.
fn manifest(public_key: &str) -> Manifest {
    let people = json!({ "passwd": PASSWD, "alice": public_key, "bob": public_key });
    let extra = "ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup\nPrologFlags=Contain\nSelectType=select/cons_tres\n\
                 SelectTypeParameters=CR_Core\nMpiDefault=none\nMailProg=/bin/true\nReturnToService=2\n";
    let mounts = json!([
        { "name": "people", "mountPath": "/etc/passwd", "subPath": "passwd" },
        { "name": "people", "mountPath": "/etc/ssh/keys" },
    ]);
    let nodeset = json!({ "spec": {
        "ssh": { "enabled": true, "extraSshdConfig": KEYS, "sssdConfRef": { "name": "sssd", "key": "sssd.conf" } },
        "slurmd": { "securityContext": { "privileged": true, "capabilities": null }, "volumeMounts": mounts },
        "template": { "spec": { "volumes": [{ "name": "people", "configMap": { "name": "people" } }] } },
    }});
    Manifest::demo()
        .unwrap()
        .with("ConfigMap", &json!({ "data": { "cgroup.conf": "CgroupPlugin=cgroup/v1\nIgnoreSystemd=yes\nConstrainCores=yes\n" } }))
        .with("Controller", &json!({ "spec": { "extraConf": extra } }))
        .with("NodeSet", &nodeset)
        .and(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "people" }, "data": people }))
}

/// Output and exit status of ssh.
#[derive(Debug)]
struct Visit {
    status: i32,
    said: String,
}

impl Visit {
    fn is_refused(&self) -> bool {
        self.status == 255 && self.said.contains(REFUSAL)
    }
}

const SSH: &str = "ssh -i /key -o BatchMode=yes -o ConnectTimeout=5 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null";

/// Connects to a worker as this user, by its Slurm node name, and runs a command there.
fn visit(slurm: &Slurm, user: &str, worker: &str, command: &str) -> Visit {
    let script = format!("{SSH} {user}@{worker}.slurm-workers-slurm '{command}' 2>&1; status=$?; echo; echo $status");
    let output = slurm.on_pod("client", "client", &["sh", "-c", &script]).unwrap();
    let (said, status) = output.trim_end().rsplit_once('\n').unwrap();
    Visit { status: status.parse().unwrap(), said: said.to_owned() }
}

fn submit(slurm: &Slurm, uid: &str, worker: &str) -> u64 {
    let ids = [format!("--reuid={uid}"), format!("--regid={uid}")];
    let node = format!("--nodelist={worker}");
    let mut command = vec!["setpriv", &ids[0], &ids[1], "--clear-groups", "sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null"];
    command.extend(["--time=30", &node, "--wrap=sleep 1000"]);
    slurm.on_worker("worker-1", &command).unwrap().trim().parse().unwrap()
}

fn patch(slurm: &Slurm, patch: &Value) {
    slurm.kubectl(&["patch", "nodesets.slinky.slurm.net", WORKER, "--type=merge", "--patch", &patch.to_string()]).unwrap();
}

fn config_maps(slurm: &Slurm) -> String {
    slurm.kubectl(&["get", "configmaps", "--output=name"]).unwrap()
}

/// A Secret with sssd.conf.
fn sssd(domain: &str) -> String {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "sssd" },
        "stringData": { "sssd.conf": format!("[sssd]\ndomains = {domain}\n") } })
    .to_string()
}

/// Waits until all workers have the newest template and are ready.
async fn until_updated(slurm: &Slurm) {
    eventually("all workers to be updated and ready", async || {
        let status = slurm.resource("nodeset", WORKER)?["status"].clone();
        let is_ready = slurm.is_ready("nodeset", WORKER);
        if status["updatedReplicas"] == 2 && is_ready.is_ok() { Ok(()) } else { Err(format!("{is_ready:?}: {status}")) }
    })
    .await
    .unwrap();
}

/// A cluster of workers with sshd, and a pod to connect from.
struct Scene {
    ground: Ground,
    slurm: Slurm,
}

impl Scene {
    /// Brings up everything except the Secret that the workers need.
    async fn without_secret(name: &str) -> Self {
        let ground = Ground::up(name, 2).await.unwrap();
        let namespace = ground.namespace(NAMESPACE);
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        ground.cluster.apply_text(&object.to_string(), None).unwrap();
        ground.cluster.apply_text(&client(&ground.node_labels()).to_string(), Some(&namespace)).unwrap();
        let public_key = eventually("the place to come from", async || {
            let script = "[ -e /key ] || ssh-keygen -q -t ed25519 -N '' -f /key; cat /key.pub";
            ground.cluster.exec(&namespace, "client", "client", &["sh", "-c", script]).map_err(|failure| failure.to_string())
        })
        .await
        .unwrap();
        let slurm = ground.apply(NAMESPACE, manifest(&public_key)).unwrap();
        Self { ground, slurm }
    }

    /// Applies the Secret with the workers' sssd.conf.
    fn sssd(&self, domain: &str) {
        self.ground.cluster.apply_text(&sssd(domain), Some(&self.slurm.namespace)).unwrap();
    }

    fn in_client(&self, command: &[&str]) -> Result<String, Failure> {
        self.slurm.on_pod("client", "client", command)
    }
}

#[tokio::test]
async fn only_who_has_a_job_on_a_worker_gets_in_and_stays_inside_of_it() {
    let scene = Scene::without_secret("ssh").await;
    let slurm = &scene.slurm;
    // Without the Secret nothing is created, and the message names it.
    eventually("the NodeSet to name the Secret", async || match slurm.is_ready("nodeset", WORKER) {
        Err(why) if why.contains(&format!("Secret `{}/sssd` does not exist", slurm.namespace)) && why.contains("spec.ssh.sssdConfRef") => {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    assert!(slurm.pods().unwrap().is_empty() && !config_maps(slurm).contains("worker-ssh-config"), "{}", config_maps(slurm));
    scene.sssd("one");
    slurm.until_ready(Progress::Quiet).await.unwrap();
    let files = slurm.on_worker("worker-0", &["stat", "--format=%n %U:%G %a", "/etc/ssh/sshd_config", "/etc/sssd/sssd.conf"]).unwrap();
    assert_eq!(files, "/etc/ssh/sshd_config root:root 600\n/etc/sssd/sssd.conf root:root 600\n");

    // No user has a job.
    let refused = visit(slurm, "alice", "worker-0", "true");
    assert!(refused.is_refused(), "{refused:?}");
    eprintln!("without a job: `{REFUSAL}`");

    // Alice has a job on one worker.
    let job = submit(slurm, "1000", "worker-0");
    slurm.until_job(job, "RUNNING").await.unwrap();
    let since = Instant::now();
    let inside = visit(slurm, "alice", "worker-0", "id -un; echo job=$SLURM_JOB_ID; cat /proc/self/cgroup");
    eprintln!("with a job: in and out within {}", seconds(since.elapsed()));
    assert_eq!(inside.status, 0, "{inside:?}");
    assert!(inside.said.contains("alice\n") && inside.said.contains(&format!("job={job}\n")), "{inside:?}");
    let confined = inside.said.lines().filter(|line| line.contains(&format!("/job_{job}/step_extern"))).count();
    assert!(confined > 0, "the session is in no control group of the job: {inside:?}");
    eprintln!("the session was in {confined} control groups of job {job}");
    for (user, worker) in [("bob", "worker-0"), ("alice", "worker-1")] {
        let refused = visit(slurm, user, worker, "true");
        assert!(refused.is_refused(), "{user} on {worker}: {refused:?}");
    }
    let root = visit(slurm, "root", "worker-0", "true");
    assert!(root.status == 255 && root.said.contains("Permission denied"), "{root:?}");

    // The session ends with the job, and no other is permitted.
    let stays = format!("{SSH} alice@worker-0.slurm-workers-slurm 'echo in; exec sleep 1000' >/session 2>&1; echo over >>/session");
    scene.in_client(&["sh", "-c", &format!("({stays}) >/dev/null 2>&1 &")]).unwrap();
    let session = async |end: &str| {
        eventually(&format!("the session to say `{end}`"), async || {
            let said = scene.in_client(&["cat", "/session"]).map_err(|failure| failure.to_string())?;
            if said.lines().any(|line| line == end) { Ok(()) } else { Err(said) }
        })
        .await
        .unwrap();
    };
    session("in").await;
    slurm.on_controller(&["scancel", &job.to_string()]).unwrap();
    let since = Instant::now();
    session("over").await;
    eprintln!("the session ended {} after the job was cancelled", seconds(since.elapsed()));
    // While the job's last process ends sshd closes the connection without a message.
    eventually("the refusal to be said", async || {
        let refused = visit(slurm, "alice", "worker-0", "true");
        assert_eq!(refused.status, 255, "{refused:?}");
        if refused.is_refused() { Ok(()) } else { Err(refused.said) }
    })
    .await
    .unwrap();
    scene.ground.end().unwrap();
}

#[tokio::test]
async fn sshd_follows_its_configuration_and_goes_when_it_is_switched_off() {
    let scene = Scene::without_secret("sshd").await;
    let slurm = &scene.slurm;
    scene.sssd("one");
    slurm.until_ready(Progress::Quiet).await.unwrap();
    // A new sshd_config is a new template; a new sssd.conf reaches only new workers.
    let uids = || ["worker-0", "worker-1"].map(|pod| slurm.uid(pod));
    let before = uids();
    scene.sssd("two");
    steadily("nobody to be replaced", A_WHILE, async || if uids() == before { Ok(()) } else { Err(format!("{:?}", uids())) })
        .await
        .unwrap();
    patch(slurm, &json!({ "spec": { "ssh": { "extraSshdConfig": format!("{KEYS}LoginGraceTime 33\n") } } }));
    until_updated(slurm).await;
    assert!(before.iter().zip(uids()).all(|(before, now)| *before != now));
    let effective = slurm.on_worker("worker-0", &["sshd", "-T"]).unwrap().to_lowercase();
    assert!(effective.contains("logingracetime 33\n") && effective.contains("usepam yes\n"), "{effective}");
    assert!(slurm.on_worker("worker-0", &["cat", "/etc/sssd/sssd.conf"]).unwrap().contains("two"));

    // Lines that sshd does not understand keep sshd from starting, and nothing else.
    let is_closed = || {
        let closed = visit(slurm, "alice", "worker-0", "true");
        assert!(closed.status == 255 && closed.said.contains("Connection refused"), "{closed:?}");
    };
    patch(slurm, &json!({ "spec": { "ssh": { "extraSshdConfig": format!("{KEYS}NoSuchOption yes\n") } } }));
    until_updated(slurm).await;
    is_closed();
    let log = slurm.kubectl(&["logs", "worker-0", "--container=slurmd"]).unwrap();
    assert!(log.contains("NoSuchOption") && log.contains("sshd is not started"), "{log}");

    // Disabled again: nothing listens, and no object is left.
    patch(slurm, &json!({ "spec": { "ssh": { "enabled": false } } }));
    until_updated(slurm).await;
    eventually("the ConfigMap to go", async || {
        let found = config_maps(slurm);
        if found.contains("worker-ssh-config") { Err(found) } else { Ok(()) }
    })
    .await
    .unwrap();
    is_closed();
    scene.ground.end().unwrap();
}
