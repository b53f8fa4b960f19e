//! The time of day, handed in from outside.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// Tells the time of day. Whoever makes a client hands one in, so that tests can turn it.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn new(tell: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Clock({})", self.now())
    }
}
