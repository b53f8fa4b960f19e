//! Promises about slurmctld itself.

use slipway_slurm::rest::{RestError, Version};

use super::bench::{Bench, eventually, fine, holds};

pub(super) async fn a_controller_answers_a_ping(bench: &Bench) -> Result<(), String> {
    let pings = fine(bench.client.ping().await)?;
    let [ping] = pings.as_slice() else { return Err(format!("one controller is configured, and {pings:?} answer")) };
    let mode = if bench.version < Version::V45 { "primary" } else { "" };
    holds(ping.responding && ping.primary && ping.mode == mode && !ping.hostname.is_empty(), || format!("{ping:?}"))
}

pub(super) async fn the_configuration_in_force_is_told(bench: &Bench) -> Result<(), String> {
    let conf = bench.client.conf().await;
    if bench.version < Version::V45 {
        return holds(matches!(conf, Err(RestError::Unsupported { .. })), || format!("{conf:?}"));
    }
    let conf = fine(conf)?;
    holds(conf.hash > 0 && conf.booted_at.moment().is_some() && conf.release.contains('.'), || format!("{conf:?}"))
}

pub(super) async fn counters_are_told(bench: &Bench) -> Result<(), String> {
    let statistics = fine(bench.client.diag().await)?;
    // A controller that has just read its configuration has counted nothing else yet.
    holds(statistics.server_thread_count > 0 && statistics.req_time.moment().is_some(), || format!("{statistics:?}"))
}

pub(super) async fn a_reconfigure_reaches_every_worker(bench: &Bench) -> Result<(), String> {
    let asked_at = fine(bench.client.diag().await)?.req_time;
    fine(bench.client.reconfigure().await)?;
    eventually("every slurmd to have restarted", async || {
        for index in 0..2 {
            let node = bench.node(index).await?;
            let started = node.slurmd_start_time;
            holds(started.get() >= asked_at.get(), || format!("`{}` started at {started:?}, before {asked_at:?}", node.name))?;
        }
        Ok(())
    })
    .await?;
    if bench.version < Version::V45 {
        return Ok(());
    }
    let conf = fine(bench.client.conf().await)?;
    holds(conf.booted_at.get() >= asked_at.get(), || format!("read before {asked_at:?}: {conf:?}"))
}
