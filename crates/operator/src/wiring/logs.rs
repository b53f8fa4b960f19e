//! Logging: readable lines on a terminal, JSON elsewhere.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging to standard error. `RUST_LOG` sets the filter; the default is `info` and above.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_client=error"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        lines.with_target(false).init();
    } else {
        lines.json().flatten_event(true).with_current_span(true).with_span_list(false).init();
    }
}
