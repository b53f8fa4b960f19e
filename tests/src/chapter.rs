//! Chapters of a scenario: each has a name, which the failure carries.

use std::time::Instant;

use slipway_bed::progress::seconds;

/// A chapter that began, until it is dropped.
pub struct Chapter {
    name: &'static str,
    began: Instant,
}

/// Begins a chapter; its name reads as a statement of what holds in it.
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
