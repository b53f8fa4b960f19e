//! What every input must keep to, whoever wrote it: no panic, no endless work, no memory beyond the input's own measure, and what was
//! read is written back as it was.
//!
//! The fuzzing engine calls `run` with what it makes up; `crates/slurm/tests/fuzz.rs` calls it with every seed and every input that once
//! broke something.

pub mod config;
pub mod hostlist;
pub mod rest;
pub mod seed;

/// Stands between the parts of an input: no text of Slurm's has it.
pub const PART: u8 = 0x1c;

/// The parts of an input as text.
fn parts(data: &[u8]) -> Vec<String> {
    data.split(|byte| *byte == PART).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}
