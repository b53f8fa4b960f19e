//! Workers come, rest and leave.

use std::time::{Duration, Instant};

use slipway_bed::failure::Failure;

use super::audit::{of, reads, writes};
use super::figure::{Figure, as_float, mega};
use super::floor::floor;
use super::process::Process;
use super::yard::{Cluster, Yard, until};

/// Kubernetes nodes; workers share them.
const HOSTS: usize = 100;
/// Time of rest that is measured.
const REST: Duration = Duration::from_secs(30);
/// Goals for memory, in MB, by workers.
const MEMORY: [(u32, f64); 2] = [(5_000, 90.0), (10_000, 150.0)];

/// Workers come; then nothing changes; then the operator restarts.
pub(super) async fn measure(yard: &Yard, workers: u32) -> Result<Vec<Figure>, Failure> {
    let figure = |what: &str, value: f64, unit| Figure::new("growth", format!("{workers} workers: {what}"), value, unit);
    let bare = {
        let cluster = yard.cluster("floor", HOSTS).await?;
        floor(yard, &cluster, workers).await?
    };
    let cluster = yard.cluster("growth", HOSTS).await?;
    let (audit, operator) = (yard.audit(), yard.operator()?);
    yard.scale(&cluster, workers).await?;
    let took = yard.until_settled(&operator, &cluster, workers).await?;
    let in_growth = operator.usage()?;
    let began = Instant::now();
    yard.until_described(&operator, &cluster).await?;
    let described = began.elapsed();
    let requests = audit.requests();
    let mut figures = vec![
        figure("floor", bare.as_secs_f64(), "s"),
        figure("all ready and idle in Slurm", took.as_secs_f64(), "s"),
        figure("against the floor", took.as_secs_f64() / bare.as_secs_f64(), "x").goal(1.2),
        figure("node comments after that", described.as_secs_f64(), "s").goal(60.0),
        figure("whole node tables read", as_float(cluster.sim.whole_lists("nodes")), "").goal(40.0),
        figure("read from slurmrestd", mega(cluster.sim.bytes_sent()), "MB"),
        figure("writes for each worker", as_float(writes(&requests)) / f64::from(workers), "").goal(2.2),
        figure("reads of Secrets", as_float(of(&requests, "get secrets")), "").goal(10.0),
        figure("CPU", in_growth.cpu.as_secs_f64(), "s"),
        figure("peak memory", mega(operator.usage()?.peak), "MB"),
    ];
    if let Some((_, goal)) = MEMORY.iter().find(|(size, _)| *size == workers)
        && let Some(memory) = figures.last_mut()
    {
        memory.goal = Some(*goal);
    }
    figures.extend(rest(yard, &operator, figure).await?);
    drop(operator);
    figures.push(restart(yard, &cluster, figure).await?);
    Ok(figures)
}

/// Nothing changes.
async fn rest(yard: &Yard, operator: &Process, figure: impl Fn(&str, f64, &'static str) -> Figure) -> Result<[Figure; 2], Failure> {
    let (audit, before) = (yard.audit(), operator.usage()?);
    tokio::time::sleep(REST).await;
    let cpu = operator.usage()?.cpu.saturating_sub(before.cpu);
    let requests = audit.requests();
    let share = cpu.as_secs_f64() / REST.as_secs_f64();
    eprintln!("  at rest: {} reads, {} writes", reads(&requests), writes(&requests));
    Ok([figure("writes at rest", as_float(writes(&requests)), "").goal(0.0), figure("CPU at rest", share, "cores")])
}

/// A new process comes to its first right pass: it reads everything, and writes nothing.
async fn restart(yard: &Yard, cluster: &Cluster, figure: impl Fn(&str, f64, &'static str) -> Figure) -> Result<Figure, Failure> {
    let (audit, seen, began) = (yard.audit(), cluster.sim.requests("GET nodes"), Instant::now());
    let operator = yard.operator()?;
    until("the first read of Slurm", async || {
        Ok(if cluster.sim.requests("GET nodes") > seen { Ok(()) } else { Err("none yet".to_owned()) })
    })
    .await?;
    let took = began.elapsed();
    // A wrong pass would write; give it the time of two reads.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let written = writes(&audit.requests());
    drop(operator);
    if written > 0 {
        return Err(Failure::new(format!("{written} writes after a restart")));
    }
    Ok(figure("restart to the first read of Slurm, without a write", took.as_secs_f64(), "s").goal(5.0))
}

/// All workers leave, and their records in Slurm with them.
pub(super) async fn departure(yard: &Yard, workers: u32) -> Result<Vec<Figure>, Failure> {
    let figure = |what: &str, value: f64, unit| Figure::new("departure", format!("{workers} workers: {what}"), value, unit);
    let cluster = yard.cluster("departure", HOSTS).await?;
    let operator = yard.operator()?;
    yard.scale(&cluster, workers).await?;
    yard.until_settled(&operator, &cluster, workers).await?;
    // By default records stay, for workers to come.
    yard.prune(&cluster).await?;
    let (calls, began) = (cluster.sim.requests(""), Instant::now());
    yard.scale(&cluster, 0).await?;
    until("all records to be deleted", async || {
        let left = cluster.sim.world(|world| world.nodes.len());
        Ok(if left == 0 { Ok(()) } else { Err(format!("{left} are left")) })
    })
    .await?;
    let took = began.elapsed();
    drop(operator);
    Ok(vec![
        figure("gone from Kubernetes and Slurm", took.as_secs_f64(), "s").goal(60.0),
        figure("Slurm calls", as_float(cluster.sim.requests("") - calls), ""),
    ])
}
