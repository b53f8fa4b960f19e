//! The operator: observes, acts and reports for each kind.
//!
//! | Part | |
//! |---|---|
//! | [`kind`] | the kinds, each with its reconcile: observe, render, plan, act, report |
//! | [`admission`] | the webhooks and their certificates |
//! | [`slurm`] | the sessions with slurmrestd and slurmctld |
//! | [`world`] | what reconciles share: caches, memory, owners, status, execution of actions |
//! | [`wiring`] | command line, watches and their routes, the served API, rights, generated files |

mod admission;
mod kind;
pub mod slurm;
mod wiring;
mod world;

pub use wiring::{
    args::{Args, Command},
    generate, logs, run,
};
