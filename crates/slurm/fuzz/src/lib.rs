//! Rules for every input, whatever its source: no panic, no endless work, no memory out of proportion to the input, and parsed data is written back
//! unchanged.
//!
//! The fuzzing engine calls `run` with generated inputs; `crates/slurm/tests/fuzz.rs` calls it with every seed and every input that once broke
//! something.

pub mod config;
pub mod hostlist;
pub mod rest;
pub mod seed;

/// Separator between the parts of an input: no text from Slurm contains it.
pub const PART: u8 = 0x1c;

/// The parts of an input as text.
fn parts(data: &[u8]) -> Vec<String> {
    data.split(|byte| *byte == PART).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}
