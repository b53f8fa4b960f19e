#![no_main]

use slipway_slurm_fuzz::{rest, seed};

libfuzzer_sys::fuzz_target!(init: seed::write(seed::answers()), |data: &[u8]| rest::run(data));
