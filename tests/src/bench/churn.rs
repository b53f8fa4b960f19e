//! Jobs end and start all the time.

use std::time::{Duration, Instant};

use fastrand::Rng;
use slipway_bed::failure::Failure;
use slipway_sim::Sim;

use super::audit::of;
use super::figure::{Figure, as_float, mega};
use super::observer::Observer;
use super::yard::{NODESET, Yard, until};

const HOSTS: usize = 100;
/// Running jobs for each worker.
const JOBS: u32 = 10;
/// Workers without jobs, on which the latency is measured: one of so many.
const IDLE: u32 = 20;
/// Jobs that end and start in a second.
const CHANGES: u32 = 20;
/// Time limits of jobs, in minutes.
const LIMITS: std::ops::Range<u64> = 30..300;
const WARM_UP: Duration = Duration::from_secs(30);
const MEASURED: Duration = Duration::from_mins(2);
/// Interval between two jobs on idle workers.
const PROBE: Duration = Duration::from_secs(5);

pub(super) async fn measure(yard: &Yard, workers: u32) -> Result<Vec<Figure>, Failure> {
    let figure = |what: &str, value: f64, unit| {
        Figure::new("churn", format!("{workers} workers, {} jobs: {what}", (workers - workers / IDLE) * JOBS), value, unit)
    };
    let cluster = yard.cluster("churn", HOSTS).await?;
    let operator = yard.operator()?;
    yard.scale(&cluster, workers).await?;
    yard.until_settled(&operator, &cluster, workers).await?;
    let mut stream = Stream::fill(&cluster.sim, workers);
    let observer = Observer::start(yard.client.clone(), &cluster.namespace);
    let busy = (workers - workers / IDLE) as usize;
    until("all jobs to show on their pods", async || {
        Ok(if observer.busy() >= busy { Ok(()) } else { Err(format!("{} of {busy} do", observer.busy())) })
    })
    .await?;
    stream.flow(WARM_UP).await;

    let (audit, before, bytes, lists) = (yard.audit(), operator.usage()?, cluster.sim.bytes_sent(), cluster.sim.whole_lists("nodes"));
    let began = Instant::now();
    let mut latencies = Vec::new();
    for probe in 0.. {
        if began.elapsed() >= MEASURED {
            break;
        }
        let worker = workers - 1 - probe % (workers / IDLE);
        let started = Instant::now();
        let job = cluster.sim.world(|world| world.run_now(&format!("{NODESET}-{worker}"), NODESET, 60));
        stream.flow(PROBE).await;
        latencies.push(observer.shown_after(&format!("{NODESET}-{worker}"), started).unwrap_or(PROBE));
        cluster.sim.world(|world| world.end_job(job, "COMPLETED"));
    }
    let took = began.elapsed();
    let (minutes, requests, usage) = (took.as_secs_f64() / 60.0, audit.requests(), operator.usage()?);
    latencies.sort_unstable();
    let longest = latencies.last().copied().unwrap_or_default();
    let median = latencies.get(latencies.len() / 2).copied().unwrap_or_default();
    eprintln!("  requests in {:.0} s: {requests:?}", took.as_secs_f64());
    Ok(vec![
        figure("CPU", usage.cpu.saturating_sub(before.cpu).as_secs_f64() / took.as_secs_f64(), "cores").goal(0.1),
        figure("memory", mega(usage.memory), "MB").goal(70.0),
        figure("pod writes a minute", as_float(of(&requests, " pods")) / minutes, "").goal(60.0),
        figure("read from slurmrestd a minute", mega(cluster.sim.bytes_sent() - bytes) / minutes, "MB").goal(50.0),
        figure("whole node tables a minute", as_float(cluster.sim.whole_lists("nodes") - lists) / minutes, ""),
        figure("a job starts on an idle worker: shown and protected, median", median.as_secs_f64(), "s"),
        figure("the same, longest", longest.as_secs_f64(), "s").goal(3.0),
    ])
}

/// Jobs that end and start.
struct Stream {
    sim: Sim,
    rng: Rng,
    /// Workers with jobs.
    busy: u32,
    running: Vec<u64>,
    /// Time up to which jobs have changed.
    done: Instant,
}

impl Stream {
    /// Starts the first jobs, as many on each worker that is not to be idle.
    fn fill(sim: &Sim, workers: u32) -> Self {
        let mut rng = Rng::with_seed(16);
        let busy = workers - workers / IDLE;
        let running = sim.world(|world| {
            // Room for all of them.
            world.nodes.values_mut().for_each(|node| node.cpus = 1_000);
            let all = (0..busy * JOBS).map(|index| world.run_now(&format!("{NODESET}-{}", index % busy), NODESET, rng.u64(LIMITS)));
            all.collect()
        });
        Self { sim: sim.clone(), rng, busy, running, done: Instant::now() }
    }

    /// Lets jobs end and start for some time.
    async fn flow(&mut self, time: Duration) {
        let (end, tick) = (Instant::now() + time, Duration::from_secs(1) / CHANGES);
        self.done = Instant::now();
        while Instant::now() < end {
            self.done += tick;
            tokio::time::sleep_until(self.done.into()).await;
            let place = self.rng.usize(0..self.running.len());
            let (worker, limit) = (self.rng.u32(0..self.busy), self.rng.u64(LIMITS));
            let old = self.running[place];
            self.running[place] = self.sim.world(|world| {
                world.end_job(old, "COMPLETED");
                world.run_now(&format!("{NODESET}-{worker}"), NODESET, limit)
            });
        }
    }
}
