//! Promises about authentication and permissions.

use slipway_slurm::rest::RestError;
use slipway_slurm::rest::errno::Errno;
use slipway_slurm::rest::model::NodeUpdate;

use super::bench::{Bench, fine, holds, refused};

fn token_refused<T: std::fmt::Debug>(answer: Result<T, RestError>) -> Result<(), String> {
    match answer {
        Err(RestError::TokenRefused { http: 401 | 511, number: Errno::AUTHENTICATION_FAILED, .. }) => Ok(()),
        other => Err(format!("expected that the token is refused, got {other:?}")),
    }
}

pub(super) async fn bad_tokens_are_refused(bench: &Bench) -> Result<(), String> {
    let garbage = bench.fixed("garbage")?;
    token_refused(garbage.nodes(None, |_| ()).await)?;
    token_refused(garbage.update_node(&bench.worker(0)?, &NodeUpdate::comment("x")).await)?;
    let other_key = std::sync::Arc::new(bench.target.signer("slurm", vec![7; 32]));
    token_refused(bench.target.client_with(other_key, Some(bench.version))?.jobs(None, |_| ()).await)?;
    // A ping does not check the token.
    fine(garbage.ping().await).map(drop)
}

pub(super) async fn an_ordinary_user_writes_nothing(bench: &Bench) -> Result<(), String> {
    let nobody = std::sync::Arc::new(bench.target.signer("nobody", bench.target.key.clone()));
    let client = bench.target.client_with(nobody, Some(bench.version))?;
    refused(client.update_node(&bench.worker(0)?, &NodeUpdate::drain("x")).await, Errno::NOT_THE_OWNER)
}

pub(super) async fn credentials_are_needed_and_only_one_kind(bench: &Bench) -> Result<(), String> {
    let (header, token) = bench.token_header()?;
    let both = [(header, token.clone()), ("authorization", format!("Bearer {token}"))];
    for headers in [&[][..], &both[..]] {
        let (status, kind, _) = bench.raw("GET", "ping/", headers).await?;
        holds(status == 401 && kind.starts_with("text/plain"), || format!("{} headers: {status} {kind}", headers.len()))?;
    }
    let (status, ..) = bench.raw("GET", "nodes/", &[("authorization", format!("Bearer {token}"))]).await?;
    holds(status == 200, || format!("a bearer alone: {status}"))
}
