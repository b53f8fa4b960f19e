//! `/livez`, `/readyz` and `/metrics`.

use std::{
    collections::BTreeMap,
    fmt::Write,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{Router, http::StatusCode, routing::get};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics;

/// Gates that have to open before the process is ready.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<BTreeMap<String, Option<String>>>>);

/// One precondition of readiness.
#[derive(Clone)]
pub struct Gate {
    name: String,
    health: Health,
}

impl Health {
    /// Adds a gate, closed at first.
    pub fn gate(&self, name: &str) -> Gate {
        self.set(name, Some("not there yet".to_owned()));
        Gate { name: name.to_owned(), health: self.clone() }
    }

    fn set(&self, name: &str, waits: Option<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), waits);
    }

    /// The closed gates, one line each, or `None` if the process is ready.
    pub fn waits(&self) -> Option<String> {
        let gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = String::new();
        for (name, wait) in gates.iter().filter_map(|(name, wait)| Some((name, wait.as_ref()?))) {
            // Writing to a String cannot fail.
            let _ = writeln!(lines, "{name}: {wait}");
        }
        (!lines.is_empty()).then_some(lines)
    }
}

impl Gate {
    /// Opens the gate.
    pub fn open(&self) {
        self.health.set(&self.name, None);
    }

    /// Closes the gate for this reason.
    pub fn waits(&self, why: String) {
        self.health.set(&self.name, Some(why));
    }
}

/// Serves `/livez`, `/healthz` and `/readyz`.
pub async fn serve_health(listener: TcpListener, health: Health, stop: CancellationToken) -> std::io::Result<()> {
    let ready = move || {
        let waits = health.waits();
        async move {
            match waits {
                None => (StatusCode::OK, "ok\n".to_owned()),
                Some(waits) => (StatusCode::SERVICE_UNAVAILABLE, waits),
            }
        }
    };
    let router = Router::new().route("/livez", get(async || "ok\n")).route("/healthz", get(async || "ok\n")).route("/readyz", get(ready));
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

/// Serves `/metrics`.
pub async fn serve_metrics(listener: TcpListener, registry: Registry, stop: CancellationToken) -> std::io::Result<()> {
    let registry = Arc::new(registry);
    let content_type = [("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    let router = Router::new().route("/metrics", get(move || async move { (content_type, metrics::text(&registry)) }));
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

/// Listens, or fails with the address in the message.
pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| std::io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_that_nothing_is_waited_for() {
        let health = Health::default();
        let (one, two) = (health.gate("one"), health.gate("two"));
        one.open();
        two.waits("its CRD is missing".into());
        assert_eq!(health.waits().as_deref(), Some("two: its CRD is missing\n"));
        two.open();
        assert_eq!(health.waits(), None);
    }
}
