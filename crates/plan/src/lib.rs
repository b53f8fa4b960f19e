//! Pure: what was observed and what is wanted become actions, and a report that says why.
//!
//! Nothing here reads, writes, waits or looks at a clock. Every action that could end a job passes [`gate`].

mod action;
pub mod active_controller;
pub mod controller;
pub mod drift;
pub mod finding;
pub mod gate;
pub mod nodeset;
mod report;
pub mod restapi;
pub mod shape;
pub mod missing;
mod workload;

pub use action::{Action, ClaimId, Marks, PodId};
pub use report::{Plan, Report, Wait};
