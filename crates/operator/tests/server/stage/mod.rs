//! A namespace for each test on a shared API server, or a server of its own if a test changes the server itself; and operator processes with only
//! the rights of the manifest.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(unreachable_pub, reason = "a module of tests")]

mod audit;
pub mod cluster;
mod sweep;
mod world;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, Request};
use kube::Client;
use serde_json::{Value, json};
use slipway_bed::Bed;
use slipway_bed::bed::take_down;
use slipway_bed::cache::Cache;
use slipway_bed::layout::API_PORT;
use slipway_bed::patience;
use slipway_bed::turn::Turn;
use slipway_bed::up::{Wanted, up};
use slipway_sim::Sim;

use self::audit::AuditLog;
use self::world::World;

pub const OPERATOR_USER: &str = "system:serviceaccount:slipway-system:slipway";
/// Environment variable with the name of the bed whose API server tests share. It has our CRDs and our manifest, and no operator.
const SHARED: &str = "SLIPWAY_SHARED_API";
/// The namespace of a test that has a server of its own.
const OWN_NAMESPACE: &str = "slurm";
/// Interval between two requests to the API server in a wait.
const POLL: Duration = Duration::from_millis(100);
/// Timeout for printing the state after a failure, and for the cleanup.
const LAST_WORDS: Duration = Duration::from_mins(1);

/// An API server with our CRDs and our manifest, and a namespace for the test.
pub struct Stage {
    pub bed: Bed,
    pub client: Client,
    /// Namespace of the test; names of its other namespaces start with it.
    pub namespace: String,
    /// Unique on this machine.
    id: String,
    cache: Cache,
    is_shared: bool,
    audit: Mutex<AuditLog>,
    made: Mutex<Made>,
    _turn: Turn,
}

/// Namespaces, simulators and logs of a test.
#[derive(Default)]
struct Made {
    namespaces: Vec<String>,
    sims: Vec<(String, Sim)>,
    logs: Vec<PathBuf>,
}

/// A process of the operator, killed when dropped.
pub struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Response of the API server.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

impl Stage {
    /// A namespace on the server that tests share, or on a server of its own if there is none, as when one test runs alone.
    pub async fn new(name: &str) -> Self {
        let cache = Cache::open().unwrap();
        let id = format!("{name}-{}", std::process::id());
        let shared = std::env::var(SHARED).ok().filter(|name| !name.is_empty());
        let turn = Turn::take(&cache, 0).await.unwrap();
        match shared.map(|name| Bed::open(&cache, &name.parse().unwrap()).unwrap()) {
            Some(bed) => Self::on(bed, true, &id.clone(), id, cache, turn).await,
            None => Self::on(own_bed(&cache, &id).await, false, &id.clone(), id, cache, turn).await,
        }
    }

    /// A server of its own, for a test that changes the server, its CRDs, webhooks or roles.
    pub async fn alone(name: &str) -> Self {
        let cache = Cache::open().unwrap();
        let turn = Turn::take(&cache, 0).await.unwrap();
        let id = format!("{name}-{}", std::process::id());
        Self::on(own_bed(&cache, &id).await, false, OWN_NAMESPACE, id, cache, turn).await
    }

    async fn on(bed: Bed, is_shared: bool, namespace: &str, id: String, cache: Cache, turn: Turn) -> Self {
        let stage = Self {
            client: bed.client().await.unwrap(),
            audit: Mutex::new(AuditLog::from_now(&bed.layout().audit_log())),
            bed,
            namespace: namespace.to_owned(),
            id,
            cache,
            is_shared,
            made: Mutex::default(),
            _turn: turn,
        };
        stage.make_namespace(namespace.to_owned()).await;
        stage
    }

    /// Creates another namespace of the test. It must exist before the operator starts.
    pub async fn namespace_named(&self, name: &str) -> String {
        self.make_namespace(format!("{}-{name}", self.namespace)).await
    }

    async fn make_namespace(&self, name: String) -> String {
        assert!(!self.is_shared || self.made().logs.is_empty(), "an operator runs already that does not look after `{name}`");
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let answer = self.put(&format!("/api/v1/namespaces/{name}"), &namespace).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        self.made().namespaces.push(name.clone());
        name
    }

