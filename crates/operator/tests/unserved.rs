//! What this release does not serve is said on the object, and what it would do wrongly it does not do: on a real API server.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod stage;

use std::{
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use slipway_bed::{
    Bed,
    cache::Cache,
    up::{Wanted, up},
};

use crate::stage::{NAMESPACE, Stage, eventually};

const PATIENCE: Duration = Duration::from_secs(30);

const OBJECTS: &str = r"
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: { name: outside, namespace: default }
spec: { external: true, externalConfig: { host: slurm.example.com, port: 6817 } }
---
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: { name: pair, namespace: default }
spec:
  slurmKeyRef: { name: keys, key: slurm.key }
  jwtKeyRef: { name: keys, key: jwt.key }
  ha: { enabled: true }
  persistence: { enabled: true, existingClaim: shared }
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: { name: everywhere, namespace: default }
spec: { controllerRef: { name: plain }, scalingMode: DaemonSet }
---
apiVersion: v1
kind: Secret
metadata: { name: keys, namespace: default }
stringData: { slurm.key: 0123456789abcdef0123456789abcdef, jwt.key: 0123456789abcdef0123456789abcdef }
---
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: { name: plain, namespace: default }
spec:
  slurmKeyRef: { name: keys, key: slurm.key }
  jwtHs256KeyRef: { name: keys, key: jwt.key }
  slurmctld: { image: slurmctld }
  accountingRef: { name: slurm }
";

/// The operator's process; it ends with the test.
struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn kubectl(bed: &Bed, args: &[&str]) -> String {
    bed.kubectl().args(args).output().unwrap()
}

/// Reason and message of a condition, once the object has it.
fn condition(bed: &Bed, object: &str, kind: &str) -> String {
    let path = format!("--output=jsonpath={{.status.conditions[?(@.type=='{kind}')]['status','reason','message']}}");
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = kubectl(bed, &["get", object, &path]);
        if !answer.is_empty() {
            return answer;
        }
        assert!(Instant::now() < until, "{object} has no condition {kind}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[tokio::test]
async fn what_is_not_served_is_said_and_what_would_be_wrong_is_not_done() {
    let cache = Cache::open().unwrap();
    let bed = up(&cache, &Wanted::api_only(format!("unserved-{}", std::process::id()).parse().unwrap())).await.unwrap();
    let definitions = project("charts/slurm-operator-crds/templates");
    kubectl(&bed, &["apply", "--server-side", "--filename", definitions.to_str().unwrap()]);
    let operator = Command::new(env!("CARGO_BIN_EXE_slipway"))
        .arg("--kubeconfig")
        .arg(bed.kubeconfig())
        .args(["--health-addr=127.0.0.1:0", "--metrics-addr=0"])
        .stderr(std::fs::File::create(bed.layout().log("slipway")).unwrap())
        .spawn()
        .unwrap();
    let operator = Operator(operator);
    let objects = bed.layout().root.join("objects.yaml");
    std::fs::write(&objects, OBJECTS).unwrap();
    kubectl(&bed, &["apply", "--server-side", "--filename", objects.to_str().unwrap()]);

    for (object, field) in [
        ("controllers.slinky.slurm.net/outside", "spec.external is not served"),
        ("controllers.slinky.slurm.net/pair", "spec.ha.enabled is not served"),
        ("nodesets.slinky.slurm.net/everywhere", "spec.scalingMode is not served"),
    ] {
        let answer = condition(&bed, object, "Ready");
        assert!(answer.starts_with("False NotServed") && answer.contains(field), "{object}: {answer}");
    }
    let version = || kubectl(&bed, &["get", "controllers.slinky.slurm.net/outside", "--output=jsonpath={.metadata.resourceVersion}"]);
    let once_said = version();
    let answer = condition(&bed, "controllers.slinky.slurm.net/plain", "SpecAccepted");
    assert!(answer.starts_with("True Warnings") && answer.contains("spec.accountingRef is not served"), "{answer}");

    // The plain one has its objects, so that the others' would be there by now as well.
    let until = Instant::now() + PATIENCE;
    while !kubectl(&bed, &["get", "statefulsets", "--output=name"]).contains("plain-controller") {
        assert!(Instant::now() < until, "the plain Controller has no StatefulSet");
        std::thread::sleep(Duration::from_millis(100));
    }
    let made = kubectl(&bed, &["get", "statefulsets,services,configmaps,pods,poddisruptionbudgets", "--output=name"]);
    assert!(!["outside", "pair", "everywhere", "workers"].iter().any(|name| made.contains(name)), "{made}");
    assert_eq!(version(), once_said, "what was said once is written again");
    drop(operator);
    bed.down().unwrap();
}

/// Kinds that are stored and not served: kind, plural, spec.
fn unserved_kinds() -> [(&'static str, &'static str, Value); 3] {
    let key = json!({ "name": "keys", "key": "key" });
    [
        (
            "Accounting",
            "accountings",
            json!({ "slurmKeyRef": key, "jwtHs256KeyRef": key, "storageConfig": { "host": "db", "passwordKeyRef": key } }),
        ),
        ("LoginSet", "loginsets", json!({ "controllerRef": { "name": "slurm" }, "sssdConfRef": key, "login": { "imgae": "x" } })),
        ("Token", "tokens", json!({ "jwtHs256KeyRef": key, "username": "alice" })),
    ]
}

/// Creates one of each kind and waits until each says that nothing is done about it.
async fn create_all(stage: &Stage, name: &str) {
    for (kind, plural, spec) in unserved_kinds() {
        let object = json!({ "apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": { "name": name }, "spec": spec });
        let answer = stage.create(plural, &object).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        eventually("Ready", async || {
            let object = stage.object(plural, name).await;
            let ready = stage::condition(&object, "Ready");
            if ready["reason"] == "NotServed" { Ok(()) } else { Err(object["status"].to_string()) }
        })
        .await;
    }
}

#[tokio::test]
async fn objects_of_a_kind_that_is_not_served_say_so_once_and_nothing_else_happens() {
    let stage = Stage::new("kinds").await;
    let operator = stage.operator("slipway", &[]);
    create_all(&stage, "first").await;
    for (kind, plural, doubt) in [
        ("Accounting", "accountings", "spec.jwtHs256KeyRef is deprecated"),
        ("LoginSet", "loginsets", "spec.login.imgae"),
        ("Token", "tokens", "spec.jwtHs256KeyRef is deprecated"),
    ] {
        let object = stage.object(plural, "first").await;
        let (ready, accepted) = (stage::condition(&object, "Ready"), stage::condition(&object, "SpecAccepted"));
        let message = ready["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{kind} is not served")) && message.contains("keep running it elsewhere"), "{message}");
        assert_eq!((&ready["status"], &ready["observedGeneration"]), (&json!("False"), &json!(1)), "{ready}");
        assert_eq!((&accepted["reason"], &accepted["observedGeneration"]), (&json!("Warnings"), &json!(1)), "{accepted}");
        assert!(accepted["message"].as_str().unwrap().contains(doubt), "{accepted}");
        assert!(object["metadata"]["finalizers"].is_null(), "{object}");
    }

    // A new process, and an event that changes nothing: the writes are those for the new objects alone.
    drop(operator);
    let before = stage.writes().len();
    let _operator = stage.operator("slipway", &[]);
    create_all(&stage, "second").await;
    let mut versions = Vec::new();
    for (_, plural, _) in unserved_kinds() {
        let answer = stage.patch(plural, "first", &json!({ "metadata": { "annotations": { "seen": "by others" } } })).await;
        versions.push((plural, answer.body["metadata"]["resourceVersion"].clone()));
    }
    create_all(&stage, "third").await;
    let mut writes = stage.writes().split_off(before);
    writes.sort();
    let expected: Vec<_> = unserved_kinds()
        .iter()
        .flat_map(|(_, plural, _)| ["second", "third"].map(|name| format!("\"patch\" \"{plural}\" \"{name}\"")))
        .collect();
    assert_eq!(writes, expected);
    for (plural, version) in versions {
        assert_eq!(stage.object(plural, "first").await["metadata"]["resourceVersion"], version, "{plural}");
        stage.kubectl(&["delete", &format!("{plural}.slinky.slurm.net"), "first", "--namespace", NAMESPACE, "--timeout=10s"]);
    }
    stage.end();
}
