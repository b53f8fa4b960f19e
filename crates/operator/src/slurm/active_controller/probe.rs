//! Probe of one slurmctld.

use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use slipway_plan::active_controller::Role;

/// Time limit of a probe. slurmctld answers within milliseconds; a process stopped with SIGSTOP never does.
const LIMIT: Duration = Duration::from_secs(2);

/// Asks slurmctld if it is active.
pub(super) struct Probe {
    client: reqwest::Client,
    port: u16,
}

impl Probe {
    pub(super) fn new(port: u16) -> Result<Self, String> {
        let client = reqwest::Client::builder()
            .timeout(LIMIT)
            // A reused connection would only show its own health.
            .pool_max_idle_per_host(0)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tls_certs_only([])
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { client, port })
    }

    pub(super) async fn ask(&self, address: IpAddr) -> Role {
        let url = format!("http://{}/readyz", SocketAddr::new(address, self.port));
        match self.client.get(url).send().await {
            Ok(answer) if answer.status().is_success() => Role::Active,
            // A standby returns 500. Any other error status does not mean active either.
            Ok(_) => Role::Standby,
            Err(error) if nobody_listens(&error) => Role::Absent,
            Err(_) => Role::Silent,
        }
    }
}

/// True if the peer's kernel refused the connection, or the process ended during the request. An unreachable host proves nothing: the process may
/// still run behind a broken network.
fn nobody_listens(error: &reqwest::Error) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<io::Error>() {
            use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
            return matches!(error.kind(), ConnectionRefused | ConnectionReset | BrokenPipe | UnexpectedEof);
        }
        cause = inner.source();
    }
    // Closed without an answer.
    !error.is_timeout() && !error.is_connect()
}
