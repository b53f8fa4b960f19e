//! Ctrl-C while a bed is coming up, and while another program runs.

use std::future::Future;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Context, Failure};

/// Runs `work` to its end, or drops it on Ctrl-C or SIGTERM. A bed that was coming up is taken down with all its processes.
///
/// Builds and installations belong before this call: there the default action of SIGINT is right, which ends this process and the programs it runs at
/// once.
pub fn until_interrupted<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let what = || "could not start".to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context(what)?;
    runtime.block_on(async {
        // Registered before the work begins, so that no Ctrl-C is lost.
        let (mut interrupts, mut terminations) =
            (signal(SignalKind::interrupt()).context(what)?, signal(SignalKind::terminate()).context(what)?);
        let interrupted = || Err(Failure::new("interrupted; a bed that was coming up is gone, one that was up still is"));
        tokio::select! {
            biased;
            _ = interrupts.recv() => interrupted(),
            _ = terminations.recv() => interrupted(),
            outcome = work => outcome,
        }
    })
}

/// Runs a program to its end. Ctrl-C reaches it once, whether a terminal sends it to all processes or somebody sends it to this one alone. What to do
/// about it is up to the program.
pub fn run_interruptibly(command: &mut Command) -> io::Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut interrupts, mut terminations) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        // A process group of its own gets no signal from the terminal, and must not read from it.
        let mut child = command.process_group(0).stdin(Stdio::null()).spawn()?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // It may have ended at this very moment.
        let forward = |signal| group.map(|group| kill_process_group(group, signal));
        let mut ended = tokio::task::spawn_blocking(move || child.wait());
        loop {
            tokio::select! {
                status = &mut ended => return status?,
                _ = interrupts.recv() => drop(forward(Signal::INT)),
                _ = terminations.recv() => drop(forward(Signal::TERM)),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use rustix::process::{getpid, kill_process};

    use super::*;

    #[test]
    fn an_interruption_of_this_process_alone_reaches_the_program() {
        let ready = std::env::temp_dir().join(format!("slipway-interrupt-{}", std::process::id()));
        let script = format!("trap 'exit 7' TERM; touch {}; while :; do sleep 0.05; done", ready.display());
        let status = std::thread::scope(|scope| {
            let running = scope.spawn(|| run_interruptibly(Command::new("bash").args(["-c", &script])));
            while !ready.exists() {
                std::thread::yield_now();
            }
            // SIGINT may be ignored here, as it is in the background of a shell.
            kill_process(getpid(), Signal::TERM).unwrap();
            running.join().unwrap().unwrap()
        });
        std::fs::remove_file(ready).unwrap();
        assert_eq!(status.code(), Some(7));
    }
}
