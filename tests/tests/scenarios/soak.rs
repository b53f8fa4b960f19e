//! Five minutes of the soak: jobs run on while everything around them is disturbed.

use std::time::Duration;

use slipway_tests::soak::soak;

/// Fixed, so that a failure can be repeated. `make soak` tries others, and for longer.
const SEED: u64 = 15;

#[tokio::test]
async fn no_job_is_lost_that_nothing_was_supposed_to_end() {
    let report = soak(SEED, Duration::from_mins(5)).await.unwrap();
    eprintln!("{report}");
}
