//! One cluster as last seen: what every decision about Slurm is taken from.
//!
//! One task per cluster reads, everybody else looks. A [`Snapshot`] says how old and how complete it is, and every question has three
//! answers: nobody may take *unknown* for *no*.

mod answer;
mod keeper;
mod poll;
mod table;

pub use answer::{Answer, Deadline, Why};
pub use keeper::{Handle, Keeper, Pace};
pub use table::{Jobs, Nodes, Snapshot};
