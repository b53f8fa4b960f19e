use proptest::prelude::*;

use super::*;

const DAY: Duration = Duration::from_hours(24);

fn lives() -> Lives {
    Lives::new(365 * DAY, 30 * DAY).unwrap()
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Applies steps to a model, as the keeper does to a Secret.
struct Model {
    lives: Lives,
    /// Numbers of the trusted CAs; `serving` is the CA of the served certificate.
    trusted: Vec<u32>,
    serving: Option<u32>,
    authority: Option<(u32, Span)>,
    next: Option<(u32, Span)>,
    former: Option<u32>,
    certificate: Option<Span>,
    made: u32,
}

impl Model {
    fn new(lives: Lives) -> Self {
        Self { lives, trusted: Vec::new(), serving: None, authority: None, next: None, former: None, certificate: None, made: 0 }
    }

    fn state(&self) -> Option<State> {
        Some(State {
            authority: self.authority?.1,
            certificate: self.certificate?,
            is_certificate_right: self.serving == self.authority.map(|(number, _)| number),
            next: self.next.map(|(_, span)| span),
            is_next_trusted: self.next.is_some_and(|(number, _)| self.trusted.contains(&number)),
            has_former: self.former.is_some(),
        })
    }

    fn authority(&mut self, now: Timestamp) -> (u32, Span) {
        self.made += 1;
        (self.made, Span { made: now, ends: now + self.lives.authority })
    }

    fn sign(&mut self, now: Timestamp) {
        let (number, span) = self.authority.unwrap();
        self.serving = Some(number);
        self.certificate = Some(Span { made: now, ends: (now + self.lives.certificate).min(span.ends) });
    }

    fn take(&mut self, step: Step, now: Timestamp) {
        match step {
            Step::Begin => {
                self.authority = Some(self.authority(now));
                (self.next, self.former) = (None, None);
                self.sign(now);
            }
            Step::Renew => self.sign(now),
            Step::Introduce => self.next = Some(self.authority(now)),
            Step::Swap => {
                self.former = self.authority.map(|(number, _)| number);
                self.authority = self.next.take();
                self.sign(now);
            }
            Step::Drop => self.former = None,
            Step::Wait(_) => {}
        }
    }

    /// Registers every CA, as the keeper does after the steps.
    fn register(&mut self) {
        self.trusted =
            [self.authority.map(|(number, _)| number), self.next.map(|(number, _)| number), self.former].into_iter().flatten().collect();
    }

    /// Takes steps until there are none. Returns the time of the next check.
    fn pass(&mut self, now: Timestamp) -> Timestamp {
        for _ in 0..4 {
            match plan_step(self.state(), self.lives, now) {
                Step::Wait(until) => {
                    assert!(until > now, "it would spin at {now}");
                    return until;
                }
                step => self.take(step, now),
            }
        }
        panic!("no end of steps");
    }
}

#[test]
fn a_year_passes_in_few_steps_and_every_step_is_trusted() {
    let mut model = Model::new(lives());
    let mut now = start();
    let mut passes = 0;
    while now < start() + 365 * DAY {
        let trusted = model.trusted.clone();
        let until = model.pass(now);
        assert!(trusted.is_empty() || trusted.contains(&model.serving.unwrap()), "served before it was trusted, at {now}");
        model.register();
        now = until;
        passes += 1;
    }
    assert!((15..30).contains(&passes), "{passes} passes in a year");
    assert_eq!(model.made, 2);
}

#[test]
fn the_next_authority_signs_only_after_it_was_trusted_for_a_while() {
    let mut model = Model::new(lives());
    model.pass(start());
    let due = start() + 365 * DAY * 2 / 3;
    model.pass(due);
    assert!(model.next.is_some() && model.serving == Some(1));
    // Not registered: it waits, however long that takes.
    model.pass(due + lives().settle * 10);
    assert_eq!(model.serving, Some(1));
    model.register();
    model.pass(due + lives().settle * 10);
    assert_eq!((model.serving, model.former), (Some(2), Some(1)));
    model.register();
    model.pass(due + lives().settle * 11);
    assert_eq!(model.former, None);
}

#[test]
fn a_certificate_that_names_the_wrong_host_is_made_anew_at_once() {
    let mut model = Model::new(lives());
    model.pass(start());
    let state = State { is_certificate_right: false, ..model.state().unwrap() };
    assert_eq!(plan_step(Some(state), lives(), start()), Step::Renew);
}

#[test]
fn lives_that_cannot_work_are_explained() {
    assert!(Lives::new(30 * DAY, 30 * DAY).is_err());
    assert!(Lives::new(30 * DAY, Duration::from_secs(1)).is_err());
}

proptest! {
    #[test]
    fn whatever_the_delays_nothing_untrusted_or_ended_is_served(
        certificate in 10..100_u64, factor in 2..10_u64, late in prop::collection::vec(0..8_u64, 1..60),
    ) {
        let lives = Lives::new(Duration::from_secs(certificate * factor), Duration::from_secs(certificate)).unwrap();
        let mut model = Model::new(lives);
        let mut now = start();
        for late in late {
            let trusted = model.trusted.clone();
            let before = model.serving;
            let until = model.pass(now);
            let is_fresh_start = before != model.serving && model.former.is_none();
            prop_assert!(trusted.is_empty() || is_fresh_start || trusted.contains(&model.serving.unwrap()));
            prop_assert!(model.certificate.unwrap().ends > now);
            model.register();
            now = until + Duration::from_secs(late);
        }
    }
}
