//! Objects that ssh into workers needs are created and deleted with it; missing ones are reported, and cost no existing worker.

use serde_json::{Value, json};
use slipway_api::annotation::{SSHD_CONF_HASH, SSSD_CONF_HASH};

use crate::stage::cluster::{Cluster, operator};
use crate::stage::{Stage, condition, controller, eventually, says};

const NODESET: &str = "worker";
const FILE: &str = "sssd.conf";

async fn config_map(cluster: &Cluster<'_>) -> Value {
    cluster.stage.get(&path(cluster, "configmaps/worker-ssh-config")).await
}

fn path(cluster: &Cluster<'_>, object: &str) -> String {
    format!("/api/v1/namespaces/{}/{object}", cluster.namespace)
}

/// Writes the Secret as a user does.
async fn put_secret(cluster: &Cluster<'_>, data: &Value) {
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "sssd" }, "stringData": data });
    let answer = cluster.stage.put(&path(cluster, "secrets/sssd"), &secret).await;
    assert!(answer.code < 300, "{answer:?}");
}

async fn patch(cluster: &Cluster<'_>, spec: &Value) {
    let nodeset = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/nodesets/{NODESET}", cluster.namespace);
    let answer = cluster.stage.edit(&nodeset, &json!({ "spec": spec })).await;
    assert_eq!(answer.code, 200, "{answer:?}");
}

async fn until_reported(cluster: &Cluster<'_>, words: &str) {
    let words = cluster.stage.here(words);
    cluster.until_condition(NODESET, "Ready", |ready| says(ready, &[&words])).await;
}

/// Waits until every worker has the current template and is ready.
async fn until_updated(cluster: &Cluster<'_>, count: u64) {
    eventually(&format!("{count} workers of the present template"), async || {
        let nodeset = cluster.nodeset(NODESET).await;
        let is_so = nodeset["status"]["updatedReplicas"] == count
            && condition(&nodeset, "Ready")["status"] == "True"
            && nodeset["status"]["observedGeneration"] == nodeset["metadata"]["generation"];
        if is_so { Ok(()) } else { Err(nodeset["status"].to_string()) }
    })
    .await;
}

/// Each step towards a usable Secret is reported, and nothing is created until then.
async fn comes(cluster: &Cluster<'_>) {
    let ssh = json!({ "enabled": true, "sssdConfRef": { "name": "sssd", "key": FILE } });
    cluster.create_nodeset_with(NODESET, 2, &json!({ "ssh": ssh })).await;
    until_reported(cluster, "Secret `slurm/sssd` does not exist: create it or point spec.ssh.sssdConfRef elsewhere").await;
    put_secret(cluster, &json!({ "other": "x" })).await;
    until_reported(cluster, "Secret `slurm/sssd` has no key `sssd.conf`: add it or point spec.ssh.sssdConfRef elsewhere").await;
    put_secret(cluster, &json!({ "other": "x", (FILE): "" })).await;
    until_reported(cluster, "Secret `slurm/sssd` has no key `sssd.conf`").await;
    assert_eq!((cluster.pods(NODESET).await.len(), config_map(cluster).await["code"].clone()), (0, json!(404)));

    put_secret(cluster, &json!({ "other": "x", (FILE): "[sssd]\n" })).await;
    cluster.until_settled(NODESET, 2).await;
    let config = config_map(cluster).await;
    assert!(config["data"]["sshd_config"].as_str().unwrap().contains("\nUsePAM yes\n"), "{config}");
    for pod in cluster.pods(NODESET).await {
        let (container, annotations) = (&pod["spec"]["containers"][0], &pod["metadata"]["annotations"]);
        assert!(
            container["ports"].as_array().unwrap().iter().any(|port| port["name"] == "ssh" && port["containerPort"] == 22),
            "{container}"
        );
        for (annotation, mounted) in [(SSHD_CONF_HASH, "/etc/ssh/sshd_config"), (SSSD_CONF_HASH, "/etc/sssd/sssd.conf")] {
            assert_eq!(annotations[annotation].as_str().map(str::len), Some(64), "{annotations}");
            assert!(container["volumeMounts"].to_string().contains(mounted), "{container}");
        }
    }
}

/// A new process without cached state reconciles everything and writes nothing.
async fn until_at_rest(stage: &Stage, cluster: &Cluster<'_>) {
    let (writes, questions) = (cluster.writes().len(), cluster.sim.requests("GET"));
    let _operator = operator(stage);
    eventually("Slurm to be asked several times", async || match cluster.sim.requests("GET") - questions {
        0..12 => Err("it was asked too little".to_owned()),
        _ => Ok(()),
    })
    .await;
    let written = cluster.writes().split_off(writes);
    assert!(written.is_empty(), "{written:?}");
}

