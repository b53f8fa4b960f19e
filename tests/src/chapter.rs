//! Chapters of a scenario. Each has a name, which a failure reports.

use std::time::Instant;

use slipway_bed::progress::seconds;

/// A running chapter; it ends when it is dropped.
pub struct Chapter {
    name: &'static str,
    began: Instant,
}

/// Begins a chapter; its name states what holds in it.
pub fn chapter(name: &'static str) -> Chapter {
    Chapter { name, began: Instant::now() }
}

impl Drop for Chapter {
    fn drop(&mut self) {
        let took = seconds(self.began.elapsed());
        if std::thread::panicking() {
            eprintln!("FAILED in chapter `{}`, after {took}", self.name);
        } else {
            eprintln!("chapter `{}`: {took}", self.name);
        }
    }
}
