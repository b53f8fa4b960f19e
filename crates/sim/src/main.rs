//! `slipway-sim`: runs the stand-ins for tests and benchmarks by hand.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use jiff::Timestamp;
use slipway_sim::contract::{self, Target};
use slipway_sim::{Release, Served, Sim};
use slipway_slurm::rest::Version;
use slipway_slurm::rest::clock::Clock;

/// Stand-ins for parts of a Slurm cluster.
#[derive(Parser)]
#[command(name = "slipway-sim", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// A stateful slurmrestd with dynamic nodes worker-0, worker-1, ...; POST /_sim/<command> injects faults.
    Slurmrestd {
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=65_536))]
        nodes: u32,
        #[arg(long, default_value = "127.0.0.1:6820")]
        listen: SocketAddr,
        #[arg(long, value_enum, default_value_t)]
        release: Release,
        /// File with the key that signs tokens; its raw bytes are used.
        #[arg(long)]
        jwt_key: PathBuf,
    },
    /// Check that a server keeps the contract, in every version it serves. Drains nodes and runs jobs: never use it on a cluster in use.
    Contract {
        /// URL of the server, such as http://127.0.0.1:6820.
        #[arg(long)]
        url: String,
        /// File with the key that signs tokens; its raw bytes are used.
        #[arg(long)]
        jwt_key: PathBuf,
        /// Names of two idle workers.
        #[arg(long, num_args = 2, default_values = ["worker-0", "worker-1"])]
        workers: Vec<String>,
        /// Their feature, and the partition with all nodes that have it.
        #[arg(long, default_value = "worker")]
        partition: String,
        /// Check only promises whose name starts with this.
        #[arg(long, default_value = "")]
        only: String,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    #[allow(clippy::disallowed_methods, reason = "the one place of this program that asks for the time")]
    let clock = Clock::new(Timestamp::now);
    let done = match Args::parse().part {
        Part::Slurmrestd { nodes, listen, release, jwt_key } => match read(&jwt_key) {
            Ok(key) => serve(Sim::new(release, nodes, &key, clock), nodes, listen).await,
            Err(why) => Err(why),
        },
        Part::Contract { url, jwt_key, workers, partition, only } => match (read(&jwt_key), <[String; 2]>::try_from(workers)) {
            (Ok(key), Ok(workers)) => hold(&Target { url, key, clock, workers, partition }, &only).await,
            (Err(why), _) => Err(why),
            (_, Err(_)) => Err("two workers are needed".to_owned()),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn read(key: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(key).map_err(|error| format!("could not read the key {}: {error}", key.display()))
}

async fn serve(sim: Sim, nodes: u32, listen: SocketAddr) -> Result<(), String> {
    let release = sim.release().words()[3];
    let served = Served::start(sim, listen).await.map_err(|error| format!("could not listen on {listen}: {error}"))?;
    println!("a stand-in for slurmrestd {release} with {nodes} nodes listens on {}", served.url());
    tokio::signal::ctrl_c().await.map_err(|error| error.to_string())
}

/// Checks every version from the newest that the server serves down to the oldest that we support.
async fn hold(target: &Target, only: &str) -> Result<(), String> {
    let newest = contract::agreed_version(target).await?;
    let mut broken = Vec::new();
    for version in Version::NEWEST_FIRST.into_iter().filter(|version| *version <= newest) {
        let in_version = contract::only(target, version, only).await?;
        println!("{version}: {} broken promises", in_version.len());
        broken.extend(in_version);
    }
    if broken.is_empty() { Ok(()) } else { Err(format!("broken promises:\n{}", broken.join("\n"))) }
}
