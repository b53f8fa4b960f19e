#![no_main]

use slipway_slurm_fuzz::{hostlist, seed};

libfuzzer_sys::fuzz_target!(init: seed::write(seed::hostlists()), |data: &[u8]| hostlist::run(data));
