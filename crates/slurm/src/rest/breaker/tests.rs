use super::*;

const MS: Duration = Duration::from_millis(1);

fn gone() -> Result<(), RestError> {
    Err(RestError::Unreachable("refused".to_owned()))
}

/// An event in the table, whose times are in milliseconds since the start.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A call that fails at once, or one that gets a response.
    Fails,
    Answers,
    /// Refused without being sent, with this many milliseconds to wait.
    Waits(u64),
}

use Step::{Answers, Fails, Waits};

#[rstest::rstest]
#[case::a_few_failures_pause_nothing(&[(0, Fails), (1, Fails), (2, Fails), (3, Fails), (4, Answers), (5, Fails), (6, Fails), (7, Fails), (8, Fails), (9, Answers)])]
#[case::the_fifth_in_a_row_does(&[(0, Fails), (0, Fails), (0, Fails), (0, Fails), (0, Fails), (0, Waits(1000)), (999, Waits(500)), (1000, Answers), (1001, Answers)])]
#[case::the_pause_grows_and_is_bounded(&[
    (0, Fails), (0, Fails), (0, Fails), (0, Fails), (0, Fails),
    (1_000, Fails), (2_999, Waits(500)), (3_000, Fails), (6_999, Waits(500)), (7_000, Fails), (11_000, Waits(1_000)),
    (12_000, Fails), (16_999, Waits(500)), (17_000, Fails), (21_999, Waits(500)), (22_000, Answers), (22_001, Answers),
])]
#[case::after_an_answer_all_begins_anew(&[
    (0, Fails), (0, Fails), (0, Fails), (0, Fails), (0, Fails), (1_000, Fails), (3_000, Answers),
    (3_001, Fails), (3_001, Fails), (3_001, Fails), (3_001, Fails), (3_001, Fails), (3_001, Waits(1_000)),
])]
#[tokio::test(start_paused = true)]
async fn calls_pause_and_go_on(#[case] steps: &[(u64, Step)]) {
    let (breaker, start) = (Breaker::default(), Instant::now());
    for (at, step) in steps {
        let now = start + MS * u32::try_from(*at).unwrap();
        match (step, breaker.admit(now)) {
            (Fails, Ok(leave)) => leave.ended(&gone(), now),
            (Answers, Ok(leave)) => leave.ended(&Ok(()), now),
            (Waits(expected), Err(RestError::Paused { wait, .. })) => assert_eq!(wait, Duration::from_millis(*expected), "at {at}"),
            (step, seen) => panic!("at {at} ms expected {step:?}, saw {seen:?}"),
        }
    }
}

fn paused(start: Instant) -> Breaker {
    let breaker = Breaker::default();
    for _ in 0..FAILURES {
        breaker.admit(start).unwrap().ended(&gone(), start);
    }
    breaker
}

#[tokio::test(start_paused = true)]
async fn only_one_call_at_a_time_probes_and_one_that_is_dropped_blocks_nobody() {
    let start = Instant::now();
    let breaker = paused(start);
    let now = start + FIRST_PAUSE;
    let probe = breaker.admit(now).unwrap();
    assert!(breaker.admit(now).is_err() && breaker.admit(now + LONGEST_PAUSE).is_err(), "a second one beside the probe");
    drop(probe);
    breaker.admit(now).unwrap().ended(&Ok(()), now);
    assert!(breaker.admit(now).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_hung_has_used_up_its_pause() {
    let start = Instant::now();
    let breaker = paused(start);
    let mut now = start + FIRST_PAUSE;
    let mut probes = Vec::new();
    while now < start + Duration::from_mins(2) {
        if let Ok(probe) = breaker.admit(now) {
            probes.push(now - start);
            now += Duration::from_secs(10);
            probe.ended(&Err::<(), _>(RestError::TimedOut(Duration::from_secs(10))), now);
        }
        now += MS * 100;
    }
    let longest = probes.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap();
    assert!(longest <= Duration::from_secs(11), "{longest:?} from one probe to the next: {probes:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_a_refusal_shows_that_the_server_is_there() {
    let start = Instant::now();
    let breaker = paused(start);
    let probe = breaker.admit(start + FIRST_PAUSE).unwrap();
    probe.ended(&Err::<(), _>(RestError::NotFound { what: "node `a`".to_owned() }), start + FIRST_PAUSE);
    assert!(breaker.admit(start + FIRST_PAUSE).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_straggler_from_before_the_pause_does_not_lengthen_it() {
    let start = Instant::now();
    let breaker = Breaker::default();
    let straggler = breaker.admit(start).unwrap();
    for _ in 0..FAILURES {
        breaker.admit(start).unwrap().ended(&gone(), start);
    }
    straggler.ended(&gone(), start + MS * 900);
    assert!(breaker.admit(start + FIRST_PAUSE).is_ok());
}