/// A change of the sshd configuration replaces workers; a change of the Secret, or an edit of the ConfigMap by others, does not.
async fn changes(cluster: &Cluster<'_>) {
    let before = cluster.uids(NODESET).await;
    put_secret(cluster, &json!({ (FILE): "[sssd]\nservices = nss\n" })).await;
    // Without a change of the resource that names it, a Secret is read every few minutes.
    let note = json!({ "metadata": { "annotations": { "slipway.dev/read-secrets": "new" } } });
    cluster.stage.patch("nodesets", NODESET, &note).await;
    let edited = cluster
        .stage
        .edit(&path(cluster, "configmaps/worker-ssh-config"), &json!({ "data": { "sshd_config": "UsePAM no\n", "x": "y" } }))
        .await;
    assert_eq!(edited.code, 200, "{edited:?}");
    eventually("the stranger's lines to go", async || {
        let config = config_map(cluster).await;
        let is_ours = config["data"]["x"].is_null() && config["data"]["sshd_config"].as_str().unwrap_or_default().contains("UsePAM yes");
        if is_ours { Ok(()) } else { Err(config["data"].to_string()) }
    })
    .await;
    until_updated(cluster, 2).await;
    assert_eq!(cluster.uids(NODESET).await, before);

    patch(cluster, &json!({ "ssh": { "extraSshdConfig": "LoginGraceTime 30" } })).await;
    until_updated(cluster, 2).await;
    assert!(cluster.uids(NODESET).await.iter().all(|(pod, uid)| before.get(pod) != Some(uid)));
    assert!(config_map(cluster).await["data"]["sshd_config"].as_str().unwrap().ends_with("\nLoginGraceTime 30\n"));
}

/// Without the Secret no worker is deleted, as its successor could not be created; with it, the update continues.
async fn misses(cluster: &Cluster<'_>) {
    let is_drained = || cluster.sim.world(|world| world.nodes.values().any(|node| node.is_draining));
    // A worker of the last update counts as ready a moment before the drain of its predecessor is lifted.
    eventually("the last update to be over", async || if is_drained() { Err("a node is drained".to_owned()) } else { Ok(()) }).await;
    let before = cluster.uids(NODESET).await;
    cluster.stage.delete(&path(cluster, "secrets/sssd"), "Background").await;
    patch(cluster, &json!({ "ssh": { "extraSshdConfig": "LoginGraceTime 40" } })).await;
    until_reported(cluster, "Secret `slurm/sssd` does not exist").await;
    let asked = cluster.sim.requests("GET");
    eventually("a few more passes", async || if cluster.sim.requests("GET") > asked + 5 { Ok(()) } else { Err("none".to_owned()) }).await;
    assert_eq!(cluster.uids(NODESET).await, before);
    assert!(!is_drained(), "somebody was drained in vain");
    put_secret(cluster, &json!({ (FILE): "[sssd]\n" })).await;
    until_updated(cluster, 2).await;
}

/// A Secret that may not be read is reported as such, and costs no worker either.
async fn is_forbidden(cluster: &Cluster<'_>) {
    const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/slipway";
    let (before, role) = (cluster.uids(NODESET).await, cluster.stage.get(ROLE).await);
    let others: Vec<Value> =
        role["rules"].as_array().unwrap().iter().filter(|rule| rule["resources"] != json!(["secrets"])).cloned().collect();
    let answer = cluster.stage.edit(ROLE, &json!({ "rules": others })).await;
    assert!(answer.code == 200 && others.len() < role["rules"].as_array().unwrap().len(), "{answer:?}");
    patch(cluster, &json!({ "ssh": { "extraSshdConfig": "LoginGraceTime 50" } })).await;
    until_reported(cluster, "Secret `slurm/sssd`, which spec.ssh.sssdConfRef names, cannot be read and is tried again: ").await;
    assert_eq!(cluster.uids(NODESET).await, before);
    cluster.stage.edit(ROLE, &json!({ "rules": role["rules"] })).await;
    until_updated(cluster, 2).await;
}

