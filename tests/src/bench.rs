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

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The operator's program.
    pub operator: PathBuf,
    /// Name of the only scenario to run.
    pub scenario: Option<String>,
    /// Number of workers (of clusters in `clusters` and `bad-neighbour`), in place of the scenario's own.
    pub workers: Option<u32>,
}

/// A scenario: its name, what it measures, its number of workers (or clusters), and the least that it can do with.
struct Scenario {
    name: &'static str,
    what: &'static str,
    size: u32,
    least: u32,
}

const SCENARIOS: [Scenario; 6] = [
    Scenario { name: "growth", what: "workers come, rest, and the operator restarts", size: 5_000, least: 1 },
    Scenario { name: "churn", what: "jobs end and start all the time", size: 1_000, least: 20 },
    Scenario { name: "cordon", what: "a tenth of the Kubernetes nodes is cordoned at once", size: 5_000, least: 10 },
    Scenario { name: "departure", what: "all workers leave, and their records with them", size: 5_000, least: 1 },
    Scenario { name: "clusters", what: "many clusters at rest", size: 100, least: 1 },
    Scenario { name: "bad-neighbour", what: "many clusters, of which three are in trouble", size: 100, least: 4 },
];

/// Runs the scenarios, each on an API server of its own, and returns their figures.
pub async fn bench(options: &Options) -> Result<Vec<Figure>, Failure> {
    let chosen: Vec<&Scenario> = SCENARIOS.iter().filter(|it| options.scenario.as_deref().is_none_or(|only| only == it.name)).collect();
    if chosen.is_empty() {
        let known: Vec<&str> = SCENARIOS.iter().map(|it| it.name).collect();
        return Err(Failure::new(format!("there is no such scenario; there are {}", known.join(", "))));
    }
    // Before the first of them takes minutes.
    if let Some((wanted, it)) = options.workers.and_then(|wanted| Some((wanted, chosen.iter().find(|it| wanted < it.least)?))) {
        return Err(Failure::new(format!("the scenario {} needs at least {}, and {wanted} were asked for", it.name, it.least)));
    }
    let mut figures = Vec::new();
    for (place, Scenario { name, what, size, .. }) in chosen.iter().enumerate() {
        eprintln!("{} of {}: {name}: {what}", place + 1, chosen.len());
        let (yard, size) = (Yard::up(&options.operator).await?, options.workers.unwrap_or(*size));
        let measured = match *name {
            "growth" => growth::measure(&yard, size).await,
            "churn" => churn::measure(&yard, size).await,
            "cordon" => cordon::measure(&yard, size).await,
            "departure" => growth::departure(&yard, size).await,
            "clusters" => clusters::at_rest(&yard, size).await,
            _ => clusters::bad_neighbour(&yard, size).await,
        };
        let down = yard.down();
        figures.extend(measured?);
        down?;
    }
    Ok(figures)
}
