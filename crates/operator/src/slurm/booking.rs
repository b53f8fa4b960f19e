//! Commands about reservations, and their results.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use slipway_plan::nodeset::{Booking, Told};
use slipway_slurm::rest::{RestError, error::Class};
use tokio::time::Instant;

/// Time for a command to show an effect before it is sent again.
const SETTLE: Duration = Duration::from_mins(1);
/// Retry interval if a command did not reach Slurm.
const RETRY: Duration = Duration::from_secs(10);
/// Retry interval after a refusal, as its cause may disappear.
const TRY_AGAIN: Duration = Duration::from_mins(5);

struct Last {
    booking: Option<Booking>,
    refusal: Option<String>,
    again_at: Instant,
}

/// The last command about each reservation.
#[derive(Default)]
pub(super) struct Bookings(Mutex<BTreeMap<String, Last>>);

impl Bookings {
    /// Notes that a command is about to be sent. A refusal of the same command stays known.
    pub(super) fn begin(&self, name: &str, booking: Option<&Booking>) {
        let mut told = self.locked();
        let before = told.remove(name).filter(|last| last.booking.as_ref() == booking);
        let refusal = before.and_then(|last| last.refusal);
        told.insert(name.to_owned(), Last { booking: booking.cloned(), refusal, again_at: Instant::now() + SETTLE });
    }

    /// Notes the result of a command.
    pub(super) fn end(&self, name: &str, booking: Option<&Booking>, outcome: Result<(), &RestError>) {
        let wait = match outcome.err().map(RestError::class) {
            // slurmctld may restart from an older saved state, in which a deleted reservation still exists.
            None if booking.is_none() => RETRY,
            None => SETTLE,
            Some(Class::Transient) => RETRY,
            Some(Class::External | Class::Permanent) => TRY_AGAIN,
        };
        let refusal = outcome.err().map(ToString::to_string);
        self.locked().insert(name.to_owned(), Last { booking: booking.cloned(), refusal, again_at: Instant::now() + wait });
    }

    pub(super) fn of(&self, name: &str) -> Option<Told> {
        let told = self.locked();
        let Last { booking, refusal, again_at } = told.get(name)?;
        let again_in = again_at.saturating_duration_since(Instant::now());
        Some(Told { booking: booking.clone(), refusal: refusal.clone(), again_in })
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use slipway_slurm::rest::errno::Errno;

    use super::*;

    fn booking(minutes: i64) -> Booking {
        Booking { is_new: true, start: None, minutes, nodes: [].into(), flags: [].into() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_told_is_left_alone_for_a_while() {
        let bookings = Bookings::default();
        assert_eq!(bookings.of("R"), None);
        bookings.begin("R", Some(&booking(1)));
        assert_eq!(bookings.of("R"), Some(Told { booking: Some(booking(1)), refusal: None, again_in: SETTLE }));
        let refused = RestError::Refused { http: 422, number: Errno::INVALID_RESERVATION, text: "no".into() };
        bookings.end("R", Some(&booking(1)), Err(&refused));
        let told = bookings.of("R").unwrap();
        assert_eq!((told.again_in, told.refusal.unwrap().contains("2053")), (TRY_AGAIN, true));
        tokio::time::advance(TRY_AGAIN).await;
        assert_eq!(bookings.of("R").unwrap().again_in, Duration::ZERO);
        bookings.begin("R", Some(&booking(1)));
        assert!(bookings.of("R").unwrap().refusal.is_some(), "until it is known to be well");
        bookings.begin("R", Some(&booking(2)));
        assert!(bookings.of("R").unwrap().refusal.is_none(), "another was not refused");
        bookings.end("R", Some(&booking(2)), Err(&RestError::Broken("off".into())));
        assert_eq!(bookings.of("R").unwrap().again_in, RETRY);
        bookings.end("R", None, Ok(()));
        assert_eq!(bookings.of("R"), Some(Told { booking: None, refusal: None, again_in: RETRY }));
    }
}