/// With ssh disabled, the ConfigMap stays for a worker that is busy with the old template, and is deleted with it.
async fn goes(cluster: &Cluster<'_>) {
    let job = cluster.run_job(NODESET, &["worker-0"], 3600).await;
    let before = cluster.uids(NODESET).await;
    patch(cluster, &json!({ "ssh": { "enabled": false } })).await;
    eventually("the idle one to be replaced", async || {
        let now = cluster.uids(NODESET).await;
        let left = now.iter().filter(|(pod, uid)| before.get(*pod) == Some(*uid)).count();
        if now.len() == 2 && left == 1 { Ok(()) } else { Err(format!("{left} of {} are as before", now.len())) }
    })
    .await;
    cluster.until_settled(NODESET, 2).await;
    assert_eq!(config_map(cluster).await["kind"], "ConfigMap", "a worker that has it runs on");
    assert!(cluster.are_running(&[job]));
    cluster.end_job(job);
    eventually("the ConfigMap to go", async || match config_map(cluster).await["code"].as_u64() {
        Some(404) => Ok(()),
        _ => Err(condition(&cluster.nodeset(NODESET).await, "Ready").to_string()),
    })
    .await;
    until_updated(cluster, 2).await;
    let deletions = cluster.writes().into_iter().filter(|write| write.verb == "delete" && write.resource == "configmaps").count();
    assert_eq!(deletions, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ssh_needs_comes_and_goes_with_it() {
    let stage = Stage::new("ssh").await;
    let cluster = Cluster::start(&stage).await;
    let first = operator(&stage);
    comes(&cluster).await;
    until_updated(&cluster, 2).await;
    drop(first);
    until_at_rest(&stage, &cluster).await;
    let _second = operator(&stage);
    changes(&cluster).await;
    misses(&cluster).await;
    goes(&cluster).await;
    drop(cluster);
    stage.end();
}

/// Removes RBAC rights, so it has a server of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_may_not_be_read_is_named_and_costs_no_worker() {
    let stage = Stage::alone("ssh-rights").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    put_secret(&cluster, &json!({ (FILE): "[sssd]\n" })).await;
    let ssh = json!({ "enabled": true, "sssdConfRef": { "name": "sssd", "key": FILE } });
    cluster.create_nodeset_with(NODESET, 2, &json!({ "ssh": ssh })).await;
    cluster.until_settled(NODESET, 2).await;
    until_updated(&cluster, 2).await;
    is_forbidden(&cluster).await;
    drop(cluster);
    stage.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_optional_secret_may_be_missing() {
    let stage = Stage::new("ssh-optional").await;
    let cluster = Cluster::start(&stage).await;
    let _operator = operator(&stage);
    let ssh = json!({ "enabled": true, "sssdConfRef": { "name": "sssd", "key": FILE, "optional": true } });
    cluster.create_nodeset_with(NODESET, 1, &json!({ "ssh": ssh })).await;
    cluster.until_settled(NODESET, 1).await;
    let pod = cluster.pods(NODESET).await[0]["spec"].to_string();
    assert!(pod.contains("/etc/ssh/sshd_config") && !pod.contains("sssd"), "{pod}");
    drop(cluster);
    stage.end();
}

#[tokio::test]
async fn where_jobs_have_no_step_for_logins_that_is_said() {
    let stage = Stage::new("ssh-contain").await;
    let _operator = stage.operator("slipway", &[]);
    let literal = "--from-literal=key=0123456789abcdef0123456789abcdef";
    stage.kubectl(&["create", "secret", "generic", "keys", "--namespace", &stage.namespace, literal]);
    assert_eq!(stage.create("controllers", &controller("c", &json!({ "slurmctld": { "image": "slurmctld" } }))).await.code, 201);
    let nodeset = json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": { "name": NODESET },
        "spec": { "controllerRef": { "name": "c" }, "slurmd": { "image": "slurmd" },
                  "ssh": { "enabled": true, "sssdConfRef": { "name": "keys", "key": "key" } } },
    });
    assert_eq!(stage.create("nodesets", &nodeset).await.code, 201);
    let doubt = async |is_expected: bool| {
        eventually(&format!("a doubt: {is_expected}"), async || {
            let said = condition(&stage.object("nodesets", NODESET).await, "SpecAccepted");
            let message = said["message"].as_str().unwrap_or_default();
            let is_said = message.contains("`PrologFlags=Contain`") && message.contains("Controller `c`");
            if is_said == is_expected { Ok(()) } else { Err(said.to_string()) }
        })
        .await;
    };
    doubt(true).await;
    assert_eq!(stage.patch("controllers", "c", &json!({ "spec": { "extraConf": "PrologFlags=Contain" } })).await.code, 200);
    doubt(false).await;
    stage.end();
}
