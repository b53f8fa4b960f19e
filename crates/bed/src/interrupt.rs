//! Ctrl-C while a bed comes up.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Context, Failure};

/// Runs `work` to its end, or drops it at Ctrl-C. A bed that was coming up goes down with it, every process.
///
/// Builds and installations belong before this call: there the default is right, which ends us and the programs we run at once.
pub fn until_interrupted<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let what = || "could not start".to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context(what)?;
    runtime.block_on(async {
        // Before the work begins: from here on no Ctrl-C is lost.
        let mut interrupts = signal(SignalKind::interrupt()).context(what)?;
        tokio::select! {
            biased;
            _ = interrupts.recv() => Err(Failure::new("interrupted; a bed that was coming up is gone, one that was up still is")),
            outcome = work => outcome,
        }
    })
}
