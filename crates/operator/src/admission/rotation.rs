//! Timing and order of certificate renewals.
//!
//! A CA is replaced in three steps, so that no certificate is ever served before its CA is trusted: the next CA is trusted beside the current one;
//! then it signs the served certificate; then the previous CA is no longer trusted.

use std::time::Duration;

use anyhow::ensure;
use jiff::Timestamp;

/// Validity periods of certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lives {
    pub(super) authority: Duration,
    pub(super) certificate: Duration,
    /// Time for a change to reach every API server and every replica, a generous estimate.
    pub(super) settle: Duration,
}

const LONGEST_SETTLE: Duration = Duration::from_mins(1);

impl Lives {
    /// Fails if the CA does not last long enough for its certificates.
    pub(super) fn new(authority: Duration, certificate: Duration) -> anyhow::Result<Self> {
        ensure!(certificate >= Duration::from_secs(10), "a certificate has to last 10 seconds at least");
        ensure!(authority >= certificate * 2, "an authority has to last at least twice as long as its certificates");
        Ok(Self { authority, certificate, settle: (certificate / 10).min(LONGEST_SETTLE) })
    }
}

/// Validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) made: Timestamp,
    pub(super) ends: Timestamp,
}

impl Span {
    /// Time of renewal: two thirds of the validity period.
    fn due(self) -> Timestamp {
        let life = self.ends.duration_since(self.made);
        self.made.checked_add(life * 2 / 3).unwrap_or(self.made)
    }

    fn settled(self, lives: Lives) -> Timestamp {
        self.made.checked_add(lives.settle).unwrap_or(self.made)
    }
}

/// State of the stored certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) authority: Span,
    pub(super) certificate: Span,
    /// True if the certificate is signed by the CA and names all hosts.
    pub(super) is_certificate_right: bool,
    /// The next CA, while it is being introduced.
    pub(super) next: Option<Span>,
    /// True if the registration makes the API server trust the next CA.
    pub(super) is_next_trusted: bool,
    /// True if the previous CA is still trusted.
    pub(super) has_former: bool,
}

/// Next step of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Create a CA and a certificate, as there is nothing usable.
    Begin,
    /// Create a new certificate under the current CA.
    Renew,
    /// Create the next CA, to be trusted beside the current one.
    Introduce,
    /// Sign with the next CA, which becomes the current one.
    Swap,
    /// Stop trusting the previous CA.
    Drop,
    /// Do nothing before this time.
    Wait(Timestamp),
}

/// The next step.
pub(super) fn plan_step(state: Option<State>, lives: Lives, now: Timestamp) -> Step {
    let Some(state) = state.filter(|state| now < state.authority.ends) else { return Step::Begin };
    let State { authority, certificate, is_certificate_right, next, is_next_trusted, has_former } = state;
    if !is_certificate_right || now >= certificate.ends {
        return Step::Renew;
    }
    if has_former {
        // The previous CA is dropped before the next one is created: three at a time would be hard to follow.
        let at = certificate.settled(lives);
        return if now >= at { Step::Drop } else { Step::Wait(at) };
    }
    if let Some(next) = next {
        let at = next.settled(lives);
        return match now >= at {
            true if is_next_trusted => Step::Swap,
            true => Step::Wait(now.checked_add(lives.settle).unwrap_or(now)),
            false => Step::Wait(at),
        };
    }
    if now >= authority.due() {
        return Step::Introduce;
    }
    // A certificate that cannot be extended is not renewed.
    let can_last_longer = certificate.ends < authority.ends;
    if can_last_longer && now >= certificate.due() {
        return Step::Renew;
    }
    let certificate_due = if can_last_longer { certificate.due() } else { authority.due() };
    Step::Wait(authority.due().min(certificate_due))
}

#[cfg(test)]
mod tests;
