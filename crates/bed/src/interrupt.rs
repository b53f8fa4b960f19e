//! Ctrl-C while a bed is coming up.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Context, Failure};

/// Runs `work` to its end, or drops it on Ctrl-C. A bed that was coming up is taken down with all its processes.
///
/// Builds and installations belong before this call: there the default action of SIGINT is right, which ends this process and the programs it runs at
/// once.
pub fn until_interrupted<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let what = || "could not start".to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context(what)?;
    runtime.block_on(async {
        // Registered before the work begins, so that no Ctrl-C is lost.
        let mut interrupts = signal(SignalKind::interrupt()).context(what)?;
        tokio::select! {
            biased;
            _ = interrupts.recv() => Err(Failure::new("interrupted; a bed that was coming up is gone, one that was up still is")),
            outcome = work => outcome,
        }
    })
}
