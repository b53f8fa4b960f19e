//! Counts of daemon starts and reconfigures, from the log files that the kubelets write.
//!
//! The files are read directly, not through the API server: a replaced container or a deleted pod takes its log with it, but an open file stays
//! readable.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Sub;
use std::path::{Path, PathBuf};

/// Log messages of a daemon that starts to read its configuration again.
const RECONFIGURES: [(&str, &str); 2] = [("slurmctld", "Attempting to reconfigure"), ("slurmd", "Caught SIGHUP. Triggering reconfigure.")];
/// Mark in a daemon's log before it exits on its own.
const FATAL: &str = "fatal:";
/// Mark in the operator's log before it exits on its own. It quotes daemons' messages, so [`FATAL`] there means nothing.
const PANIC: &str = "panicked at";
const OPERATOR: &str = "operator";

/// Counts of the daemons of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Started containers.
    pub starts: usize,
    pub reconfigures: usize,
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self { starts: self.starts - earlier.starts, reconfigures: self.reconfigures - earlier.reconfigures }
    }
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub container: String,
    /// Counted by the kubelet from zero.
    pub attempt: u32,
}

/// Relevant output of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    pub reconfigures: usize,
    /// Lines that report an exit by the daemon's own decision.
    pub last_words: Vec<String>,
}

/// Follows the container logs of a bed in some namespaces.
#[derive(Debug)]
pub struct Logs {
    nodes: PathBuf,
    /// Prefixes of the names of pod folders: those of other namespaces are skipped.
    ours: Vec<String>,
    open: BTreeMap<PathBuf, Follower>,
    runs: BTreeMap<Run, Printed>,
}

#[derive(Debug)]
struct Follower {
    run: Run,
    file: File,
    /// Start of a line that is not complete yet.
    rest: Vec<u8>,
}

impl Logs {
    /// Follows the logs of these namespaces; `nodes` is the folder of the bed's nodes.
    pub fn new<'a>(nodes: PathBuf, namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        let ours = namespaces.into_iter().map(|namespace| format!("{namespace}_")).collect();
        Self { nodes, ours, open: BTreeMap::new(), runs: BTreeMap::new() }
    }

    /// Reads new lines.
    pub fn read(&mut self) {
        for path in logs(&self.nodes, &self.ours) {
            if !self.open.contains_key(&path)
                && let (Some(run), Ok(file)) = (run(&path), File::open(&path))
            {
                self.runs.entry(run.clone()).or_default();
                self.open.insert(path, Follower { run, file, rest: Vec::new() });
            }
        }
        for follower in self.open.values_mut() {
            let printed = self.runs.entry(follower.run.clone()).or_default();
            for line in follower.lines() {
                note(printed, &follower.run.container, &line);
            }
        }
        // A file that is gone was read to its end above.
        self.open.retain(|path, _| path.exists());
    }

    pub fn runs(&self) -> &BTreeMap<Run, Printed> {
        &self.runs
    }

    /// Counts of all containers of this name in a namespace.
    pub fn counts(&self, namespace: &str, container: &str) -> Counts {
        let runs = self.runs.iter().filter(|(run, _)| run.namespace == namespace && run.container == container);
        runs.fold(Counts::default(), |sum, (_, printed)| Counts {
            starts: sum.starts + 1,
            reconfigures: sum.reconfigures + printed.reconfigures,
        })
    }
}

impl Follower {
    /// The complete lines since the last call, without the container runtime's prefix.
    fn lines(&mut self) -> Vec<String> {
        // A failed read shows up as a missing line, and is retried.
        let _ = self.file.read_to_end(&mut self.rest);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let complete: Vec<u8> = self.rest.drain(..=end).collect();
        String::from_utf8_lossy(&complete).lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default().to_owned()).collect()
    }
}

fn note(printed: &mut Printed, container: &str, line: &str) {
    if RECONFIGURES.iter().any(|(daemon, mark)| *daemon == container && line.contains(mark)) {
        printed.reconfigures += 1;
    }
    if line.contains(PANIC) || (line.contains(FATAL) && container != OPERATOR) {
        printed.last_words.push(line.to_owned());
    }
}

/// `<nodes>/<node>/log/pods/<namespace>_<pod>_<uid>/<container>/<attempt>.log`
fn logs(nodes: &Path, ours: &[String]) -> Vec<PathBuf> {
    let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let pods = entries(nodes.to_owned()).flat_map(|node| entries(node.join("log/pods")));
    let is_ours = |pod: &PathBuf| {
        let name = pod.file_name().unwrap_or_default().to_string_lossy().into_owned();
        ours.iter().any(|beginning| name.starts_with(beginning))
    };
    pods.filter(is_ours).flat_map(entries).flat_map(entries).collect()
}

fn run(log: &Path) -> Option<Run> {
    let attempt = log.file_name()?.to_str()?.strip_suffix(".log")?.parse().ok()?;
    let container = log.parent()?;
    let mut pod = container.parent()?.file_name()?.to_str()?.split('_').map(str::to_owned);
    let (namespace, name, uid) = (pod.next()?, pod.next()?, pod.next()?);
    Some(Run { namespace, pod: name, uid, container: container.file_name()?.to_str()?.to_owned(), attempt })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn starts_reconfigures_and_last_words_are_read_across_replaced_containers_and_deleted_pods() {
        let root = std::env::temp_dir().join(format!("slipway-logs-{}", std::process::id()));
        let pod = root.join("n1/log/pods/slurm_slurm-controller-0_uid-1");
        std::fs::create_dir_all(pod.join("slurmctld")).unwrap();
        let mut first = File::create(pod.join("slurmctld/0.log")).unwrap();
        let mut logs = Logs::new(root.clone(), ["slurm"]);
        write!(first, "2026-01-01T00:00:00Z stderr F [t] slurmctld version 26 started\n2026-01-01T00:00:00Z stderr F [t] Attempt").unwrap();
        logs.read();
        assert_eq!(logs.counts("slurm", "slurmctld"), Counts { starts: 1, reconfigures: 0 });
        writeln!(first, "ing to reconfigure").unwrap();
        File::create(pod.join("slurmctld/1.log")).unwrap();
        logs.read();
        assert_eq!(logs.counts("slurm", "slurmctld"), Counts { starts: 2, reconfigures: 1 });
        writeln!(first, "2026-01-01T00:00:00Z stderr F [t] fatal: no").unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        logs.read();
        let last_words: Vec<_> = logs.runs().values().flat_map(|printed| &printed.last_words).collect();
        assert_eq!(last_words, ["[t] fatal: no"], "what was written before the pod went is read");
        assert_eq!(logs.counts("slurm", "slurmctld"), Counts { starts: 2, reconfigures: 1 }, "what is gone still counts");
        assert_eq!(logs.counts("other", "slurmctld"), Counts::default());
    }
}
