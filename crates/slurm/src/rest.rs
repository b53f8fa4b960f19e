//! A client of slurmrestd: versions v0.0.42 to v0.0.45, tolerant reading, typed refusals, bounded calls.
//!
//! One [`Client`] serves one Slurm cluster. It never retries a write, waits for nothing longer than its limits, and shows no token
//! to anybody but the server.

pub mod answer;
pub mod breaker;
pub mod budget;
pub mod call;
pub mod client;
pub mod clock;
mod endpoint;
pub mod errno;
pub mod error;
pub mod list;
pub mod model;
pub mod split;
pub mod token;
pub mod transport;
pub mod version;

pub use client::{Client, Limits};
pub use error::RestError;
pub use version::Version;
