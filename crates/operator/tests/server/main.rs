//! The operator on a real API server. One test binary, because linking one for each module takes minutes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap is a failed test")]

mod admission;
mod children;
mod claims;
mod conditions;
mod daemon;
mod deletion;
mod fail_closed;
mod generated;
mod gres;
mod holds;
mod mirror;
mod monitor;
mod names;
mod node_attributes;
mod outside;
mod records;
mod registration;
mod replacement;
mod restapi;
mod scale;
mod schedule;
mod schema;
mod served;
mod slurm;
mod ssh;
mod stage;
mod strangers;
mod takeover;
mod unserved;
mod workers;
