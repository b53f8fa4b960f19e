//! Slurm's own formats, without Kubernetes: its names, and the slurm.conf family.
//!
//! Outside text must be parsed into one of these types; only they can be written into a file or an option.

pub mod cgroup;
pub mod conf;
pub mod conf_check;
pub mod dynamic;
pub mod gres;
pub mod hostlist;
pub mod item;
pub mod name;
pub mod reason;
#[cfg(feature = "rest")]
pub mod registration;
#[cfg(feature = "rest")]
pub mod rest;
#[cfg(feature = "rest")]
pub mod snapshot;
pub mod topology;
