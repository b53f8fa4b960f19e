//! The journals that tasks of jobs write, in a folder of the machine that every worker mounts.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use slipway_bed::failure::{Context, Failure};

/// The program of a task.
const TASK: &str = include_str!("task.sh");

/// One run of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) job: String,
    pub(super) element: u32,
    pub(super) rank: u32,
    pub(super) worker: String,
    pub(super) began: u64,
    /// When it last wrote.
    pub(super) last: u64,
    pub(super) ending: Ending,
}

/// How far a run came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It runs, or was killed without a chance to write so.
    Open,
    /// It was told to end early.
    Killed,
    /// It came to its end.
    Complete,
}

impl Run {
    /// Reads a journal; `None` if it is none.
    fn parse(name: &str, text: &str) -> Option<Self> {
        let mut parts = name.split('.');
        let mut next = || parts.next();
        let (job, element, rank, worker, began) = (next()?, next()?, next()?, next()?, next()?);
        let began = began.parse().ok()?;
        let last = text.lines().filter_map(|line| line.parse().ok()).next_back().unwrap_or(began);
        let ending = match text.lines().next_back() {
            Some("end") => Ending::Complete,
            Some("killed") => Ending::Killed,
            _ => Ending::Open,
        };
        Some(Self {
            job: job.to_owned(),
            element: element.parse().ok()?,
            rank: rank.parse().ok()?,
            worker: worker.to_owned(),
            began,
            last,
            ending,
        })
    }
}

/// A folder of journals.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    /// Runs that will not write any more, by file name.
    over: Arc<Mutex<BTreeMap<String, Run>>>,
}

impl Journal {
    /// Creates the folder, with the program of a task in it.
    pub(super) fn create(folder: &Path) -> Result<Self, Failure> {
        let what = || format!("could not create the journals' folder {}", folder.display());
        std::fs::create_dir_all(folder).context(what)?;
        // Tasks run as the user of their job.
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o1777)).context(what)?;
        std::fs::write(folder.join("task"), TASK).context(what)?;
        Ok(Self { folder: folder.to_owned(), over: Arc::default() })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Every run so far.
    pub(super) fn read(&self) -> Result<Vec<Run>, Failure> {
        let what = || format!("could not read {}", self.folder.display());
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let mut runs = Vec::new();
        for entry in std::fs::read_dir(&self.folder).context(what)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(run) = over.get(&name) {
                runs.push(run.clone());
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).context(what)?;
            let Some(run) = Run::parse(&name, &text) else { continue };
            if run.ending == Ending::Complete {
                over.insert(name, run.clone());
            }
            runs.push(run);
        }
        Ok(runs)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::begun("", 5, Ending::Open)]
    #[case::running("6\n7\n", 7, Ending::Open)]
    #[case::killed("6\nkilled\n", 6, Ending::Killed)]
    #[case::complete("6\n8\nend\n", 8, Ending::Complete)]
    fn a_journal_tells_how_far_a_task_came(#[case] text: &str, #[case] last: u64, #[case] ending: Ending) {
        let run = Run { job: "j1".into(), element: 2, rank: 1, worker: "worker-0".into(), began: 5, last, ending };
        assert_eq!(Run::parse("j1.2.1.worker-0.5", text), Some(run));
        assert_eq!(Run::parse("task", text), None);
    }
}