    /// `words` with the stage's namespace in place of `slurm/`, as in ``Secret `slurm/keys` does not exist``.
    pub fn here(&self, words: &str) -> String {
        words.replace("`slurm/", &format!("`{}/", self.namespace))
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn kubectl(&self, args: &[&str]) -> String {
        self.bed.kubectl().args(args).output().unwrap()
    }

    pub fn apply(&self, path: &str) {
        apply(&self.bed, path);
    }

    /// Starts the operator inside the bed's network, where the API server can reach it, as its own service account.
    pub fn operator(&self, log: &str, args: &[&str]) -> Operator {
        let inside = self.bed.enter(None).unwrap();
        let target = inside.iter().find(|word| word.starts_with("--target=")).unwrap();
        // Enters only the network, with no process in between: killing this process kills the operator.
        let mut command = Command::new("nsenter");
        command.args([target, "--net", "--"]).arg(env!("CARGO_BIN_EXE_slipway"));
        command.arg("--kubeconfig").arg(self.account(Some(&format!("https://127.0.0.1:{API_PORT}"))));
        self.spawn(command, args, log)
    }

    /// Starts the operator outside the bed's network, where this process can serve simulators of Slurm. The API server cannot reach it there.
    pub fn operator_outside(&self, log: &str, args: &[&str]) -> Operator {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slipway"));
        command.arg("--kubeconfig").arg(self.account(None));
        self.spawn(command, args, log)
    }

    fn spawn(&self, mut command: Command, args: &[&str], log: &str) -> Operator {
        let path = self.log_path(log);
        let file = std::fs::File::options().create(true).append(true).open(&path).unwrap();
        command.args(["--health-addr=127.0.0.1:0", "--metrics-addr=0"]).args(args).stdout(Stdio::null()).stderr(file);
        if !args.iter().any(|arg| arg.starts_with("--webhook-addr")) {
            command.arg("--webhook-addr=0");
        }
        let mut made = self.made();
        if self.is_shared {
            command.arg(format!("--namespaces={}", made.namespaces.join(",")));
        }
        if !made.logs.contains(&path) {
            made.logs.push(path);
        }
        Operator(command.spawn().unwrap())
    }

    /// Writes a kubeconfig with a token of the service account and no other credentials.
    fn account(&self, server: Option<&str>) -> PathBuf {
        let token = self.kubectl(&["create", "token", "slipway", "--namespace=slipway-system"]);
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(self.bed.kubeconfig()).unwrap()).unwrap();
        config["users"][0]["user"] = json!({ "token": token.trim() });
        if let Some(server) = server {
            config["clusters"][0]["cluster"]["server"] = server.into();
        }
        config["contexts"][0]["context"]["namespace"] = "slipway-system".into();
        let path = self.bed.layout().root.join(format!("{}.kubeconfig", self.id));
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
        std::fs::read_to_string(self.log_path(log)).unwrap_or_default()
    }

    fn log_path(&self, log: &str) -> PathBuf {
        self.bed.layout().log(&format!("{log}-{}", self.id))
    }

    /// Registers a simulator of Slurm, so that its nodes and jobs are printed if the test fails.
    pub fn note_sim(&self, namespace: &str, sim: &Sim) {
        self.made().sims.push((namespace.to_owned(), sim.clone()));
    }

    /// The operator's writes in the API server's audit log: verb, resource and name.
    pub fn writes(&self) -> Vec<String> {
        let words = |event: Value| format!("{} {} {}", event["verb"], event["objectRef"]["resource"], event["objectRef"]["name"]);
        self.audit().into_iter().map(words).collect()
    }

    /// Audit events of the operator's writes. On a shared server only those in the test's namespaces: others belong to no particular test.
    pub fn audit(&self) -> Vec<Value> {
        let namespaces = self.made().namespaces.clone();
        let is_here = |event: &Value| namespaces.iter().any(|namespace| event["objectRef"]["namespace"] == namespace.as_str());
        let mut audit = self.audit.lock().unwrap_or_else(PoisonError::into_inner);
        audit.writes(|event| !self.is_shared || is_here(event))
    }

