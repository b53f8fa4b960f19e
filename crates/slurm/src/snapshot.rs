//! Last known state of one cluster: the basis of every decision about Slurm.
//!
//! One task per cluster reads Slurm, and starts another for the queue; all other code uses the result. A [`Snapshot`] has its age and completeness,
//! and every question has three answers: never treat *unknown* as *no*.

mod answer;
mod jobs;
mod keeper;
mod look;
mod nodes;
mod pace;
mod poll;
mod queue;
mod table;

pub use answer::{Answer, Deadline, Why};
pub use jobs::Jobs;
pub use keeper::{Handle, Keeper};
pub use nodes::Nodes;
pub use pace::Pace;
pub use table::Snapshot;
