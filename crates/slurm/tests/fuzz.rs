//! Replays every seed of the fuzzing targets, and every input that once broke one. `make fuzz` searches for new ones.
#![cfg(feature = "rest")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap is a failed test")]

#[path = "../fuzz/src/lib.rs"]
#[allow(unreachable_pub, dead_code, reason = "the same files are a library for the engine")]
mod fuzz;

use std::path::Path;
use std::time::{Duration, Instant};

use fuzz::seed::Seed;
use fuzz::{config, hostlist, rest, seed};

/// Time limit for an input of a few thousand bytes, even on a busy machine and in a development build.
const PATIENCE: Duration = Duration::from_secs(5);

/// Inputs that once broke a target; the fuzzing engine writes them there.
fn found(target: &str) -> Vec<Seed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/found").join(target);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap())).collect()
}

fn replay(target: &str, seeds: Vec<Seed>, run: fn(&[u8])) {
    assert!(seeds.len() > 50, "{target} has {} seeds", seeds.len());
    for (name, input) in seeds.into_iter().chain(found(target)) {
        let started = Instant::now();
        assert!(std::panic::catch_unwind(|| run(&input)).is_ok(), "{target}: {name} breaks it");
        let took = started.elapsed();
        assert!(took < PATIENCE, "{target}: {name} took {took:?}");
    }
}

#[test]
fn no_known_list_of_hosts_does_harm() {
    replay("hostlist", seed::hostlists(), hostlist::run);
}

#[test]
fn no_known_configuration_does_harm() {
    replay("config", seed::configs(), config::run);
}

#[test]
fn no_known_answer_of_slurmrestd_does_harm() {
    replay("rest", seed::answers(), rest::run);
}
