//! A process under measurement.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipway_bed::failure::{Context, Failure};

/// A process, killed when dropped.
pub(super) struct Process {
    child: Mutex<Child>,
    log: PathBuf,
}

/// Resources used by a process so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    /// Resident memory now, in bytes.
    pub(super) memory: u64,
    /// The most that it ever was.
    pub(super) peak: u64,
}

impl Process {
    pub(super) fn start(mut command: Command, log: &Path) -> Result<Self, Failure> {
        let file = File::options().create(true).append(true).open(log).context(|| format!("could not write {}", log.display()))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn();
        let child = child.context(|| format!("could not start {}", command.get_program().display()))?;
        Ok(Self { child: Mutex::new(child), log: log.to_owned() })
    }

    /// Fails if the process has ended.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.child().try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                let last = std::fs::read_to_string(&self.log).unwrap_or_default();
                let last = last.lines().next_back().unwrap_or("nothing");
                Err(Failure::new(format!("the operator has ended ({status}); the last line that it wrote: {last}")))
            }
            Err(error) => Err(Failure::new(format!("the operator cannot be observed: {error}"))),
        }
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn usage(&self) -> Result<Usage, Failure> {
        self.check()?;
        let folder = format!("/proc/{}", self.child().id());
        let read = |file: &str| std::fs::read_to_string(format!("{folder}/{file}")).context(|| "the operator has ended".to_owned());
        let (stat, status) = (read("stat")?, read("status")?);
        usage(&stat, &status).ok_or_else(|| Failure::new(format!("{folder} cannot be read")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Usage by the files `stat` and `status` of a process.
fn usage(stat: &str, status: &str) -> Option<Usage> {
    // The name before may contain anything, also parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    let kibibytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
    };
    let cpu = Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second());
    Some(Usage { cpu, memory: kibibytes("VmRSS:")?, peak: kibibytes("VmHWM:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_from_proc() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 3 0 9 9 9";
        let found = usage(stat, "Name:\ta\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n").unwrap();
        assert_eq!((found.memory, found.peak), (1 << 20, 2 << 20));
        assert_eq!(found.cpu.as_millis() * u128::from(rustix::param::clock_ticks_per_second()), 200_000);
        assert!(usage("", "").is_none());
    }
}
