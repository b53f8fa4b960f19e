//! `make test`: checks and tests, concurrently if the machine allows it, and a report of the time spent.

pub mod load;
pub mod report;
pub mod shared;
pub mod timeline;
