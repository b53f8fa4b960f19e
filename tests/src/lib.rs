//! Shared by the demo and the end-to-end tests: a cluster, our operator on it, and a Slurm cluster created by it.

pub mod ask;
pub mod audit;
pub mod bench;
pub mod chapter;
#[cfg(test)]
mod circles;
pub mod cluster;
pub mod eventually;
pub mod expression;
pub mod ground;
pub mod job;
pub mod lab;
pub mod manifest;
#[cfg(test)]
mod messages;
pub mod observer;
pub mod passes;
#[cfg(test)]
mod rooms;
pub mod run;
pub mod slurm;
pub mod soak;
pub mod workers;
mod world;
mod write;
