//! Failures as people read them: a message, the last lines of a log, and a remedy.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

/// Number of log lines in a failure.
const TAIL_LINES: usize = 15;

/// One failure, described so that a person can act on it.
pub struct Failure {
    what: String,
    log: Option<(PathBuf, Vec<String>)>,
    advice: Option<String>,
}

impl Failure {
    /// A failure with only a message.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), log: None, advice: None }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Adds the last lines of the failing part's log.
    #[must_use]
    pub fn with_log(mut self, path: &Path) -> Self {
        self.log = Some((path.to_owned(), tail(path, TAIL_LINES)));
        self
    }

    /// The message without log and advice.
    pub fn what(&self) -> &str {
        &self.what
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some((path, lines)) = &self.log {
            write!(f, "\n  the last lines of {}:", path.display())?;
            for line in lines {
                write!(f, "\n  | {line}")?;
            }
        }
        if let Some(advice) = &self.advice {
            write!(f, "\n  try: {advice}")?;
        }
        Ok(())
    }
}

/// Tests print errors with `Debug`, and people read those too.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

/// Adds the failed operation to an error of another library.
pub trait Context<T> {
    /// Turns the error into a failure: `what`, a colon, the error and its causes.
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T> Context<T> for Option<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.ok_or_else(|| Failure::new(what()))
    }
}

impl<T, E: std::error::Error> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| {
            let mut text = format!("{}: {error}", what());
            let mut source = error.source();
            while let Some(cause) = source {
                let cause_text = cause.to_string();
                // Many libraries repeat the cause in their own message.
                if !text.contains(&cause_text) {
                    text.push_str(": ");
                    text.push_str(&cause_text);
                }
                source = cause.source();
            }
            Failure::new(text)
        })
    }
}

/// The last `count` lines of a log; empty if it cannot be read.
pub fn tail(path: &Path, count: usize) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    // Programs that redraw a line separate its versions with carriage returns; only the last version counts.
    let lines: Vec<&str> = text.lines().map(|line| line.rsplit('\r').find(|part| !part.is_empty()).unwrap_or("")).collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|&line| line.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_what_happened_the_end_of_the_log_and_what_to_try() {
        let log = std::env::temp_dir().join(format!("slipway-failure-{}.log", std::process::id()));
        let lines: Vec<String> = (1..=40).map(|n| format!("line {n}")).collect();
        std::fs::write(&log, lines.join("\n")).unwrap();
        let text = Failure::new("etcd ended").with_log(&log).advise("look at its disk").to_string();
        std::fs::remove_file(&log).unwrap();
        assert!(text.starts_with("etcd ended\n"), "{text}");
        assert!(text.contains("| line 40") && text.contains("| line 26") && !text.contains("| line 25"), "{text}");
        assert!(text.ends_with("try: look at its disk"), "{text}");
    }

    #[test]
    fn a_context_names_each_cause_once() {
        let error = std::fs::read("/nowhere/at/all").context(|| "could not read the key".to_owned()).unwrap_err();
        assert_eq!(error.to_string(), "could not read the key: No such file or directory (os error 2)");
    }
}
