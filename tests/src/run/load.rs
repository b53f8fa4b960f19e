//! Artificial load that takes half of every core's time.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use slipway_bed::failure::{Context, Failure};

/// Hidden argument that makes this program the load of one core.
pub const SPIN: &str = "--spin";
/// Length of each busy and each idle period: longer than a time slice, shorter than any timeout.
const HALF: Duration = Duration::from_millis(500);

/// One process for each core, with a higher scheduling priority than all others; they end when this is dropped.
pub struct Load(Vec<Child>);

impl Load {
    pub fn start() -> Result<Self, Failure> {
        let program = std::env::current_exe().context(|| "could not find our own program".to_owned())?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut load = Self(Vec::new());
        for _ in 0..cores {
            let mut nice = Command::new("nice");
            nice.args(["-n", "-15"]).arg(&program).arg(SPIN).stdin(Stdio::piped());
            load.0.push(nice.spawn().context(|| "could not start the load".to_owned())?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Loads one core for as long as its parent process lives.
pub fn spin() {
    std::thread::spawn(|| {
        loop {
            let until = Instant::now() + HALF;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            std::thread::sleep(HALF);
        }
    });
    // Standard input closes when the parent ends.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
