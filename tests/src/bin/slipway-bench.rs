//! `make bench`: the operator at size, measured from outside.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use slipway_bed::failure::{Context, Failure};
use slipway_tests::bench::{Figure, Options, as_json, bench, markdown, svg, table};
use tokio::signal::unix::{SignalKind, signal};

/// Measure the operator at size, on a real API server with simulated kubelets and Slurm.
#[derive(Parser)]
#[command(name = "slipway-bench", max_term_width = 100)]
struct Args {
    /// Path of the operator's program; any other operator that takes the same arguments can be measured.
    #[arg(long)]
    operator: PathBuf,
    /// Run only this scenario.
    #[arg(long)]
    scenario: Option<String>,
    /// Number of workers (of clusters in `clusters` and `bad-neighbour`), in place of the scenario's own.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    workers: Option<u32>,
    /// Folder for the figures: `bench.json`, `bench.svg` and `bench.md`.
    #[arg(long)]
    out: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(figures) if figures.iter().all(Figure::is_met) => ExitCode::SUCCESS,
        Ok(figures) => {
            eprintln!("{} goals were missed", figures.iter().filter(|figure| !figure.is_met()).count());
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<Vec<Figure>, Failure> {
    let Args { operator, scenario, workers, out } = args;
    let options = Options { operator: operator.clone(), scenario: scenario.clone(), workers: *workers };
    let what = || "could not start".to_owned();
    let (mut interrupts, mut terminations) =
        (signal(SignalKind::interrupt()).context(what)?, signal(SignalKind::terminate()).context(what)?);
    let figures = tokio::select! {
        figures = bench(&options) => figures?,
        _ = interrupts.recv() => return Err(Failure::new("interrupted")),
        _ = terminations.recv() => return Err(Failure::new("interrupted")),
    };
    print!("{}", table(&figures));
    if let Some(folder) = out {
        std::fs::create_dir_all(folder).context(|| format!("could not create {}", folder.display()))?;
        let (json, svg, page) = (as_json(&figures).to_string(), svg(&figures), markdown(&figures));
        for (name, text) in [("bench.json", json), ("bench.svg", svg), ("bench.md", page)] {
            let path = folder.join(name);
            std::fs::write(&path, text).context(|| format!("could not write {}", path.display()))?;
        }
    }
    Ok(figures)
}
