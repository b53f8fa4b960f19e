//! A Kubernetes client for a kubeconfig.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::failure::{Context, Failure};

/// A client for the kubeconfig's current context.
pub async fn from_kubeconfig(path: &Path) -> Result<Client, Failure> {
    for_context(path, None).await
}

/// A client for one context of the kubeconfig; the current one if `None`.
pub async fn for_context(path: &Path, context: Option<String>) -> Result<Client, Failure> {
    // A second call fails because a provider is already installed. It is the same one, so the error is ignored.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let what = || format!("could not use the kubeconfig {}", path.display());
    let kubeconfig = Kubeconfig::read_from(path).context(what)?;
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.context(what)?;
    Client::try_from(config).context(what)
}
