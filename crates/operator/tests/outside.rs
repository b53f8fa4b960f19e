//! The operator outside a cluster, as its own service account: a real API server, no rights but those of its manifest.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_bed::Bed;
use slipway_bed::cache::Cache;
use slipway_bed::up::{Wanted, up};

const PATIENCE: Duration = Duration::from_secs(30);

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

fn apply(bed: &Bed, path: &str) {
    kubectl(bed, &["apply", "--server-side", "--filename", project(path).to_str().unwrap()]);
}

/// A kubeconfig that names the service account by a token and knows nothing else.
fn kubeconfig_of_the_account(bed: &Bed) -> PathBuf {
    let token = kubectl(bed, &["create", "token", "slipway", "--namespace=slipway-system"]);
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(bed.kubeconfig()).unwrap()).unwrap();
    config["users"][0]["user"] = json!({"token": token.trim()});
    let path = bed.layout().root.join("slipway.kubeconfig");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// Asks for one value until it holds what is wanted.
fn wait_for(bed: &Bed, args: &[&str], wanted: &[&str]) {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = bed.kubectl().args(args).output();
        if answer.as_ref().is_ok_and(|text| wanted.iter().all(|part| text.contains(part))) {
            return;
        }
        assert!(Instant::now() < until, "kubectl {args:?} does not say {wanted:?} but {answer:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[tokio::test]
async fn outside_a_cluster_and_with_no_more_than_its_rights_it_names_what_is_missing_and_goes_on_when_it_comes() {
    let cache = Cache::open().unwrap();
    let bed = up(&cache, &Wanted::api_only(format!("outside-{}", std::process::id()).parse().unwrap())).await.unwrap();
    apply(&bed, "charts/slurm-operator-crds/templates");
    apply(&bed, "deploy/operator.yaml");
    let log = std::fs::File::create(bed.layout().log("slipway")).unwrap();
    let operator = Command::new(env!("CARGO_BIN_EXE_slipway"))
        .arg("--kubeconfig")
        .arg(kubeconfig_of_the_account(&bed))
        .args(["--health-addr=127.0.0.1:0", "--metrics-addr=0"])
        .stdout(log)
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let _operator = Operator(operator);

    kubectl(&bed, &["create", "namespace", "slurm"]);
    apply(&bed, "examples/demo.yaml");
    let message = "--output=jsonpath={.status.conditions[?(@.type=='Ready')].message}";
    let controller = ["get", "controllers.slinky.slurm.net", "slurm", "--namespace=slurm", message];
    wait_for(&bed, &controller, &["Secret `slurm/slurm-keys`", "spec.slurmKeyRef"]);
    kubectl(
        &bed,
        &["create", "secret", "generic", "slurm-keys", "--namespace=slurm", "--from-literal=slurm.key=0123456789abcdef0123456789abcdef"],
    );
    wait_for(&bed, &controller, &["jwt.key"]);
    let patch = r#"{"stringData":{"jwt.key":"0123456789abcdef0123456789abcdef"}}"#;
    kubectl(&bed, &["patch", "secret", "slurm-keys", "--namespace=slurm", "--patch", patch]);
    wait_for(&bed, &["get", "statefulset", "slurm-controller", "--namespace=slurm", "--output=name"], &["slurm-controller"]);
    wait_for(&bed, &["get", "deployment", "slurm-restapi", "--namespace=slurm", "--output=name"], &["slurm-restapi"]);
    // There is no kubelet, so slurmctld never gets up, and workers wait for it.
    let nodeset = ["get", "nodesets.slinky.slurm.net", "worker", "--namespace=slurm", message];
    wait_for(&bed, &nodeset, &["slurmctld"]);
    bed.down().unwrap();
}
