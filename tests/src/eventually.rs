//! Waits for a state, or checks that it lasts, without sleeping for a guessed time.

use std::future::Future;
use std::time::{Duration, Instant};

use slipway_bed::Failure;
use slipway_bed::patience;

/// First poll interval, and the longest one: many tests wait at once, and a command in a pod takes a tenth of a second of a core.
const POLL: Duration = Duration::from_millis(200);
const SLOWEST_POLL: Duration = Duration::from_secs(1);

/// Polls until the answer is `Ok`. An `Err` states what is still missing; the last one is reported when patience ends.
pub async fn eventually<T, F>(what: &str, ask: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, String>>,
{
    patience::eventually(what, [POLL, SLOWEST_POLL], async || ask().await).await
}

/// Polls for a while; the answer must be `Ok` each time. Fails with the first `Err`.
pub async fn steadily<F>(what: &str, throughout: Duration, ask: impl Fn() -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<(), String>>,
{
    let begin = Instant::now();
    loop {
        ask().await.map_err(|why| Failure::new(format!("{what}: not so after {} ms: {why}", begin.elapsed().as_millis())))?;
        if begin.elapsed() > throughout {
            return Ok(());
        }
        tokio::time::sleep(SLOWEST_POLL).await;
    }
}
