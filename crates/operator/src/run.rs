//! Puts the parts together and runs them until told to stop.

use std::path::Path;

use slipway_runtime::{
    client::connect,
    health::{self, Health},
    metrics::Metrics,
    tasks::Tasks,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    Args,
    admission::Webhook,
    scope::Scope,
    served::{Guard, Watches},
};

/// Kubernetes puts this file into pods.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Runs the operator. Ends without an error only when a signal asks for it.
pub async fn run(args: Args) -> anyhow::Result<()> {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), namespaces = ?args.namespaces, "starting");
    let client = connect(args.kubeconfig.as_deref()).await?;
    let stop = CancellationToken::new();
    let (metrics, registry) = Metrics::new();
    let health = Health::default();
    let mut tasks = Tasks::new(stop.clone());

    let listener = health::listen(args.health_addr).await?;
    let (answers, until) = (health.clone(), stop.clone());
    tasks.spawn("health server", async move { log(health::serve_health(listener, answers, until).await) });
    if let Some(address) = args.metrics_addr.0 {
        let listener = health::listen(address).await?;
        let until = stop.clone();
        tasks.spawn("metrics server", async move { log(health::serve_metrics(listener, registry, until).await) });
    }

    let is_in_cluster = args.kubeconfig.is_none() && Path::new(POD_NAMESPACE).exists();
    if let Some(address) = args.webhook.addr.0.filter(|_| is_in_cluster || args.webhook.url.is_some()) {
        let (client, namespace) = (connect(args.kubeconfig.as_deref()).await?, client.default_namespace().to_owned());
        let webhook = Webhook { client, namespace, namespaces: args.namespaces.clone(), metrics: metrics.clone(), stop: stop.clone() };
        webhook.start(address, &args.webhook, &mut tasks).await?;
    }

    let namespaces = if args.namespaces.is_empty() { vec![None] } else { args.namespaces.into_iter().map(Some).collect() };
    let guard = Guard::new(metrics.clone());
    let mut definitions = Watches::new(&guard, &health, &metrics);
    for namespace in namespaces {
        let (client, health, metrics, guard, stop) = (client.clone(), health.clone(), metrics.clone(), guard.clone(), stop.clone());
        Scope { namespace, client, health, metrics, guard, stop }.start(&mut definitions, &mut tasks);
    }
    definitions.start(&client, &stop, &mut tasks);

    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tasks.spawn("signals", async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        stop.cancel();
    });
    tasks.supervise().await?;
    Ok(())
}

fn log(outcome: std::io::Result<()>) {
    if let Err(error) = outcome {
        tracing::error!(%error, "server failed");
    }
}
