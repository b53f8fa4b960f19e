//! Progress output during long work: the step, what it waits for, the time it took.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval between redraws of the terminal line.
const REDRAW: Duration = Duration::from_millis(200);
/// Interval between messages of a running step if there is no terminal to redraw.
const REMIND: Duration = Duration::from_secs(20);

/// Destination of progress output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Standard error: one redrawn line on a terminal, one line per finished step elsewhere.
    Shown,
    /// No output, for tests that bring up many beds.
    Quiet,
}

/// One step of long work. If it is dropped without [`Step::done`], it is reported as failed.
pub struct Step {
    name: String,
    started: Instant,
    waits_for: Arc<Mutex<String>>,
    show: Progress,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts a step; `name` describes the work ("building Kubernetes").
    pub fn step(self, name: impl Into<String>) -> Step {
        let name = name.into();
        let waits_for = Arc::new(Mutex::new(String::new()));
        let started = Instant::now();
        let ticker = (self == Self::Shown).then(|| {
            let (stop, stopped) = mpsc::channel();
            let (name, waits_for) = (name.clone(), waits_for.clone());
            let handle = std::thread::spawn(move || tick(&name, &waits_for, started, &stopped));
            (stop, handle)
        });
        Step { name, started, waits_for, show: self, ticker }
    }

    /// Prints a separate line.
    pub fn say(self, line: impl AsRef<str>) {
        if self == Self::Shown {
            write_line(line.as_ref());
        }
    }
}

impl Step {
    /// Sets what the step is waiting for.
    pub fn waits_for(&self, what: impl Into<String>) {
        *self.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }

    /// Ends the step successfully and prints its line with the elapsed time.
    pub fn done(self) {
        self.done_with("");
    }

    /// Like [`Step::done`], with a note after the name.
    pub fn done_with(mut self, note: impl AsRef<str>) {
        self.finish("ok", note.as_ref());
    }

    /// Ends the step without a line, for work that was already done.
    pub fn nothing_to_do(mut self) {
        self.stop_ticker();
        self.show = Progress::Quiet;
    }

    /// Time since the step began.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn finish(&mut self, verdict: &str, note: &str) {
        self.stop_ticker();
        if self.show == Progress::Shown {
            let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
            write_line(&format!("  {verdict:<4} {}{note}  {}", self.name, seconds(self.started.elapsed())));
        }
        self.show = Progress::Quiet;
    }

    fn stop_ticker(&mut self) {
        if let Some((stop, handle)) = self.ticker.take() {
            drop(stop);
            // The ticker only prints; if it panicked there is nothing to recover.
            let _ = handle.join();
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let waits_for = self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if self.show == Progress::Shown {
            let note = if waits_for.is_empty() { String::new() } else { format!("while waiting for {waits_for}") };
            self.finish("FAIL", &note);
        }
    }
}

/// Formats a time for people: tenths below a minute, whole seconds above.
pub fn seconds(elapsed: Duration) -> String {
    let total = elapsed.as_secs_f64();
    if total < 60.0 {
        return format!("{total:.1} s");
    }
    let whole = elapsed.as_secs();
    format!("{} min {:02} s", whole / 60, whole % 60)
}

fn tick(name: &str, waits_for: &Mutex<String>, started: Instant, stopped: &mpsc::Receiver<()>) {
    let terminal = std::io::stderr().is_terminal();
    let period = if terminal { REDRAW } else { REMIND };
    while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
        let waits_for = waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let waiting = if waits_for.is_empty() { String::new() } else { format!(", waits for {waits_for}") };
        let line = format!("  ...  {name}, {}{waiting}", seconds(started.elapsed()));
        if terminal {
            redraw(&line);
        } else {
            write_line(&line);
        }
    }
    if terminal {
        redraw("");
    }
}

/// Replaces the terminal's current line. Cut so that it never wraps, because a wrapped line cannot be erased.
fn redraw(line: &str) {
    let width = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(80, |size| usize::from(size.ws_col)).max(20);
    let cut: String = line.chars().take(width - 1).collect();
    let mut err = std::io::stderr().lock();
    // A closed terminal is no reason to stop the work.
    let _ = write!(err, "\r\x1b[K{cut}").and_then(|()| err.flush());
}

fn write_line(line: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short_to_read() {
        assert_eq!(seconds(Duration::from_millis(1_240)), "1.2 s");
        assert_eq!(seconds(Duration::from_secs(703)), "11 min 43 s");
    }
}
