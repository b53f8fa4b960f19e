//! Runs other programs: output goes to a log, the latest line is shown on the step, and a failure shows the end of the output.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{Context, Failure};
use crate::progress::Step;

/// One run of an external program.
#[derive(Debug)]
pub struct Program {
    command: Command,
    name: String,
    log: Option<PathBuf>,
    advice: Option<String>,
}

impl Program {
    /// A run of `program`, looked up on the PATH unless it contains a slash.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref();
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        Self { command, name, log: None, advice: None }
    }

    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Appends the output of [`Self::run`] to this file.
    #[must_use]
    pub fn log(mut self, path: impl Into<PathBuf>) -> Self {
        self.log = Some(path.into());
        self
    }

    /// Sets the remedy shown if it fails.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Runs the program to its end; the step shows its latest line of output.
    pub fn run(mut self, step: &Step) -> Result<(), Failure> {
        let mut log = match &self.log {
            Some(path) => Some(open_log(path)?),
            None => None,
        };
        if let Some(log) = &mut log {
            let _ = writeln!(log, "+ {}", self.line());
        }
        // Both streams share one pipe, so that the log keeps the order in which the program wrote them.
        let (reader, writer) = std::io::pipe().context(|| "could not make a pipe".to_owned())?;
        let stdout = writer.try_clone().context(|| "could not share a pipe".to_owned())?;
        self.command.stdout(stdout).stderr(writer);
        let mut child = self.command.spawn().map_err(|error| self.not_started(&error))?;
        // Our own copies of the write end must be closed, or the reader would never see end of file.
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut tail: Vec<String> = Vec::new();
        for line in BufReader::new(reader).split(b'\n') {
            let line = line.context(|| format!("could not read the output of {}", self.name))?;
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if let Some(log) = &mut log {
                let _ = writeln!(log, "{text}");
            }
            if !text.is_empty() {
                step.waits_for(format!("{}: {text}", self.name));
                tail.push(text);
                if tail.len() > 15 {
                    tail.remove(0);
                }
            }
        }
        let status = child.wait().context(|| format!("could not wait for {}", self.name))?;
        if status.success() {
            return Ok(());
        }
        let mut failure = match &self.log {
            Some(path) => Failure::new(format!("{} failed ({status})", self.name)).with_log(path),
            None => Failure::new(format!("{} failed ({status}):\n  | {}", self.name, tail.join("\n  | "))),
        };
        if let Some(advice) = self.advice {
            failure = failure.advise(advice);
        }
        Err(failure)
    }

    /// Runs the program to its end and returns its standard output.
    pub fn output(mut self) -> Result<String, Failure> {
        let output = self.command.output().map_err(|error| self.not_started(&error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let mut failure =
            Failure::new(format!("{} failed ({}): {}", self.name, output.status, String::from_utf8_lossy(&output.stderr).trim()));
        if let Some(advice) = self.advice {
            failure = failure.advise(advice);
        }
        Err(failure)
    }

    /// Runs the program to its end with `input` on standard input and returns its standard output.
    pub fn feed(mut self, input: &str) -> Result<String, Failure> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().map_err(|error| self.not_started(&error))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that exits before it has read everything reports the reason on standard error.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().context(|| format!("could not wait for {}", self.name))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(Failure::new(format!("{} failed ({}): {}", self.name, output.status, String::from_utf8_lossy(&output.stderr).trim())))
    }

    fn line(&self) -> String {
        let words: Vec<OsString> =
            std::iter::once(self.command.get_program()).chain(self.command.get_args()).map(OsStr::to_owned).collect();
        words.join(OsStr::new(" ")).to_string_lossy().into_owned()
    }

    fn not_started(&self, error: &std::io::Error) -> Failure {
        let failure = Failure::new(format!("could not start {}: {error}", self.name));
        if error.kind() == std::io::ErrorKind::NotFound {
            return failure.advise("`slipway-bed doctor`, which names every missing program");
        }
        failure
    }
}

fn open_log(path: &Path) -> Result<File, Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))?;
    }
    OpenOptions::new().create(true).append(true).open(path).context(|| format!("could not write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;

    #[test]
    fn a_failing_program_shows_its_last_words_and_the_advice() {
        let step = Progress::Quiet.step("trying");
        let failure = Program::new("sh").args(["-c", "echo first; echo broken >&2; exit 3"]).advise("mend it").run(&step).unwrap_err();
        let text = failure.to_string();
        assert!(text.contains("sh failed (exit status: 3)") && text.contains("| broken") && text.contains("try: mend it"), "{text}");
    }

    #[test]
    fn a_missing_program_points_to_the_doctor() {
        let failure = Program::new("no-such-program-here").output().unwrap_err();
        assert!(failure.to_string().contains("doctor"), "{failure}");
    }
}
