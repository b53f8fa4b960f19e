//! Tests with real beds: each test brings up its own.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod api_server;
mod cluster;
mod machine;
mod traces;
mod trouble;

use std::process::{Command, Output};

use slipway_bed::name::BedName;

/// A name that no other test uses, not even a test of a second concurrent run.
fn unique(test: &str) -> BedName {
    format!("{test}-{}", std::process::id()).parse().unwrap()
}

/// A call of the program as from a shell.
fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_slipway-bed"))
}

/// Everything a command printed, for messages of failed tests and for assertions.
fn words(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
