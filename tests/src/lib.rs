//! What the demo and the end-to-end tests share: a cluster, our operator on it, a Slurm cluster made by it.

pub mod audit;
pub mod cluster;
pub mod eventually;
#[cfg(test)]
mod rooms;
pub mod slurm;
