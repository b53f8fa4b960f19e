//! The operator: observes, acts and reports for each kind.
//!
//! Each kind has a file with its reconcile: observe, render, plan, act, report. [`scope`] routes changes to the kinds they affect.

mod act;
pub mod active_controller;
mod admission;
mod args;
mod context;
mod controller;
mod domain;
mod error;
pub mod generate;
mod guarded;
pub mod logs;
mod manifest;
mod memory;
mod monitor;
mod node;
mod nodeset;
mod observe;
mod obstacle;
mod owner;
mod restapi;
pub mod rights;
pub mod run;
mod scope;
mod secret;
mod served;
pub mod slurm;
mod status;
mod step;
mod unserved;

pub use args::{Args, Command};
