//! How long 100,000 names take: `make bench`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use slipway_slurm::hostlist::{HostSet, Hostlist, compress};

const NAMES: u64 = 100_000;
const RUNS: usize = 20;

/// The median of some runs.
fn median(work: impl Fn()) -> Duration {
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .collect();
    times.sort();
    times[RUNS / 2]
}

fn main() {
    let mixed: Vec<String> = (0..NAMES).map(|number| format!("worker-{}-{}", number % 10, (number * 7919) % NAMES)).collect();
    let set: HostSet = mixed.iter().map(String::as_str).collect();
    let text = set.to_string();
    let half: HostSet = mixed.iter().step_by(2).map(String::as_str).collect();
    let list = Hostlist::parse(&text).unwrap_or_default();
    let report = |what: &str, time: Duration| println!("{what:<44} {:>8.2} ms", time.as_secs_f64() * 1000.0);
    report("100,000 names in any order into a set", median(|| drop(black_box(mixed.iter().map(String::as_str).collect::<HostSet>()))));
    report("a set of 100,000 into text", median(|| drop(black_box(set.to_string()))));
    report("names in their order into text", median(|| drop(black_box(compress(mixed.iter().map(String::as_str))))));
    report("text into a set of 100,000", median(|| drop(black_box(Hostlist::parse(&text).map(|list| list.to_set(1 << 20))))));
    report("names of a list of 100,000", median(|| assert!(black_box(list.names().count()) > 0)));
    report("half of them taken out", median(|| drop(black_box(set.difference(&half)))));
}