    /// Creates one of our resources in the test's namespace.
    pub async fn create(&self, plural: &str, object: &Value) -> Answer {
        let path = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/{plural}", self.namespace);
        self.send(Request::post(path).header("content-type", "application/json").body(object.to_string().into_bytes()).unwrap()).await
    }

    /// Patches one of our resources.
    pub async fn patch(&self, plural: &str, name: &str, patch: &Value) -> Answer {
        self.edit(&format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/{plural}/{name}", self.namespace), patch).await
    }

    /// Patches any object.
    pub async fn edit(&self, path: &str, patch: &Value) -> Answer {
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        self.send(request.body(patch.to_string().into_bytes()).unwrap()).await
    }

    /// Applies any object as `kubectl apply --server-side` does: fields that it had before and `object` lacks are removed.
    pub async fn put(&self, path: &str, object: &Value) -> Answer {
        let request = Request::patch(format!("{path}?fieldManager=test&force=true")).header("content-type", "application/apply-patch+yaml");
        self.send(request.body(object.to_string().into_bytes()).unwrap()).await
    }

    /// Deletes any object; `policy` is the propagation policy for the objects it owns.
    pub async fn delete(&self, path: &str, policy: &str) -> Answer {
        let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy });
        let request = Request::delete(path).header("content-type", "application/json");
        self.send(request.body(options.to_string().into_bytes()).unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Value {
        self.send(Request::get(path).body(Vec::new()).unwrap()).await.body
    }

    /// One of our resources.
    pub async fn object(&self, plural: &str, name: &str) -> Value {
        self.get(&format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/{plural}/{name}", self.namespace)).await
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

    /// Takes down the test's own bed, and panics if that fails.
    pub fn end(self) {
        if !self.is_shared {
            take_down(&self.cache, self.bed.layout()).unwrap();
        }
    }

    /// Runs `work` with a client and a runtime of its own: the test's runtime may be shutting down.
    fn apart<T: Send>(&self, work: impl AsyncFnOnce(Client) -> T + Send) -> Option<T> {
        let done = async || tokio::time::timeout(LAST_WORDS, work(self.bed.client().await.ok()?)).await.ok();
        let run = || tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?.block_on(done());
        std::thread::scope(|scope| scope.spawn(run).join().ok().flatten())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let Made { namespaces, sims, logs } = std::mem::take(&mut *self.made());
        let world = World { namespaces, sims, logs };
        if std::thread::panicking() {
            let state = self.apart(async |client| world.describe(&client).await);
            eprintln!("the state of the world:\n{}", state.unwrap_or_else(|| "the API server does not say".to_owned()));
        }
        if self.is_shared {
            self.apart(async |client| sweep::sweep(&client, &world.namespaces).await);
        }
    }
}

async fn own_bed(cache: &Cache, id: &str) -> Bed {
    let bed = up(cache, &Wanted::api_only(id.parse().unwrap())).await.unwrap();
    apply(&bed, "charts/slurm-operator-crds/templates");
    apply(&bed, "deploy/operator.yaml");
    bed
}

fn apply(bed: &Bed, path: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    bed.kubectl().args(["apply", "--server-side", "--force-conflicts", "--filename"]).arg(path).output().unwrap();
}

fn warnings(headers: &HeaderMap) -> Vec<String> {
    headers.get_all("warning").iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// A condition of an object, or null if it has none of this type.
pub fn condition(object: &Value, type_: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}

/// Waits until a condition of an object is as meant, and returns it.
pub async fn until_condition(object: impl AsyncFn() -> Value, type_: &str, is_meant: impl Fn(&Value) -> bool) -> Value {
    eventually(&format!("condition {type_}"), async || {
        let found = condition(&object().await, type_);
        if is_meant(&found) { Ok(found) } else { Err(found.to_string()) }
    })
    .await
}

/// True if the message of a condition contains all of these words.
pub fn says(condition: &Value, words: &[&str]) -> bool {
    let message = condition["message"].as_str().unwrap_or_default();
    words.iter().all(|words| message.contains(words))
}

/// Calls `ask` until it returns `Ok`; the last `Err` tells what is missing.
pub async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Result<T, String>) -> T {
    patience::eventually(what, [POLL; 2], ask).await.unwrap_or_else(|failure| panic!("{failure}"))
}

/// A Controller with its keys and `spec`.
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
