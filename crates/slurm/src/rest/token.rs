//! Tokens: their creation, renewal and secrecy.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::Serialize;

use super::clock::Clock;

/// Tolerated clock difference: Slurm refuses a token from the future.
const SKEW: Duration = Duration::from_secs(30);
/// Validity of a token.
const LIFETIME: Duration = Duration::from_mins(15);
/// Age at which a token is renewed: 12 of 15 minutes.
pub const RENEW_AFTER: Duration = Duration::from_mins(12);

/// Reason why there is no token.
#[derive(Debug, thiserror::Error)]
#[error("there is no token for Slurm: {0}")]
pub struct TokenError(pub String);

/// Source of tokens.
pub trait TokenSource: Send + Sync {
    /// The token to send now. `refused` is the one that the server has just refused: a source that can get a newer one reads it again.
    fn token(&self, refused: Option<&SecretString>) -> Result<Arc<SecretString>, TokenError>;
}

/// Signs tokens with the cluster's own key (HS256), each valid for 15 minutes.
pub struct Signer {
    user: String,
    clock: Clock,
    read_key: Box<dyn Fn() -> Result<SecretSlice<u8>, TokenError> + Send + Sync>,
    current: Mutex<Option<(Arc<SecretString>, Timestamp)>>,
}

#[derive(Serialize)]
struct Claims<'a> {
    /// Slurm user name.
    sun: &'a str,
    iss: &'static str,
    /// Distinguishes tokens in the logs of others.
    jti: String,
    iat: i64,
    nbf: i64,
    exp: i64,
}

/// Signs a token for the Slurm user `user` with the raw bytes of the key file.
pub fn sign(user: &str, key: &SecretSlice<u8>, now: Timestamp) -> Result<SecretString, TokenError> {
    if key.expose_secret().is_empty() {
        return Err(TokenError("the JWT key is empty; put at least 32 random bytes into its Secret".to_owned()));
    }
    let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    let made_at = now.as_second() - seconds(SKEW);
    let exp = now.as_second() + seconds(LIFETIME);
    let jti = format!("{user}-{}", now.as_nanosecond());
    let claims = Claims { sun: user, iss: "slurm-operator", jti, iat: made_at, nbf: made_at, exp };
    let signed = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(key.expose_secret()));
    signed.map(SecretString::from).map_err(|error| TokenError(format!("it could not be signed: {error}")))
}

impl Signer {
    /// For the Slurm user `user`. `read_key` returns the raw bytes of the key file; each renewal calls it, so that a rotated key takes effect.
    pub fn new(
        user: impl Into<String>,
        clock: Clock,
        read_key: impl Fn() -> Result<SecretSlice<u8>, TokenError> + Send + Sync + 'static,
    ) -> Self {
        Self { user: user.into(), clock, read_key: Box::new(read_key), current: Mutex::new(None) }
    }
}

impl TokenSource for Signer {
    fn token(&self, refused: Option<&SecretString>) -> Result<Arc<SecretString>, TokenError> {
        let now = self.clock.now();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((token, renew_at)) = current.as_ref() {
            let was_refused = refused.is_some_and(|refused| refused.expose_secret() == token.expose_secret());
            if now < *renew_at && !was_refused {
                return Ok(Arc::clone(token));
            }
        }
        let token = Arc::new(sign(&self.user, &(self.read_key)()?, now)?);
        *current = Some((Arc::clone(&token), now + RENEW_AFTER));
        Ok(token)
    }
}

/// Omits the key.
impl fmt::Debug for Signer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Signer(user {})", self.user)
    }
}

/// A given token, for tests and tools.
#[derive(Debug)]
pub struct FixedToken(Arc<SecretString>);

impl FixedToken {
    pub fn new(token: impl Into<String>) -> Self {
        Self(Arc::new(SecretString::from(token.into())))
    }
}

impl TokenSource for FixedToken {
    fn token(&self, _: Option<&SecretString>) -> Result<Arc<SecretString>, TokenError> {
        Ok(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests;
