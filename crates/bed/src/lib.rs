//! A real Kubernetes with real Slurm images on one machine.
//!
//! The demo, the end-to-end tests and the benchmarks run on it. Tests use the library, people use the program `slipway-bed`.
//!
//! A bed is a set of namespaces. One process, the [`keeper`], runs outside. Inside, the first process of the bed starts the control plane and the
//! nodes, each node in its own namespaces. Only its processes and its folder are visible on the machine.

pub mod bed;
pub mod cache;
pub mod cgroup;
pub mod client;
pub mod control;
pub mod doctor;
pub mod failure;
pub mod image;
pub mod interrupt;
pub mod keeper;
pub mod layout;
pub mod machine;
pub mod name;
pub mod netns;
pub mod ns;
pub mod part;
pub mod patience;
pub mod pki;
pub mod program;
pub mod progress;
pub mod provision;
pub mod spec;
mod timer;
pub mod tool;
pub mod turn;
pub mod up;

pub use bed::Bed;
pub use failure::Failure;
