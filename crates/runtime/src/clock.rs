//! Time, as a part that tests can replace.

use jiff::Timestamp;

/// Tells the wall-clock time.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place that may ask
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
