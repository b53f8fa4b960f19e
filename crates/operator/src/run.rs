//! Puts the parts together and runs them until told to stop.

use slipway_runtime::{
    client::connect,
    health::{self, Health},
    metrics::Metrics,
    tasks::Tasks,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{Args, scope::Scope};

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

    let namespaces = if args.namespaces.is_empty() { vec![None] } else { args.namespaces.into_iter().map(Some).collect() };
    for namespace in namespaces {
        let (client, health, metrics, stop) = (client.clone(), health.clone(), metrics.clone(), stop.clone());
        Scope { namespace, client, health, metrics, stop }.start(&mut tasks);
    }

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
