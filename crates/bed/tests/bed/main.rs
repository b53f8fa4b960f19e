//! Beds, for real: each test brings up its own.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod api_server;
mod cluster;
mod machine;
mod traces;
mod trouble;

use std::process::{Command, Output};

use slipway_bed::name::BedName;

/// A name that no other test has, not even one of a second run at the same time.
fn unique(test: &str) -> BedName {
    format!("{test}-{}", std::process::id()).parse().unwrap()
}

/// A call of the program as a person would make it.
fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_slipway-bed"))
}

/// Everything a command printed, for messages of failed tests and for looking at its words.
fn words(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
