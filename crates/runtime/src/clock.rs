//! The clock, which tests can replace.

use jiff::Timestamp;

/// Source of wall-clock time.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the only place that may read the clock
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
