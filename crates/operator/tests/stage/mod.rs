//! An API server of its own for each test, and processes of the operator beside it, with no rights but those of its manifest.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(unreachable_pub, reason = "a module of tests")]

pub mod cluster;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request};
use kube::Client;
use serde_json::{Value, json};
use slipway_bed::Bed;
use slipway_bed::cache::Cache;
use slipway_bed::layout::API_PORT;
use slipway_bed::up::{Wanted, up};

const PATIENCE: Duration = Duration::from_mins(3);
pub const NAMESPACE: &str = "slurm";
pub const OPERATOR_USER: &str = "system:serviceaccount:slipway-system:slipway";

/// A bed with our definitions and our manifest.
pub struct Stage {
    pub bed: Bed,
    pub client: Client,
}

/// A process of the operator; it ends with the test.
pub struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the API server answered.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

impl Stage {
    pub async fn new(name: &str) -> Self {
        let cache = Cache::open().unwrap();
        let bed = up(&cache, &Wanted::api_only(format!("{name}-{}", std::process::id()).parse().unwrap())).await.unwrap();
        let stage = Self { client: bed.client().await.unwrap(), bed };
        stage.apply("charts/slurm-operator-crds/templates");
        stage.apply("deploy/operator.yaml");
        stage.kubectl(&["create", "namespace", NAMESPACE]);
        stage
    }

    pub fn kubectl(&self, args: &[&str]) -> String {
        self.bed.kubectl().args(args).output().unwrap()
    }

