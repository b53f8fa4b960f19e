#![no_main]

use slipway_slurm_fuzz::{config, seed};

libfuzzer_sys::fuzz_target!(init: seed::write(seed::configs()), |data: &[u8]| config::run(data));
