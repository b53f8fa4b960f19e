//! The `slipway` binary.

use std::process::ExitCode;

use clap::Parser;
use slipway_operator::{Args, Command, generate, logs, run};
use slipway_runtime::failure::chain;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.command {
        Some(Command::Generate { dir }) => generate::write_all(dir),
        None => {
            // Without an installed provider the first TLS handshake would panic.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
            logs::start();
            run::run(args).await
        }
    };
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    eprintln!("slipway: {}", chain(error.as_ref()));
    ExitCode::FAILURE
}