    pub fn apply(&self, path: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "--filename", path.to_str().unwrap()]);
    }

    /// Starts the operator inside the bed's network, where the API server can reach it, as its own service account.
    pub fn operator(&self, log: &str, args: &[&str]) -> Operator {
        let inside = self.bed.enter(None).unwrap();
        let target = inside.iter().find(|word| word.starts_with("--target=")).unwrap();
        let log = std::fs::File::options().create(true).append(true).open(self.bed.layout().log(log)).unwrap();
        // Into the network alone, without a process between: who ends it ends the operator.
        let mut command = Command::new("nsenter");
        command.args([target, "--net", "--"]).arg(env!("CARGO_BIN_EXE_slipway"));
        command.arg("--kubeconfig").arg(self.account(Some(&format!("https://127.0.0.1:{API_PORT}"))));
        spawn(command, args, log)
    }

    /// Starts the operator outside the bed's network, where this process can serve stand-ins for Slurm. The API server does not reach it there.
    pub fn operator_outside(&self, log: &str, args: &[&str]) -> Operator {
        let log = std::fs::File::options().create(true).append(true).open(self.bed.layout().log(log)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_slipway"));
        command.arg("--kubeconfig").arg(self.account(None));
        spawn(command, args, log)
    }

    /// A kubeconfig that names the service account by a token and knows nothing else.
    fn account(&self, server: Option<&str>) -> PathBuf {
        let token = self.kubectl(&["create", "token", "slipway", "--namespace=slipway-system"]);
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(self.bed.kubeconfig()).unwrap()).unwrap();
        config["users"][0]["user"] = json!({ "token": token.trim() });
        if let Some(server) = server {
            config["clusters"][0]["cluster"]["server"] = server.into();
        }
        config["contexts"][0]["context"]["namespace"] = "slipway-system".into();
        let path = self.bed.layout().root.join("slipway.kubeconfig");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Runs a command inside the bed's network.
    pub fn inside(&self, command: &[&str]) -> String {
        let inside = self.bed.enter(None).unwrap();
        let output = Command::new(&inside[0]).args(&inside[1..]).args(command).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn log(&self, log: &str) -> String {
        std::fs::read_to_string(self.bed.layout().log(log)).unwrap_or_default()
    }

    /// Writes of the operator in the API server's audit log: verb, resource and name.
    pub fn writes(&self) -> Vec<String> {
        let words = |event: Value| format!("{} {} {}", event["verb"], event["objectRef"]["resource"], event["objectRef"]["name"]);
        self.audit().into_iter().map(words).collect()
    }

    /// Writes of the operator, as the API server's audit log has them.
    pub fn audit(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.bed.layout().audit_log()).unwrap_or_default();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["user"]["username"] == OPERATOR_USER).collect()
    }

    /// Creates an object of ours in the test's namespace.
    pub async fn create(&self, plural: &str, object: &Value) -> Answer {
        let path = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{NAMESPACE}/{plural}");
        self.send(Request::post(path).header("content-type", "application/json").body(object.to_string().into_bytes()).unwrap()).await
    }

    /// Changes a part of an object of ours.
    pub async fn patch(&self, plural: &str, name: &str, patch: &Value) -> Answer {
        self.edit(&format!("/apis/slinky.slurm.net/v1beta1/namespaces/{NAMESPACE}/{plural}/{name}"), patch).await
    }

    /// Changes a part of any object.
    pub async fn edit(&self, path: &str, patch: &Value) -> Answer {
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        self.send(request.body(patch.to_string().into_bytes()).unwrap()).await
    }

    /// Makes any object what it should be, as `kubectl apply --server-side` does: what it had before and `object` lacks goes.
    pub async fn put(&self, path: &str, object: &Value) -> Answer {
        let request = Request::patch(format!("{path}?fieldManager=test&force=true")).header("content-type", "application/apply-patch+yaml");
        self.send(request.body(object.to_string().into_bytes()).unwrap()).await
    }

    /// Deletes any object; `policy` says what becomes of what it owns.
    pub async fn delete(&self, path: &str, policy: &str) -> Answer {
        let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy });
        let request = Request::delete(path).header("content-type", "application/json");
        self.send(request.body(options.to_string().into_bytes()).unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Value {
        self.send(Request::get(path).body(Vec::new()).unwrap()).await.body
    }

    /// An object of ours.
    pub async fn object(&self, plural: &str, name: &str) -> Value {
        self.get(&format!("/apis/slinky.slurm.net/v1beta1/namespaces/{NAMESPACE}/{plural}/{name}")).await
    }

    /// Replaces any object, as a client does that changes what it read.
    pub async fn replace(&self, path: &str, object: &Value) -> Answer {
        self.send(Request::put(path).header("content-type", "application/json").body(object.to_string().into_bytes()).unwrap()).await
    }

    async fn send(&self, request: Request<Vec<u8>>) -> Answer {
        let response = self.client.send(request.map(Into::into)).await.unwrap();
        let (code, warnings) = (response.status().as_u16(), warnings(response.headers()));
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        Answer { code, body: serde_json::from_slice(&body).unwrap_or_default(), warnings }
    }

    /// Takes the bed down and says when that fails.
    pub fn end(self) {
        self.bed.down().unwrap();
    }
}

fn spawn(mut command: Command, args: &[&str], log: std::fs::File) -> Operator {
    command.args(["--health-addr=127.0.0.1:0", "--metrics-addr=0"]).args(args).stdout(Stdio::null()).stderr(log);
    Operator(command.spawn().unwrap())
}

fn warnings(headers: &HeaderMap) -> Vec<String> {
    headers.get_all("warning").iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// A condition of an object.
pub fn condition(object: &Value, type_: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}

/// Asks until there is an answer; the last `Err` says what is missing.
pub async fn eventually<T, F: Future<Output = Result<T, String>>>(what: &str, ask: impl Fn() -> F) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(missing) => assert!(Instant::now() < until, "waited for {what}, in vain: {missing}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A Controller with `spec` beside its keys.
pub fn controller(name: &str, spec: &Value) -> Value {
    let key = json!({ "name": "keys", "key": "key" });
    let mut object = json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "Controller", "metadata": { "name": name },
        "spec": { "slurmKeyRef": key, "jwtKeyRef": key },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}
