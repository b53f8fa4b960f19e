use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use jsonwebtoken::{DecodingKey, Validation};
use serde_json::Value;

use super::*;

const KEY: &[u8] = b"raw bytes, not trimmed\n";

/// A clock at 1,000,000 s that a test can set, and a signer that uses it.
fn signer() -> (Arc<AtomicI64>, Signer) {
    let now = Arc::new(AtomicI64::new(1_000_000));
    let told = Arc::clone(&now);
    let clock = Clock::new(move || Timestamp::from_second(told.load(Ordering::SeqCst)).unwrap());
    (now, Signer::new("slurm", clock, || Ok(SecretSlice::from(KEY.to_vec()))))
}

fn claims(token: &SecretString) -> Value {
    let mut checks = Validation::new(Algorithm::HS256);
    checks.validate_exp = false;
    jsonwebtoken::decode::<Value>(token.expose_secret(), &DecodingKey::from_secret(KEY), &checks).unwrap().claims
}

#[test]
fn a_token_says_who_and_how_long_and_tolerates_clocks_that_differ() {
    let (_, signer) = signer();
    let claims = claims(&signer.token(None).unwrap());
    assert_eq!(claims["sun"], "slurm");
    assert_eq!(claims["iss"], "slurm-operator");
    assert_eq!((&claims["iat"], &claims["nbf"]), (&(1_000_000 - 30).into(), &(1_000_000 - 30).into()));
    assert!(claims["jti"].as_str().is_some_and(|id| !id.is_empty()));
    assert_eq!(claims["exp"], 1_000_000 + 15 * 60);
}

#[test]
fn a_token_is_kept_and_renewed_before_its_end() {
    let (now, signer) = signer();
    let first = signer.token(None).unwrap();
    now.fetch_add(11 * 60, Ordering::SeqCst);
    assert_eq!(signer.token(None).unwrap().expose_secret(), first.expose_secret());
    now.fetch_add(60, Ordering::SeqCst);
    let second = signer.token(None).unwrap();
    assert_ne!(second.expose_secret(), first.expose_secret());
    assert!(claims(&second)["exp"].as_i64() > claims(&first)["exp"].as_i64());
}

#[test]
fn a_refused_token_makes_the_key_be_read_again_but_only_once_for_all_who_saw_it() {
    let reads = Arc::new(AtomicU8::new(0));
    let counted = Arc::clone(&reads);
    let clock = Clock::new(|| Timestamp::from_second(1_000_000).unwrap());
    let signer = Signer::new("slurm", clock, move || Ok(SecretSlice::from(vec![counted.fetch_add(1, Ordering::SeqCst); 32])));
    let first = signer.token(None).unwrap();
    let second = signer.token(Some(&first)).unwrap();
    assert_ne!(first.expose_secret(), second.expose_secret());
    assert_eq!(signer.token(Some(&first)).unwrap().expose_secret(), second.expose_secret());
    assert_eq!(reads.load(Ordering::SeqCst), 2);
}

#[test]
fn neither_key_nor_token_shows_in_debug() {
    let (_, signer) = signer();
    let token = signer.token(None).unwrap();
    let shown = format!("{signer:?} {token:?} {:?}", FixedToken::new(token.expose_secret()));
    assert!(!shown.contains(token.expose_secret()) && !shown.contains("raw bytes"), "{shown}");
}

#[test]
fn an_empty_key_is_refused_with_advice() {
    let signer = Signer::new("slurm", Clock::new(|| Timestamp::UNIX_EPOCH), || Ok(SecretSlice::from(Vec::new())));
    assert!(signer.token(None).unwrap_err().to_string().contains("32 random bytes"));
}
