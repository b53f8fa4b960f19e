//! When certificates are made anew, and in which order.
//!
//! An authority is followed by the next one in three steps, so that at no moment a certificate is served whose authority is not trusted yet: the next
//! one is trusted beside the present one; then it signs what is served; then the former one is no longer trusted.

use std::time::Duration;

use anyhow::ensure;
use jiff::Timestamp;

/// How long certificates last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lives {
    pub(super) authority: Duration,
    pub(super) certificate: Duration,
    /// How long a change takes to reach every API server and every replica, generously.
    pub(super) settle: Duration,
}

const LONGEST_SETTLE: Duration = Duration::from_mins(1);

impl Lives {
    /// Fails when the authority does not last long enough for its certificates.
    pub(super) fn new(authority: Duration, certificate: Duration) -> anyhow::Result<Self> {
        ensure!(certificate >= Duration::from_secs(10), "a certificate has to last 10 seconds at least");
        ensure!(authority >= certificate * 2, "an authority has to last at least twice as long as its certificates");
        Ok(Self { authority, certificate, settle: (certificate / 10).min(LONGEST_SETTLE) })
    }
}

/// From when to when something lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) made: Timestamp,
    pub(super) ends: Timestamp,
}

impl Span {
    /// Two thirds of the way to its end.
    fn due(self) -> Timestamp {
        let life = self.ends.duration_since(self.made);
        self.made.checked_add(life * 2 / 3).unwrap_or(self.made)
    }

    fn settled(self, lives: Lives) -> Timestamp {
        self.made.checked_add(lives.settle).unwrap_or(self.made)
    }
}

/// What there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) authority: Span,
    pub(super) certificate: Span,
    /// Whether the certificate is signed by the authority and names all hosts.
    pub(super) is_certificate_right: bool,
    /// The next authority, while it is being brought in.
    pub(super) next: Option<Span>,
    /// Whether the API server was told to trust the next one.
    pub(super) is_next_trusted: bool,
    /// Whether the former authority is still trusted.
    pub(super) has_former: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Make an authority and a certificate, as there is nothing that could be used.
    Begin,
    /// Make a new certificate under the present authority.
    Renew,
    /// Make the next authority, to be trusted beside the present one.
    Introduce,
    /// Sign with the next authority, which becomes the present one.
    Swap,
    /// Trust the former authority no longer.
    Drop,
    /// Nothing before this time.
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
        // The former one goes before the next comes: three at a time nobody could follow.
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
    // One that cannot be made to last longer is not made anew.
    let can_last_longer = certificate.ends < authority.ends;
    if can_last_longer && now >= certificate.due() {
        return Step::Renew;
    }
    let certificate_due = if can_last_longer { certificate.due() } else { authority.due() };
    Step::Wait(authority.due().min(certificate_due))
}

#[cfg(test)]
mod tests;
