//! Client for slurmrestd: versions v0.0.42 to v0.0.45, tolerant parsing, typed refusals, bounded calls.
//!
//! One [`Client`] serves one Slurm cluster. It never retries a write, never waits longer than its limits, and shows its tokens only to the server.

pub mod answer;
pub mod breaker;
pub mod budget;
pub mod call;
pub mod client;
pub mod clock;
mod cluster;
mod endpoint;
pub mod errno;
pub mod error;
pub mod kept;
pub mod list;
pub mod model;
pub mod split;
pub mod token;
pub mod transport;
pub mod version;

pub use client::{Client, Limits};
pub use error::RestError;
pub use version::Version;
