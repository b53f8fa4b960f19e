//! Certificates that someone else renews, such as cert-manager: two files, read periodically.

use std::{path::PathBuf, time::Duration};

use anyhow::Context;
use slipway_runtime::{
    failure::{ServerError, chain},
    metrics::Metrics,
    tls::Identity,
};
use tokio::{fs, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    authority,
    registration::{REGISTRATION, Registration},
};

/// The kubelet updates a mounted Secret within a minute or two, so this adds little delay.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Serves with the files of a folder, and registers without a CA: whoever makes the files injects it.
pub(super) struct Files {
    pub(super) folder: PathBuf,
    pub(super) registration: Registration,
    pub(super) identity: Identity,
    pub(super) metrics: Metrics,
}

impl Files {
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut served = Vec::new();
        let mut is_registered = false;
        let mut last_words = String::new();
        loop {
            match self.pass(&mut served, &mut is_registered).await {
                Ok(()) => last_words.clear(),
                Err(error) => {
                    let why = chain(error.as_ref());
                    if why != last_words {
                        tracing::warn!(%why, "cannot maintain the admission webhook, retrying; findings are reported in conditions as well");
                        last_words = why;
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    }

    async fn pass(&self, served: &mut Vec<u8>, is_registered: &mut bool) -> anyhow::Result<()> {
        let read = async |name: &str| {
            let path = self.folder.join(name);
            fs::read(&path).await.with_context(|| format!("cannot read {}", path.display()))
        };
        let (chain, key) = (read("tls.crt").await?, read("tls.key").await?);
        if *served != chain {
            self.identity
                .set(&chain, &key)
                .with_context(|| format!("cannot serve with tls.crt and tls.key in {}", self.folder.display()))?;
            let ends = authority::facts(&String::from_utf8_lossy(&chain))?.ends;
            self.metrics.webhook_certificate_ends.set(ends.as_second());
            tracing::info!(%ends, "the webhook serves a new certificate");
            *served = chain;
        }
        // Once is enough: afterwards others may own the registration, such as cert-manager.
        if !*is_registered {
            if self.registration.apply(None).await.map_err(ServerError::from).context("cannot register the webhook")? {
                tracing::info!(registration = REGISTRATION, "the admission webhook is registered");
            }
            *is_registered = true;
        }
        Ok(())
    }
}
