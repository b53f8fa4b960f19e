//! Current load of this machine: its spare capacity, and the share of time in which work waits for a core.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// Ticks of all cores since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    all: u64,
    idle: u64,
    /// Taken by the host of a virtual machine.
    stolen: u64,
}

/// One reading of the machine's counters; two readings describe the time between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    ticks: Ticks,
    /// Time in which a runnable process had no core. Zero on kernels that do not count it.
    waited: Duration,
}

impl Reading {
    /// Reads the counters. A counter that cannot be read counts as zero, so that a machine without it looks idle.
    pub fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self { ticks: parse_ticks(&read("/proc/stat")), waited: parse_waited(&read("/proc/pressure/cpu")) }
    }

    /// Share of the core time given to this machine that was used since an earlier reading, from 0 to 1. Steal time is left out: it depends on other
    /// guests of the host, and waiting does not reduce it.
    pub fn busy_since(self, earlier: Self) -> f64 {
        let since = |of: fn(&Ticks) -> u64| of(&self.ticks).saturating_sub(of(&earlier.ticks));
        let given = since(|ticks| ticks.all).saturating_sub(since(|ticks| ticks.stolen));
        share(given.saturating_sub(since(|ticks| ticks.idle)), given)
    }

    /// Share of the time since an earlier reading, `elapsed` ago, in which work waited for a core, from 0 to 1.
    pub fn stalled_since(self, earlier: Self, elapsed: Duration) -> f64 {
        let stolen = share(self.ticks.stolen.saturating_sub(earlier.ticks.stolen), self.ticks.all.saturating_sub(earlier.ticks.all));
        let waited = self.waited.saturating_sub(earlier.waited).as_secs_f64() / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        stolen.max(waited).clamp(0.0, 1.0)
    }
}

/// Memory available to new processes without swapping, in bytes.
pub fn available_memory() -> u64 {
    parse_available(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

/// inotify instances that root can still create. Linux allows 128 per user by default, and a kubelet that gets none exits.
pub fn free_inotify_instances() -> usize {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").ok().and_then(|limit| limit.trim().parse().ok());
    limit.unwrap_or(usize::MAX).saturating_sub(inotify_instances())
}

/// inotify instances of root's processes. Processes that end meanwhile are skipped.
fn inotify_instances() -> usize {
    let entries = |path: std::path::PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    let processes = entries("/proc".into())
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(|first: char| first.is_ascii_digit()))
        .filter(|entry| entry.metadata().is_ok_and(|process| process.uid() == 0));
    let descriptors = processes.flat_map(|process| entries(process.path().join("fd")));
    descriptors.filter(|fd| fs::read_link(fd.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:inotify")).count()
}

#[allow(clippy::cast_precision_loss, reason = "a share needs no more than a few digits")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Parses the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
fn parse_ticks(stat: &str) -> Ticks {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|number| number.parse().ok()).collect();
    let at = |index: usize| ticks.get(index).copied().unwrap_or_default();
    // Guest time is already counted in `user`.
    Ticks { all: ticks.iter().take(8).sum(), idle: at(3) + at(4), stolen: at(7) }
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=<microseconds>`.
fn parse_waited(pressure: &str) -> Duration {
    let total = pressure.lines().find(|line| line.starts_with("some ")).and_then(|line| line.rsplit("total=").next());
    Duration::from_micros(total.and_then(|total| total.trim().parse().ok()).unwrap_or_default())
}

fn parse_available(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(stat: &str, total: u64) -> Reading {
        let pressure = format!("some avg10=1.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
        Reading { ticks: parse_ticks(stat), waited: parse_waited(&pressure) }
    }

    #[test]
    fn two_readings_tell_how_busy_the_machine_was_and_how_long_work_waited() {
        let before = reading("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\n", 1_000_000);
        let after = reading("cpu  150 0 120 710 110 0 0 10 0 0\n", 1_500_000);
        let (busy, stalled) = (after.busy_since(before), after.stalled_since(before, Duration::from_secs(1)));
        assert!((busy - 70.0 / 90.0).abs() < 1e-9, "{busy}");
        assert!((stalled - 0.5).abs() < 1e-9, "{stalled}");
        let stolen = reading("cpu  100 0 100 710 100 0 0 90 0 0\n", 1_000_000).stalled_since(before, Duration::from_secs(1));
        assert!((stolen - 0.9).abs() < 1e-9, "what the host takes is time without a core: {stolen}");
    }

    #[test]
    fn counters_that_are_missing_count_as_zero() {
        let stalled = reading("", 0).stalled_since(reading("", 0), Duration::from_secs(1));
        assert!(stalled.abs() < 1e-9, "{stalled}");
        assert_eq!(parse_waited(""), Duration::ZERO);
        assert_eq!(parse_available("MemFree: 1 kB\nMemAvailable:    2048 kB\n"), 2 << 20);
    }
}
