//! The connection to the API server.

use std::{path::Path, time::Duration};

use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{limit::ConcurrencyLimitLayer, timeout::TimeoutLayer};

/// Maximum number of requests in flight. The client uses HTTP/1.1, so each needs its own connection.
const MAX_IN_FLIGHT: usize = 32;

/// Time limit for the start of a response. A watch responds at once and then streams, so this does not end it.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot use the kubeconfig file {0}")]
    Kubeconfig(String, #[source] kube::config::KubeconfigError),
    #[error("found no cluster: neither a service account of a pod nor a kubeconfig file; give one with --kubeconfig")]
    NoCluster(#[source] kube::config::InferConfigError),
    #[error("cannot set up the connection to the API server")]
    Setup(#[source] Box<kube::Error>),
}

/// Connects with the given kubeconfig file, or with what is found: a pod's service account, or the user's kubeconfig.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let named = |source| ConnectError::Kubeconfig(path.display().to_string(), source);
            let file = Kubeconfig::read_from(path).map_err(named)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(named)?
        }
        None => Config::infer().await.map_err(ConnectError::NoCluster)?,
    };
    // The library would retry a refused call for up to an hour inside one reconcile; reconciles have their own deadline and backoff.
    config.default_retry = false;
    let client = ClientBuilder::try_from(config)
        .map_err(|source| ConnectError::Setup(Box::new(source)))?
        .with_layer(&ConcurrencyLimitLayer::new(MAX_IN_FLIGHT))
        .with_layer(&TimeoutLayer::new(ANSWER_WITHIN))
        .build();
    Ok(client)
}
