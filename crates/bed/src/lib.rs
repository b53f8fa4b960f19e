//! A real Kubernetes with real Slurm images on one machine.
//!
//! The demo, the end-to-end tests and the benchmarks stand on it: a library for tests, the program `slipway-bed` for people.
//!
//! A bed is a set of namespaces. Outside lives one process, the [`keeper`]; inside, the first process of the bed starts the control
//! plane and, in namespaces of their own, the nodes. Nothing of it is visible on the machine but its processes and its folder.

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
