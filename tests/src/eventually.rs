//! Waits for a state, or checks that it lasts, without sleeping for a guessed time.

use std::future::Future;
use std::time::{Duration, Instant};

use slipway_bed::Failure;
use slipway_bed::patience::Patience;
use slipway_bed::progress::seconds;

/// First poll interval, and the longest one: many tests wait at once, and a command in a pod takes a tenth of a second of a core.
const POLL: Duration = Duration::from_millis(200);
const SLOWEST_POLL: Duration = Duration::from_secs(1);

/// Polls until the answer is `Ok`. An `Err` states what is still missing; the last one is reported when patience ends.
pub async fn eventually<T, F>(what: &str, ask: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, String>>,
{
    let (mut patience, mut pause) = (Patience::start(), POLL);
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(missing) if patience.is_exhausted() => {
                return Err(Failure::new(format!("waited {} for {what}, in vain: {missing}", seconds(patience.elapsed()))));
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = SLOWEST_POLL.min(pause.mul_f32(1.3));
    }
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
