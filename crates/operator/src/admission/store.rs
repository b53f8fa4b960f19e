//! The Secret through which all replicas share their certificates.

use std::collections::BTreeMap;

use anyhow::Context;
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use slipway_api::FIELD_MANAGER;

use super::{
    authority::{self, Pair},
    rotation::{Lives, Span, State, Step},
};

/// The Secret's name.
pub(crate) const SECRET: &str = "slipway-webhook";

/// Content of the Secret. It has no `Debug`: keys are never printed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) authority: Pair,
    pub(super) certificate: Pair,
    pub(super) next: Option<Pair>,
    /// Certificate of the previous CA.
    pub(super) former: Option<String>,
}

/// The Secret as it was read: its content, if it is usable, and its version.
pub(super) struct Found {
    pub(super) stored: Option<Stored>,
    version: String,
}

/// Reads and writes the Secret.
#[derive(Clone)]
pub(super) struct Store {
    api: Api<Secret>,
}

impl Store {
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        Self { api: Api::namespaced(client, namespace) }
    }

    /// Reads the Secret. Creates an empty one if there is none; several replicas may do that concurrently, with the same result.
    pub(super) async fn observe(&self) -> Result<Found, kube::Error> {
        let secret = if let Some(secret) = self.api.get_opt(SECRET).await? {
            secret
        } else {
            let empty = json!({
                "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
                "metadata": { "name": SECRET, "labels": { "app.kubernetes.io/name": "slipway" } },
            });
            self.api.patch(SECRET, &PatchParams::apply(FIELD_MANAGER), &Patch::Apply(&empty)).await?
        };
        let version = secret.metadata.resource_version.unwrap_or_default();
        Ok(Found { stored: Stored::parse(&secret.data.unwrap_or_default()), version })
    }

    /// Replaces `found` with `stored`. Returns false if someone else wrote in between: then their write counts.
    pub(super) async fn replace(&self, found: &Found, stored: &Stored) -> Result<bool, kube::Error> {
        let body = json!({ "metadata": { "resourceVersion": found.version }, "data": stored.data() });
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match self.api.patch(SECRET, &params, &Patch::Merge(&body)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Stored {
    /// A new CA and its first certificate.
    pub(super) fn begin(names: &[String], lives: Lives, now: Timestamp) -> anyhow::Result<Self> {
        let authority = authority::make_authority(now, lives.authority)?;
        let certificate = authority::make_certificate(&authority, names, now, lives.certificate)?;
        Ok(Self { authority, certificate, next: None, former: None })
    }

    /// The content after a step.
    pub(super) fn after(self, step: Step, names: &[String], lives: Lives, now: Timestamp) -> anyhow::Result<Self> {
        let sign = |authority: &Pair| authority::make_certificate(authority, names, now, lives.certificate);
        Ok(match step {
            Step::Begin => Self::begin(names, lives, now)?,
            Step::Renew => Self { certificate: sign(&self.authority)?, ..self },
            Step::Introduce => Self { next: Some(authority::make_authority(now, lives.authority)?), ..self },
            Step::Swap => {
                let authority = self.next.context("there is no next authority")?;
                Self { certificate: sign(&authority)?, former: Some(self.authority.certificate), authority, next: None }
            }
            Step::Drop => Self { former: None, ..self },
            Step::Wait(_) => self,
        })
    }

    /// Every CA to be trusted, as PEM.
    pub(super) fn bundle(&self) -> String {
        let next = self.next.as_ref().map(|next| next.certificate.as_str());
        [Some(self.authority.certificate.as_str()), next, self.former.as_deref()].into_iter().flatten().collect()
    }

    /// The state of the rotation, or `None` if any part is not a certificate.
    pub(super) fn state(&self, names: &[String], trusted: &[u8]) -> Option<State> {
        let span = |pem: &str| authority::facts(pem).ok().map(|facts| Span { made: facts.made, ends: facts.ends });
        let certificate = authority::facts(&self.certificate.certificate).ok()?;
        let trusted = String::from_utf8_lossy(trusted);
        Some(State {
            authority: span(&self.authority.certificate)?,
            certificate: Span { made: certificate.made, ends: certificate.ends },
            is_certificate_right: names.iter().all(|name| certificate.names.contains(name))
                && authority::is_signed_by(&self.certificate.certificate, &self.authority.certificate),
            next: match &self.next {
                Some(next) => Some(span(&next.certificate)?),
                None => None,
            },
            is_next_trusted: self.next.as_ref().is_some_and(|next| trusted.contains(next.certificate.trim())),
            has_former: self.former.is_some(),
        })
    }

    fn parse(data: &BTreeMap<String, ByteString>) -> Option<Self> {
        let text = |key: &str| data.get(key).and_then(|value| String::from_utf8(value.0.clone()).ok()).filter(|text| !text.is_empty());
        let pair = |name: &str| Some(Pair { certificate: text(&format!("{name}.crt"))?, key: text(&format!("{name}.key"))? });
        Some(Self { authority: pair("ca")?, certificate: pair("tls")?, next: pair("ca-next"), former: text("ca-former.crt") })
    }

    /// The Secret's data; null removes a key.
    fn data(&self) -> Value {
        let bytes = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
        let next = |part: fn(&Pair) -> &str| self.next.as_ref().map_or(Value::Null, |pair| bytes(part(pair)));
        json!({
            "ca.crt": bytes(&self.authority.certificate), "ca.key": bytes(&self.authority.key),
            "tls.crt": bytes(&self.certificate.certificate), "tls.key": bytes(&self.certificate.key),
            "ca-next.crt": next(|pair| &pair.certificate), "ca-next.key": next(|pair| &pair.key),
            "ca-former.crt": self.former.as_deref().map_or(Value::Null, bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn names() -> Vec<String> {
        vec!["localhost".to_owned()]
    }

    #[test]
    fn a_whole_rotation_keeps_what_is_served_signed_by_what_is_trusted() {
        let lives = Lives::new(365 * DAY, 30 * DAY).unwrap();
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let first = Stored::begin(&names(), lives, now).unwrap();
        let introduced = first.clone().after(Step::Introduce, &names(), lives, now).unwrap();
        assert!(introduced.certificate == first.certificate && introduced.bundle().starts_with(&first.bundle()));
        assert!(!introduced.state(&names(), first.bundle().as_bytes()).unwrap().is_next_trusted);
        assert!(introduced.state(&names(), introduced.bundle().as_bytes()).unwrap().is_next_trusted);
        let swapped = introduced.clone().after(Step::Swap, &names(), lives, now).unwrap();
        let state = swapped.state(&names(), b"").unwrap();
        assert!(state.has_former && state.is_certificate_right && state.next.is_none());
        assert!(introduced.bundle().contains(&swapped.authority.certificate), "it signs before it was trusted");
        assert!(swapped.bundle().contains(&first.authority.certificate), "the former one is forgotten too early");
        let dropped = swapped.clone().after(Step::Drop, &names(), lives, now).unwrap();
        assert_eq!(dropped.bundle(), swapped.authority.certificate);
    }

    #[test]
    fn what_is_written_is_read_back_and_a_secret_of_another_use_is_not() {
        let lives = Lives::new(365 * DAY, 30 * DAY).unwrap();
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let stored = Stored::begin(&names(), lives, now).unwrap().after(Step::Introduce, &names(), lives, now).unwrap();
        let data: BTreeMap<String, Option<ByteString>> = serde_json::from_value(stored.data()).unwrap();
        let data: BTreeMap<_, _> = data.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        assert!(Stored::parse(&data) == Some(stored));
        assert!(Stored::parse(&BTreeMap::new()).is_none());
        let odd = data.into_keys().map(|key| (key, ByteString(b"nonsense".to_vec()))).collect();
        assert!(Stored::parse(&odd).unwrap().state(&names(), b"").is_none());
    }
}
