//! Benchmarks at size, from outside: a real API server, simulated kubelets and a stand-in for slurmrestd, and the operator as a process of its own.

mod audit;
mod churn;
mod clusters;
mod cordon;
mod figure;
mod floor;
mod growth;
mod observer;
mod plot;
mod process;
mod yard;

use std::path::PathBuf;

use slipway_bed::failure::Failure;

pub use figure::{Figure, as_json, table};
pub use plot::{markdown, svg};
use yard::Yard;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The operator's program.
    pub operator: PathBuf,
    /// Name of the only scenario to run.
    pub scenario: Option<String>,
    /// Number of workers, in place of the scenario's own.
    pub workers: Option<u32>,
}

/// Names of the scenarios, and what each measures.
pub const SCENARIOS: [(&str, &str); 6] = [
    ("growth", "workers come, rest, and the operator restarts"),
    ("churn", "jobs end and start all the time"),
    ("cordon", "a tenth of the Kubernetes nodes is cordoned at once"),
    ("departure", "all workers leave, and their records with them"),
    ("clusters", "a hundred clusters at rest"),
    ("bad-neighbour", "a hundred clusters, of which three are in trouble"),
];

/// Runs the scenarios, each on an API server of its own, and returns their figures.
pub async fn bench(options: &Options) -> Result<Vec<Figure>, Failure> {
    let chosen: Vec<_> = SCENARIOS.iter().filter(|(name, _)| options.scenario.as_deref().is_none_or(|only| only == *name)).collect();
    if chosen.is_empty() {
        let known: Vec<&str> = SCENARIOS.iter().map(|(name, _)| *name).collect();
        return Err(Failure::new(format!("there is no such scenario; there are {}", known.join(", "))));
    }
    let mut figures = Vec::new();
    for (place, (name, what)) in chosen.iter().enumerate() {
        eprintln!("{} of {}: {name}: {what}", place + 1, chosen.len());
        let yard = Yard::up(&options.operator).await?;
        let measured = match *name {
            "growth" => growth::measure(&yard, options.workers.unwrap_or(5_000)).await,
            "churn" => churn::measure(&yard, options.workers.unwrap_or(1_000)).await,
            "cordon" => cordon::measure(&yard, options.workers.unwrap_or(5_000)).await,
            "departure" => growth::departure(&yard, options.workers.unwrap_or(5_000)).await,
            "clusters" => clusters::at_rest(&yard, options.workers.unwrap_or(100)).await,
            _ => clusters::bad_neighbour(&yard, options.workers.unwrap_or(100)).await,
        };
        let down = yard.down();
        figures.extend(measured?);
        down?;
    }
    Ok(figures)
}
