//! What slurmrestd says and hears: the part an operator needs, one set of types for all versions.
//!
//! Reading is tolerant, since the published documents and the servers disagree: every field may be absent or null, words that no
//! version knew yet survive as they are, integers are wide, and a number may come bare, as text, or in Slurm's wrapper.

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
pub use job::{Cancelled, Job, JobState, JobStates, JobSubmit, JobUpdate, Submitted};
pub use node::{Node, NodeState, NodeStates, NodeUpdate};
pub use number::Number;
pub use partition::{Partition, PartitionState, PartitionWrite};
pub use reservation::{Reservation, ReservationWrite};

#[cfg(test)]
mod tests;
