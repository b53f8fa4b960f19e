//! Waiting for a state, or for its lasting, without sleeping for a guess.

use std::future::Future;
use std::time::{Duration, Instant};

use slipway_bed::Failure;

/// How often the question is asked again.
const POLL: Duration = Duration::from_millis(200);

/// Asks until the answer is `Ok`; an `Err` says what is still missing, and the last one is told when time is up.
pub async fn eventually<T, F>(what: &str, within: Duration, ask: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, String>>,
{
    let until = Instant::now() + within;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(missing) if Instant::now() > until => {
                return Err(Failure::new(format!("waited {} s for {what}, in vain: {missing}", within.as_secs())));
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

/// Asks for a while; the answer must be `Ok` each time. Fails with the first that is not.
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
        tokio::time::sleep(POLL).await;
    }
}
