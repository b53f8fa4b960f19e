//! `make test`: checks and tests, side by side where the machine carries it, and where the time went.

pub mod load;
pub mod report;
pub mod shared;
pub mod timeline;
