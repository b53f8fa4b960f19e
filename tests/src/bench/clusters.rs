//! Many small clusters side by side.

use std::time::{Duration, Instant};

use slipway_bed::failure::Failure;
use slipway_sim::fault::{Fault, FaultKind};

use super::audit::{reads, writes};
use super::figure::{Figure, as_float, mega};
use super::observer::Observer;
use super::process::Process;
use super::yard::{Cluster, NODESET, Yard};

const WORKERS: u32 = 5;
/// Secrets are read every five minutes.
const REST: Duration = Duration::from_mins(5);
/// Time for the last comments to be written.
const SETTLED: Duration = Duration::from_secs(30);
/// Workers of the cluster in motion.
const MANY: u32 = 1_000;
/// Interval between two probes, and the time after which one counts as not shown.
const PROBE: Duration = Duration::from_secs(5);
const PROBES: usize = 12;

async fn stand_up(yard: &Yard, count: u32) -> Result<(Vec<Cluster>, Process), Failure> {
    let mut clusters = Vec::new();
    for index in 0..count {
        clusters.push(yard.cluster(&format!("c{index}"), 2).await?);
    }
    let operator = yard.operator()?;
    for cluster in &clusters {
        yard.scale(cluster, WORKERS).await?;
    }
    for cluster in &clusters {
        yard.until_settled(&operator, cluster, WORKERS).await?;
    }
    Ok((clusters, operator))
}

/// Nothing happens.
pub(super) async fn at_rest(yard: &Yard, count: u32) -> Result<Vec<Figure>, Failure> {
    let figure = |what: &str, value: f64, unit| Figure::new("clusters", format!("{count} clusters of {WORKERS}: {what}"), value, unit);
    let (clusters, operator) = stand_up(yard, count).await?;
    tokio::time::sleep(SETTLED).await;
    let (audit, before) = (yard.audit(), operator.usage()?);
    eprintln!("  nothing happens for {} s", REST.as_secs());
    tokio::time::sleep(REST).await;
    let (usage, requests, minutes) = (operator.usage()?, audit.requests(), REST.as_secs_f64() / 60.0);
    drop((operator, clusters));
    eprintln!("  requests in {minutes} minutes: {requests:?}");
    Ok(vec![
        figure("reads of the API server a minute", as_float(reads(&requests)) / minutes, "").goal(50.0),
        figure("writes a minute", as_float(writes(&requests)) / minutes, "").goal(0.0),
        figure("CPU", usage.cpu.saturating_sub(before.cpu).as_secs_f64() / REST.as_secs_f64(), "cores"),
        figure("memory", mega(usage.memory), "MB"),
    ])
}

/// One slurmrestd hangs, one returns garbage, and one cluster is in motion: how long the others take to show a job, against before.
pub(super) async fn bad_neighbour(yard: &Yard, count: u32) -> Result<Vec<Figure>, Failure> {
    let figure = |what: &str, value: f64, unit| Figure::new("bad-neighbour", format!("{count} clusters: {what}"), value, unit);
    let (clusters, operator) = stand_up(yard, count).await?;
    let [hangs, garbage, moves, good @ ..] = clusters.as_slice() else { return Err(Failure::new("too few clusters".to_owned())) };
    let before = latency(yard, good).await;
    hangs.sim.fail(Fault::new(FaultKind::Stall));
    garbage.sim.fail(Fault::new(FaultKind::TornList));
    yard.scale(moves, MANY).await?;
    let during = latency(yard, good).await;
    drop(operator);
    Ok(vec![
        figure("a job shows, alone", before.as_secs_f64(), "s"),
        figure("a job shows, beside three in trouble", during.as_secs_f64(), "s").goal(before.as_secs_f64() * 1.2),
    ])
}

/// Mean time until a job on an idle worker shows, over some clusters.
async fn latency(yard: &Yard, clusters: &[Cluster]) -> Duration {
    let worker = format!("{NODESET}-0");
    let mut sum = Duration::ZERO;
    for probe in 0..PROBES {
        let cluster = &clusters[probe % clusters.len()];
        let observer = Observer::start(yard.client.clone(), &cluster.namespace);
        let started = Instant::now();
        let job = cluster.sim.world(|world| world.run_now(&worker, NODESET, 60));
        tokio::time::sleep(PROBE).await;
        sum += observer.shown_after(&worker, started).unwrap_or(PROBE);
        cluster.sim.world(|world| world.end_job(job, "COMPLETED"));
    }
    sum / u32::try_from(PROBES).unwrap_or(1)
}
