//! Pure planning: turns desired and observed state into actions, and a report with the reasons.
//!
//! Nothing here does I/O, waits or reads a clock. Every action that could kill a job passes [`gate`].

mod action;
pub mod active_controller;
pub mod controller;
mod controller_pod;
pub mod drift;
pub mod finding;
pub mod gate;
pub mod missing;
pub mod nodeset;
mod report;
pub mod restapi;
pub mod shape;
mod workload;

pub use action::{Action, ClaimId, Marks, PodId};
pub use report::{Plan, Report, Wait};
