//! Waiting for a state without sleeping for a guess.

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
