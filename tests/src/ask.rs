//! Requests to the API server from code that does not await. Scenarios repeat a request many times, and a kubectl for each would take a tenth of a
//! second of a core.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, OnceLock, mpsc};
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::api::AttachParams;
use kube::{Api, Client};
use serde_json::Value;
use slipway_bed::failure::{Context, Failure};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::runtime::Runtime;

/// Timeout for a command in a pod, longer than any command of a scenario takes. A killed kubelet never responds.
const COMMAND_ENDS: Duration = Duration::from_mins(2);
pub(crate) const NOT_FOUND: u16 = 404;

/// Runtime that carries out requests while their caller's thread waits.
static RUNTIME: LazyLock<Option<Runtime>> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().ok());

/// An API server by its kubeconfig; it connects at the first request.
#[derive(Clone)]
pub struct ApiServer {
    kubeconfig: PathBuf,
    client: Arc<OnceLock<Client>>,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ApiServer").field("kubeconfig", &self.kubeconfig).finish_non_exhaustive()
    }
}

impl ApiServer {
    pub fn new(kubeconfig: PathBuf) -> Self {
        Self { kubeconfig, client: Arc::default() }
    }

    /// The object at a path, such as `/api/v1/nodes`.
    pub fn get(&self, path: &str) -> Result<Value, Failure> {
        self.find(path)?.ok_or_else(|| Failure::new(format!("{path} is not found")))
    }

    /// The object at a path, or `None` if the API server reports that it does not exist.
    pub fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        let request = Request::get(path).body(Vec::new()).context(|| format!("{path} is no path"))?;
        let client = self.client()?;
        let answer = wait_for(async move { client.request::<Value>(request).await })?;
        match answer {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(None),
            Err(error) => Err(Failure::new(format!("could not get {path}: {error}"))),
        }
    }

    /// Runs a command in a container and returns its output.
    pub fn exec(&self, namespace: &str, pod: &str, container: &str, command: &[&str]) -> Result<String, Failure> {
        let (client, namespace, pod, container) = (self.client()?, namespace.to_owned(), pod.to_owned(), container.to_owned());
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        wait_for(async move {
            let said = command.join(" ");
            let ended = tokio::time::timeout(COMMAND_ENDS, run(client, &namespace, &pod, &container, command)).await;
            ended.unwrap_or_else(|_| Err("it does not end".to_owned())).map_err(|why| Failure::new(format!("`{said}` in pod {pod}: {why}")))
        })?
    }

    pub(crate) fn client(&self) -> Result<Client, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let kubeconfig = self.kubeconfig.clone();
        let client = wait_for(async move { slipway_bed::client::from_kubeconfig(&kubeconfig).await })??;
        Ok(self.client.get_or_init(|| client).clone())
    }
}

/// Output of a command, or the cause of its failure: its own error output first.
async fn run(client: Client, namespace: &str, pod: &str, container: &str, command: Vec<String>) -> Result<String, String> {
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    let params = AttachParams::default().container(container).stdin(false).stdout(true).stderr(true);
    let mut process = pods.exec(pod, command, &params).await.map_err(|error| error.to_string())?;
    let (status, printed, complained) = (process.take_status(), process.stdout(), process.stderr());
    let (printed, complained) = tokio::join!(read(printed), read(complained));
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    match status {
        Some(status) if status.status.as_deref() == Some("Success") => Ok(printed),
        Some(status) => Err(format!("{} {}", complained.trim(), status.message.unwrap_or_default()).trim().to_owned()),
        None => Err(format!("{} its connection broke", complained.trim()).trim().to_owned()),
    }
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // Output from before the connection broke is worth showing; the status reports the break.
        let _ = stream.read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs a future on `RUNTIME` and blocks, whatever runtime this thread belongs to.
pub(crate) fn wait_for<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, Failure> {
    let runtime = RUNTIME.as_ref().ok_or_else(|| Failure::new("could not make a runtime for requests"))?;
    let (sender, receiver) = mpsc::channel();
    runtime.spawn(async move {
        let _ = sender.send(work.await);
    });
    receiver.recv().map_err(|_| Failure::new("a request panicked"))
}
