//! Tokens of one cluster, signed with its own key. The key is read for each new token and dropped at once; only the token is kept.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Resource};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::{Deserialize, Deserializer};
use slipway_api::{SecretKeyRef, image};
use slipway_plan::missing;
use slipway_runtime::{clock::Clock, failure::ServerError};
use slipway_slurm::rest::token::{RENEW_AFTER, TokenError, TokenSource, sign};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

/// Backoff after the key could not be read.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Minimum interval between readings of the key after refusals: a permanently wrong key is not read all the time.
const BETWEEN_REFUSALS: Duration = Duration::from_secs(5);

/// Location of the key.
pub(super) struct KeyPlace {
    pub(super) client: kube::Client,
    pub(super) namespace: String,
    pub(super) reference: Option<SecretKeyRef>,
    /// Field that names the Secret.
    pub(super) field: &'static str,
}

/// Provides the current token to every call, and renews it in time.
pub(super) struct Tokens {
    place: KeyPlace,
    clock: Arc<dyn Clock>,
    current: Mutex<Current>,
    refused: Notify,
    /// True once reading the key was tried.
    is_tried: watch::Sender<bool>,
}

struct Current {
    /// The token, or why there is none.
    token: Result<Arc<SecretString>, String>,
    is_refused: bool,
}

impl Tokens {
    pub(super) fn new(place: KeyPlace, clock: Arc<dyn Clock>) -> Self {
        let current = Current { token: Err("its key was not read yet".to_owned()), is_refused: false };
        Self { place, clock, current: Mutex::new(current), refused: Notify::new(), is_tried: watch::Sender::new(false) }
    }

    /// Renews the token forever: at once, when most of its lifetime is over, and when it was refused. Calls `renewed` after each renewal.
    pub(super) async fn keep_fresh(&self, renewed: impl Fn() + Send) {
        let mut pause = FIRST_PAUSE;
        loop {
            let made_at = Instant::now();
            let next = match self.renew().await {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    renewed();
                    made_at + RENEW_AFTER
                }
                Err(why) => {
                    tracing::warn!(namespace = %self.place.namespace, %why, "cannot create a token for Slurm");
                    let mut current = self.current();
                    if current.token.is_err() {
                        current.token = Err(why);
                    }
                    let next = made_at + pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    next
                }
            };
            self.is_tried.send_replace(true);
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = self.refusal() => tokio::time::sleep_until(made_at + BETWEEN_REFUSALS).await,
            }
        }
    }

    /// Waits until there is a token, or the cause why there is none: an earlier call would fail for no reason.
    pub(super) async fn tried(&self) {
        // `self` holds the sender, so the channel cannot be closed.
        let _ = self.is_tried.subscribe().wait_for(|is_tried| *is_tried).await;
    }

    async fn renew(&self) -> Result<(), String> {
        let key = self.place.read().await?;
        let token = sign(image::SLURM_USER, &key, self.clock.now()).map_err(|error| error.0)?;
        *self.current() = Current { token: Ok(Arc::new(token)), is_refused: false };
        Ok(())
    }

    /// Waits until the current token is refused. Refusals of a replaced token do not count.
    async fn refusal(&self) {
        loop {
            self.refused.notified().await;
            if self.current().is_refused {
                return;
            }
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenSource for Tokens {
    /// A refused token is replaced a moment later, as the key must be read first. Until then the token is returned again, and the call fails.
    fn token(&self, refused: Option<&SecretString>) -> Result<Arc<SecretString>, TokenError> {
        let mut current = self.current();
        let token = current.token.clone().map_err(TokenError)?;
        if refused.is_some_and(|refused| refused.expose_secret() == token.expose_secret()) {
            current.is_refused = true;
            self.refused.notify_one();
        }
        Ok(token)
    }
}

impl KeyPlace {
    /// The key's bytes, read by name: the operator is not permitted to list Secrets.
    async fn read(&self) -> Result<SecretSlice<u8>, String> {
        let Self { client, namespace, reference, field } = self;
        let Some(SecretKeyRef { name, key, .. }) = reference.as_ref().filter(|reference| !reference.name.is_empty()) else {
            return Err(missing::no_reference(field).why);
        };
        let secrets: Api<Keys> = Api::namespaced(client.clone(), namespace);
        let found = secrets.get_opt(name).await.map_err(|error| format!("Secret `{namespace}/{name}`: {}", ServerError::from(error)))?;
        let mut found = found.ok_or_else(|| missing::no_secret(namespace, name, field).why)?;
        let bytes = found.data.remove(key).filter(|held| !held.0.expose_secret().is_empty());
        bytes.map(|held| held.0).ok_or_else(|| missing::no_key(namespace, name, key, field).why)
    }
}

/// A Secret whose values are never printed and are wiped when dropped.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = Secret)]
struct Keys {
    metadata: ObjectMeta,
    #[serde(default)]
    data: BTreeMap<String, Held>,
}

#[derive(Clone)]
struct Held(SecretSlice<u8>);

impl<'de> Deserialize<'de> for Held {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        ByteString::deserialize(input).map(|bytes| Self(SecretSlice::from(bytes.0)))
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(held back)")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_key_shows_in_debug() {
        // `hunter2` in base64
        let keys: Keys = serde_json::from_value(json!({"metadata": {"name": "s"}, "data": {"k": "aHVudGVyMg=="}})).unwrap();
        assert_eq!(keys.data["k"].0.expose_secret(), b"hunter2");
        let printed = format!("{keys:?}");
        assert!(!printed.contains("hunter2") && !printed.contains("104, 117"), "{printed}");
    }
}
