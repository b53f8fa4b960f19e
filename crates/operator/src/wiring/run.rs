//! Assembles the parts and runs them until a signal arrives.

use std::{path::Path, sync::Arc};

use slipway_runtime::{
    client::connect,
    clock::SystemClock,
    events::{Events, Reporter},
    health::{self, Health},
    metrics::Metrics,
    tasks::Tasks,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    Args,
    admission::Webhook,
    wiring::{
        scope::Scope,
        served::{Guard, Watches},
    },
    world::{monitor::MonitorWatch, node::NodeWatch},
};

/// Kubernetes mounts this file into pods.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Runs the operator. Returns without an error only after a signal.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let mut tasks = Tasks::new(stop.clone());
    // Must come first: PID 1 of a container has no default action for SIGTERM. An earlier SIGTERM would be lost, and the pod would be killed only
    // after its whole grace period.
    stop_on_signal(&stop, &mut tasks)?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), namespaces = ?args.namespaces, "starting");
    start(args, stop, &mut tasks).await?;
    tasks.supervise().await?;
    Ok(())
}

fn stop_on_signal(stop: &CancellationToken, tasks: &mut Tasks) -> std::io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = stop.clone();
    tasks.spawn("signals", async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        stop.cancel();
    });
    Ok(())
}

/// Starts every part.
async fn start(args: Args, stop: CancellationToken, tasks: &mut Tasks) -> anyhow::Result<()> {
    let client = connect(args.kubeconfig.as_deref()).await?;
    let (metrics, registry) = Metrics::new();
    let health = Health::default();

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
        webhook.start(address, &args.webhook, tasks).await?;
    }

    let instance = std::env::var("HOSTNAME").unwrap_or_else(|_| "slipway".to_owned());
    let reporter = Reporter { controller: "slipway", instance };
    let (events, sender) = Events::new(client.clone(), Arc::new(SystemClock), reporter, metrics.events.clone());
    tasks.spawn("events", sender.run(stop.clone()));

    let namespaces = if args.namespaces.is_empty() { vec![None] } else { args.namespaces.into_iter().map(Some).collect() };
    let monitors = MonitorWatch::new(&health, &metrics);
    let guard = Guard::new(monitors.monitors(), metrics.clone());
    let mut definitions = Watches::new(&guard, monitors, &health, &metrics);
    let propagated_node_conditions = args.propagated_node_conditions.0;
    let mut nodes = NodeWatch::new(propagated_node_conditions.clone(), &health, &metrics);
    for namespace in namespaces {
        let (client, health, metrics, guard, stop) = (client.clone(), health.clone(), metrics.clone(), guard.clone(), stop.clone());
        let (events, slurm_address) = (events.clone(), args.slurm_url_template.clone());
        let propagated_node_conditions = propagated_node_conditions.clone();
        let scope = Scope { namespace, client, health, metrics, guard, events, slurm_address, propagated_node_conditions, stop };
        scope.start(&mut definitions, &mut nodes, tasks)?;
    }
    definitions.start(&client, &stop, tasks);
    nodes.start(&client, &stop, tasks);
    Ok(())
}

fn log(outcome: std::io::Result<()>) {
    if let Err(error) = outcome {
        tracing::error!(%error, "server failed");
    }
}
