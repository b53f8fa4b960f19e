//! Last known state of one cluster: the basis of every decision about Slurm.
//!
//! One task per cluster reads Slurm; all other code uses its result. A [`Snapshot`] has its age and completeness, and every question has three
//! answers: never treat *unknown* as *no*.

mod answer;
mod keeper;
mod poll;
mod table;

pub use answer::{Answer, Deadline, Why};
pub use keeper::{Handle, Keeper, Pace};
pub use table::{Jobs, Nodes, Snapshot};
