//! Code that runs inside a bed's namespaces: the first process of the bed and of each node.

pub mod bed;
pub mod node;
mod setup;
mod stage;
mod supervisor;

pub use stage::{enter_stage, stage_command};
