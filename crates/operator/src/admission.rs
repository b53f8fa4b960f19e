//! The admission webhook: reports problems that neither schema nor rules can detect to whoever writes an object.
//!
//! It runs in every replica. Nothing depends on it: the API server proceeds without it if it does not respond, and the `SpecAccepted` condition
//! reports the same findings. The operator registers it once its own server responds. The registration stays when a replica ends, as others may
//! serve; it is removed on uninstall.

mod authority;
mod files;
mod judge;
mod keeper;
mod registration;
mod review;
mod rotation;
mod server;
mod store;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::Context;
use kube::Client;
use slipway_runtime::{
    clock::{Clock, SystemClock},
    health,
    metrics::Metrics,
    tasks::Tasks,
    tls::{Identity, TlsListener},
};
use tokio_util::sync::CancellationToken;

use crate::wiring::args::WebhookArgs;
use files::Files;
use judge::Judge;
use keeper::Keeper;
use registration::{Door, Registration};
use rotation::Lives;

pub(crate) use registration::{PATHS_PORT, REGISTRATION, SERVICE};
pub(crate) use store::SECRET;

/// Dependencies of the webhook.
pub(crate) struct Webhook {
    /// A separate client: reconciles that keep the other one busy must not delay a response.
    pub(crate) client: Client,
    /// The operator's own namespace.
    pub(crate) namespace: String,
    /// The namespaces that the operator serves; all if empty.
    pub(crate) namespaces: Vec<String>,
    pub(crate) metrics: Metrics,
    pub(crate) stop: CancellationToken,
}

/// Source of the certificates.
enum Source {
    /// Generated here, and shared through a Secret.
    Own(Lives),
    /// Files that someone else renews, who also puts their CA into the registration.
    Folder { folder: PathBuf, injected_from: Option<String> },
}

impl Webhook {
    /// Listens, and starts the tasks that keep the webhook served and registered.
    pub(crate) async fn start(self, address: SocketAddr, args: &WebhookArgs, tasks: &mut Tasks) -> anyhow::Result<()> {
        let Self { client, namespace, namespaces, metrics, stop } = self;
        let door = match &args.url {
            Some(url) => Door::at(url).context("--webhook-url")?,
            None => Door::service(&namespace),
        };
        let source = match &args.cert_dir {
            Some(folder) => Source::Folder { folder: folder.clone(), injected_from: args.inject_ca_from.clone() },
            None => Source::Own(Lives::new(args.ca_life, args.certificate_life).context("--webhook-certificate-life")?),
        };

        let tcp = health::listen(address).await?;
        let address = tcp.local_addr()?;
        let identity = Identity::default();
        let listener = TlsListener::new(tcp, identity.clone())?;
        let judge = Judge { client: client.clone(), metrics: metrics.clone() };
        let until = stop.clone();
        tasks.spawn("webhook server", async move {
            if let Err(error) = server::serve(listener, judge, until).await {
                tracing::error!(%error, "the webhook server failed");
            }
        });

        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let registration = |injected_from| Registration { client: client.clone(), door: door.clone(), namespaces, injected_from };
        match source {
            Source::Own(lives) => {
                let registration = registration(None);
                let keeper = Keeper { client: client.clone(), namespace, registration, identity, address, lives, clock, metrics };
                tasks.spawn("webhook certificates", keeper.run(stop));
            }
            Source::Folder { folder, injected_from } => {
                let files = Files { folder, registration: registration(injected_from), identity, metrics };
                tasks.spawn("webhook certificates", files.run(stop));
            }
        }
        Ok(())
    }
}
