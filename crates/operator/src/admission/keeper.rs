//! Keeps the webhook registered and served with a certificate that the API server trusts.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use futures::{Stream, StreamExt, stream::select};
use jiff::Timestamp;
use k8s_openapi::api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret};
use kube::{
    Api, Client,
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use slipway_runtime::{
    clock::Clock,
    failure::{ServerError, chain},
    metrics::{Metrics, Write},
    tls::{self, Identity},
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    authority,
    registration::{REGISTRATION, Registration},
    rotation::{Lives, Step, plan_step},
    store::{SECRET, Store, Stored},
};

/// Maximum number of steps in one reconcile: an overdue rotation takes three.
const MOST_STEPS: usize = 8;
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_mins(1);
/// Fallback for missed watch events and clock jumps.
const LOOK_AGAIN: Duration = Duration::from_hours(1);

/// Keeper of the certificates. Every replica has one; they synchronize through the Secret.
pub(super) struct Keeper {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) registration: Registration,
    pub(super) identity: Identity,
    pub(super) address: SocketAddr,
    pub(super) lives: Lives,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) metrics: Metrics,
}

impl Keeper {
    /// Runs until `stop`. Errors are logged and retried: the rest of the operator works without the webhook.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut changes = std::pin::pin!(self.changes());
        let mut served = String::new();
        let mut retry = FIRST_RETRY;
        let mut last_words = String::new();
        loop {
            let rest = match self.pass(&mut served).await {
                Ok(until) => {
                    retry = FIRST_RETRY;
                    last_words.clear();
                    Duration::try_from(until.duration_since(self.clock.now())).unwrap_or_default().min(LOOK_AGAIN)
                }
                Err(error) => {
                    let why = chain(error.as_ref());
                    if why != last_words {
                        tracing::warn!(%why, "cannot maintain the admission webhook, retrying; findings are reported in conditions as well");
                        last_words = why;
                    }
                    let rest = retry;
                    retry = (retry * 2).min(LAST_RETRY);
                    rest
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(rest) => {}
                _ = changes.next() => {}
            }
        }
    }

    /// Reconciles Secret, server and registration. Returns the time of the next check.
    async fn pass(&self, served: &mut String) -> anyhow::Result<Timestamp> {
        let names = self.registration.door.names();
        let (stored, until) = self.settle_secret(&names).await?;
        if *served != stored.certificate.certificate {
            let Stored { certificate, .. } = &stored;
            self.identity
                .set(certificate.certificate.as_bytes(), certificate.key.as_bytes())
                .context("cannot serve with the certificate")?;
            let ends = authority::facts(&certificate.certificate)?.ends;
            self.metrics.webhook_certificate_ends.set(ends.as_second());
            tracing::info!(%ends, "the webhook serves a new certificate");
            served.clone_from(&certificate.certificate);
        }
        // Only a server that responds is registered.
        let name = names.first().map(String::as_str).unwrap_or_default();
        tls::check(self.address, name, stored.bundle().as_bytes()).await.context("the webhook's own server does not answer")?;
        let has_written = self.registration.apply(Some(stored.bundle().as_bytes())).await.map_err(ServerError::from);
        if has_written.context("cannot register the webhook")? {
            self.metrics.writes.get_or_create(&Write { verb: "apply", kind: "ValidatingWebhookConfiguration" }).inc();
            tracing::info!(registration = REGISTRATION, "the admission webhook is registered");
        }
        Ok(until)
    }

    /// Takes every step that is due. Returns the stored certificates and the time until which they suffice.
    async fn settle_secret(&self, names: &[String]) -> anyhow::Result<(Stored, Timestamp)> {
        let store = Store::new(self.client.clone(), &self.namespace);
        let what = || format!("cannot keep certificates in Secret `{}/{SECRET}`", self.namespace);
        for _ in 0..MOST_STEPS {
            let found = store.observe().await.map_err(ServerError::from).with_context(what)?;
            let trusted = self.registration.observe_bundle().await.map_err(ServerError::from).context("cannot read the registration")?;
            let now = self.clock.now();
            let state = found.stored.as_ref().and_then(|stored| stored.state(names, &trusted.unwrap_or_default()));
            let next = match (plan_step(state, self.lives, now), found.stored.clone()) {
                (Step::Wait(until), Some(stored)) => return Ok((stored, until)),
                (Step::Begin, _) | (_, None) => Stored::begin(names, self.lives, now)?,
                (step, Some(stored)) => {
                    tracing::info!(?step, "webhook certificates");
                    stored.after(step, names, self.lives, now)?
                }
            };
            if store.replace(&found, &next).await.map_err(ServerError::from).with_context(what)? {
                self.metrics.writes.get_or_create(&Write { verb: "patch", kind: "Secret" }).inc();
            }
        }
        bail!("{}: it changes faster than it can be read", what());
    }

    /// Yields an item whenever the Secret or the registration changes.
    fn changes(&self) -> impl Stream<Item = ()> + use<> {
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let secrets: Api<PartialObjectMeta<Secret>> = Api::namespaced(self.client.clone(), &self.namespace);
        let registrations: Api<PartialObjectMeta<ValidatingWebhookConfiguration>> = Api::all(self.client.clone());
        let secrets = watcher(secrets, named(SECRET)).default_backoff().map(drop);
        let registrations = watcher(registrations, named(REGISTRATION)).default_backoff().map(drop);
        select(secrets, registrations)
    }
}
