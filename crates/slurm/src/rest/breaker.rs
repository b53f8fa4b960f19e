//! A pause for a server that does not answer.
//!
//! After some failures in a row nobody waits for the server any more: calls fail at once until the pause is over. Then one call at a
//! time finds out whether the server is back. The pause grows, but a probe starts at least each five seconds, so that work goes on soon
//! after the server does.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::RestError;

/// So many failures in a row begin a pause. One restart of slurmrestd breaks the calls in flight, four at the most; the next one tells.
const FAILURES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest time from the start of one probe to that of the next: half of the ten seconds within which work goes on.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The shortest time between the end of a probe and the next: one that ran into its time limit has used up its pause.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);

/// Whether one cluster's server may be asked.
#[derive(Debug, Default)]
pub struct Breaker {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// In a row.
    failures: u32,
    pause: Option<Pause>,
}

#[derive(Debug)]
struct Pause {
    length: Duration,
    until: Instant,
    is_probed: bool,
    /// What ended the last call.
    trouble: String,
}

/// Leave to make one call. What came of it is told by [`Leave::ended`]; dropped without, it says nothing.
#[derive(Debug)]
pub struct Leave<'a> {
    breaker: &'a Breaker,
    started: Instant,
    is_probe: bool,
}

impl Breaker {
    /// Lets a call through, or says why not.
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
    /// Tells how the call ended. Any answer at all means that the server is there; a call without a turn got none.
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
            // A straggler from before the pause tells nothing new.
            Some(_) => return,
        };
        let until = (self.started + length).max(now + SHORTEST_PAUSE);
        if state.pause.is_none() {
            tracing::warn!(%error, "slurmrestd does not answer: calls pause");
        }
        state.pause = Some(Pause { length, until, is_probed: false, trouble: error.to_string() });
    }
}

/// A probe that nobody waited for leaves the place to the next.
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
