//! Scenarios on real clusters with real Slurm, and the real programs of Slurm in a lab. One test program, because linking one for each takes minutes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed unwrap is a failed test")]

mod claims;
mod conditions;
mod configuration;
mod daemon;
mod deletion;
mod external;
mod failover;
mod hung;
mod keys;
mod lost_state;
mod node_attributes;
mod nodeset_deletion;
mod records;
mod restart;
mod scaling;
mod scheduled;
mod slurm_config;
mod slurm_contract;
mod slurm_gres;
mod soak;
mod ssh;
mod survival;
mod thread;
mod updates;
mod vanish;
mod worlds;
mod wrong_answers;
