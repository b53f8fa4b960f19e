//! Machine-wide state that a bed could change, as text that can be compared.

use std::collections::BTreeMap;
use std::process::Command;

/// Machine-wide state that must be the same before, during and after a bed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Machine(BTreeMap<&'static str, String>);

impl Machine {
    pub(crate) fn look() -> Self {
        let run = |command: &str| {
            let output = Command::new("sh").args(["-c", command]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        // Counters that change by themselves are left out.
        let sysctls = "sysctl --all 2>/dev/null | grep -vE '^(fs\\.(dentry-state|file-nr|inode-|quota)|kernel\\.(ns_last_pid|random|pty\\.nr|sched|perf|hung|tainted)|net\\.netfilter\\.nf_conntrack_count|fs\\.aio-nr)'";
        Self(BTreeMap::from([
            ("mounts", run("cat /proc/self/mountinfo | cut -d' ' -f4-")),
            ("links", run("ip -oneline link | cut -d: -f2")),
            ("routes", run("ip route show table all")),
            ("rules", run("ip rule; nft list ruleset")),
            ("sysctls", run(sysctls)),
            ("network namespaces", run("ls /run/netns 2>/dev/null")),
        ]))
    }

    /// The first difference, with the differing lines of both sides, or `None`.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        self.0.iter().zip(&other.0).find(|(a, b)| a != b).map(|((what, a), (_, b))| {
            let only = |x: &str, y: &str| x.lines().filter(|line| !y.lines().any(|other| other == *line)).collect::<Vec<_>>().join("\n");
            format!("{what} differ; before:\n{}\nafter:\n{}", only(a, b), only(b, a))
        })
    }
}

/// Leftovers of one bed: its control groups and its processes.
pub(crate) fn remains(bed: &str) -> Vec<String> {
    let groups = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let mut found: Vec<String> = groups
        .map(|entry| entry.path().join(format!("slipway-{bed}")))
        .filter(|path| path.exists())
        .map(|path| path.display().to_string())
        .collect();
    // Every process of a bed has the bed's folder or name on its command line, or is a descendant of one that has. The descendants are in its control
    // groups, whose removal shows that they are gone.
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let command = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default().replace('\0', " ");
        if command.contains(&format!("/beds/{bed}")) || command.contains(&format!(" {bed} ")) {
            found.push(command);
        }
    }
    found
}
