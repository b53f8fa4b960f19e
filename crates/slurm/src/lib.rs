//! Slurm's own languages, without Kubernetes: the slurm.conf family.

pub mod cgroup;
pub mod conf;
pub mod dynamic;
