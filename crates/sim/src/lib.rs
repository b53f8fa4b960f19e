//! Stand-in for slurmrestd and slurmctld: node records, jobs and reservations that behave like the real ones, over HTTP or in process, with faults by
//! command. For tests and benchmarks only.
//!
//! Its answers were observed on a real server. The real server and the stand-in must both pass the suite in `contract`; if they differ, the stand-in
//! is wrong.

pub mod answer;
pub mod command;
pub mod contract;
pub mod controller;
pub mod fault;
pub mod job;
#[cfg(feature = "kubelet")]
pub mod kubelet;
pub mod node;
pub mod partition;
mod queue;
pub mod release;
pub mod reservation;
pub mod route;
pub mod server;
pub mod sim;
pub mod template;
pub mod update;
pub mod world;

pub use fault::{Fault, FaultKind};
#[cfg(feature = "kubelet")]
pub use kubelet::{Conduct, Kubelet};
pub use release::Release;
pub use server::Served;
pub use sim::Sim;
