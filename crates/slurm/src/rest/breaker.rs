//! Circuit breaker for a server that does not respond.
//!
//! After several consecutive failures, calls fail at once until the pause is over. Then one call at a time probes the server. The pause grows, but a
//! probe starts at least every five seconds, so that work resumes soon after the server does.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::RestError;

/// Consecutive failures that start a pause. A restart of slurmrestd breaks the calls in flight, at most four; the next one decides.
const FAILURES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum time between the starts of two probes: half of the ten seconds within which work must resume.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Minimum time between the end of a probe and the next: a probe that timed out has used up its pause.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);

/// Circuit breaker for one cluster's server.
#[derive(Debug, Default)]
pub struct Breaker {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Consecutive.
    failures: u32,
    pause: Option<Pause>,
}

#[derive(Debug)]
struct Pause {
    length: Duration,
    until: Instant,
    is_probed: bool,
    /// Error of the last call.
    trouble: String,
}

/// Permission for one call. [`Leave::ended`] records its result; without that, dropping it records nothing.
#[derive(Debug)]
pub struct Leave<'a> {
    breaker: &'a Breaker,
    started: Instant,
    is_probe: bool,
}

impl Breaker {
    /// Admits a call, or returns why not.
    pub fn admit(&self, now: Instant) -> Result<Leave<'_>, RestError> {
        let mut state = self.state();
        let is_probe = match &mut state.pause {
            None => false,
            Some(pause) if now < pause.until || pause.is_probed => {
                let wait = pause.until.saturating_duration_since(now).max(SHORTEST_PAUSE);
                return Err(RestError::Paused { wait, trouble: pause.trouble.clone() });
            }
            Some(pause) => {
                pause.is_probed = true;
                true
            }
        };
        Ok(Leave { breaker: self, started: now, is_probe })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leave<'_> {
    /// Records the result of the call. Any response means that the server is up; a call without a turn got none.
    pub fn ended<T>(self, answer: &Result<T, RestError>, now: Instant) {
        if matches!(answer, Err(RestError::NoTurn(_) | RestError::Token(_))) {
            return;
        }
        let mut state = self.breaker.state();
        let Some(error) = answer.as_ref().err().filter(|error| error.means_no_server()) else {
            *state = State::default();
            return;
        };
        state.failures = state.failures.saturating_add(1);
        let length = match &state.pause {
            None if state.failures < FAILURES => return,
            None => FIRST_PAUSE,
            Some(pause) if self.is_probe => (pause.length * 2).min(LONGEST_PAUSE),
            // A call from before the pause proves nothing new.
            Some(_) => return,
        };
        let until = (self.started + length).max(now + SHORTEST_PAUSE);
        if state.pause.is_none() {
            tracing::warn!(%error, "slurmrestd does not respond: requests are paused");
        }
        state.pause = Some(Pause { length, until, is_probed: false, trouble: error.to_string() });
    }
}

/// A canceled probe lets the next call probe.
impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if self.is_probe
            && let Some(pause) = &mut self.breaker.state().pause
        {
            pause.is_probed = false;
        }
    }
}

#[cfg(test)]
mod tests;
