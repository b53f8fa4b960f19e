//! Requests and responses of slurmrestd: the part that an operator needs, one set of types for all versions.
//!
//! Parsing is tolerant, because the published specifications and the servers disagree: every field may be absent or null, unknown words are kept as
//! they are, integers are wide, and a number may be bare, text, or in Slurm's wrapper.

pub mod controller;
pub mod envelope;
pub mod flag;
pub mod job;
pub mod lenient;
pub mod node;
pub mod number;
pub mod partition;
pub mod reservation;

pub use controller::{ConfInForce, Ping, Statistics};
pub use envelope::{Complaint, Envelope, Warning};
pub use flag::Flags;
pub use job::{Cancelled, Job, JobState, JobStates, JobSubmit, JobUpdate, QueuedJob, Submitted};
pub use node::{Node, NodeState, NodeStates, NodeUpdate};
pub use number::Number;
pub use partition::{Partition, PartitionState, PartitionWrite};
pub use reservation::{Reservation, ReservationWrite};

#[cfg(test)]
mod tests;
