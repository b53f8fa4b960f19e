//! Generic controller machinery without Slurm logic.
//!
//! One watch per kind feeds a [`hub::Hub`]; hubs feed queues; a [`queue`] reconciles one kind of resource.

pub mod apply;
mod backoff;
pub mod client;
pub mod clock;
pub mod events;
pub mod failure;
pub mod health;
pub mod hub;
pub mod metrics;
pub mod queue;
pub mod tasks;
pub mod tls;
mod turns;
pub mod view;
