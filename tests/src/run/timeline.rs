//! Time of a run, by phase.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use slipway_bed::progress::seconds;

/// Phases in the order in which they ended. Some run concurrently, so they may add up to more than the whole.
pub struct Timeline {
    began: Instant,
    phases: Mutex<Vec<(String, Duration)>>,
}

impl Timeline {
    /// Starts a timeline; `before` is the first phase, which ran before this program could.
    pub fn start(before: Option<(&str, Duration)>) -> Self {
        let phases = before.map(|(name, took)| (name.to_owned(), took)).into_iter().collect();
        Self { began: Instant::now(), phases: Mutex::new(phases) }
    }

    /// Runs a phase and records its duration, even if it fails.
    pub fn phase<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let outcome = work();
        self.phases.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), began.elapsed()));
        outcome
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phases = self.phases.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(out, "where the time went:")?;
        for (name, took) in phases.iter() {
            writeln!(out, "  {:>12}  {name}", seconds(*took))?;
        }
        writeln!(out, "  {:>12}  since the programs were built", seconds(self.began.elapsed()))
    }
}
