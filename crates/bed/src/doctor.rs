//! Requirements that a machine must meet to run a bed. Facts are gathered first; the check of them is pure.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::cgroup;
use crate::failure::Failure;
use crate::program::Program;
use crate::tool::apt;

const GIB: u64 = 1 << 30;
/// Free space for a first build: Go's module and build caches take 10 GiB, our cache 4.
const SPACE_TO_BUILD: u64 = 16 * GIB;
/// Free space for one more bed.
const SPACE_TO_RUN: u64 = 2 * GIB;
/// Go version that our modules are written for, as (major, minor).
const GO: (u32, u32) = (1, 26);
/// cgroup v1 controllers that containers need here.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuset", "devices", "freezer", "memory"];

/// Facts about a machine.
#[derive(Clone, Debug)]
pub struct Facts {
    pub root: bool,
    pub has_apt: bool,
    /// Name of the distribution.
    pub distribution: String,
    /// Output of `go version`; `None` without Go.
    pub go: Option<String>,
    /// True if Kubernetes was built before, so that Go is not needed.
    pub built: bool,
    pub free_bytes: u64,
    pub cache: PathBuf,
    /// Kinds of namespaces that the kernel has.
    pub namespaces: Vec<String>,
    pub filesystems: String,
    /// Controllers of the mounted cgroup v1 hierarchies.
    pub controllers: Vec<String>,
    /// Error from a probe of the kernel's network features; `None` if it succeeded or could not run yet.
    pub network_complaint: Option<String>,
    /// Distribution packages that `up` will install.
    pub missing_packages: Vec<&'static str>,
}

impl Facts {
    pub fn gather(cache: &Cache) -> Self {
        let os_release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
        let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("an unnamed distribution");
        let list = |folder: &str| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let built = list(&cache.path("bin").display().to_string()).iter().any(|entry| entry.starts_with("kube-"));
        let hierarchies = cgroup::mounted().unwrap_or_default();
        let controllers = hierarchies.iter().filter(|hierarchy| hierarchy.kind == "cgroup");
        let space = rustix::fs::statvfs(cache.root()).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
        Self {
            root: rustix::process::geteuid().is_root(),
            has_apt: Path::new("/usr/bin/apt-get").exists(),
            distribution: name.trim_matches('"').to_owned(),
            go: Program::new("go").arg("version").output().ok().map(|text| text.trim().to_owned()),
            built,
            free_bytes: space,
            cache: cache.root().to_owned(),
            namespaces: list("/proc/self/ns"),
            filesystems: std::fs::read_to_string("/proc/filesystems").unwrap_or_default(),
            controllers: controllers.flat_map(|hierarchy| hierarchy.name.split(',').map(str::to_owned).collect::<Vec<_>>()).collect(),
            network_complaint: network_complaint(),
            missing_packages: apt::missing_packages(),
        }
    }
}

/// Probes a bridge, a veth pair and a firewall table in a new network namespace.
fn network_complaint() -> Option<String> {
    let script = "ip link add probe0 type bridge && ip link add probe1 type veth peer name probe2 && { ! command -v nft >/dev/null || nft add table ip probe; }";
    let output = Command::new("unshare").args(["--net", "sh", "-c", script]).output().ok()?;
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Everything that prevents a bed on this machine, each with its remedy.
pub fn problems(facts: &Facts) -> Vec<Failure> {
    let mut found = Vec::new();
    let mut problem = |what: String, remedy: &str| found.push(Failure::new(what).advise(remedy));
    if !facts.root {
        problem("a bed needs root: it makes namespaces, mounts and control groups of its own".to_owned(), "the same command with sudo");
    }
    if !facts.has_apt {
        problem(
            format!("{} has no apt, from whose packages containerd, etcd and the images come", facts.distribution),
            "a machine with Debian",
        );
    }
    if !facts.built {
        match &facts.go {
            None => problem(
                "Go is missing, from whose modules Kubernetes is built".to_owned(),
                "install Go 1.26 or newer and put it on the PATH",
            ),
            Some(version) if !go_is_new_enough(version) => {
                problem(format!("`{version}` is too old to build Kubernetes"), "install Go 1.26 or newer and put it first on the PATH");
            }
            Some(_) => {}
        }
    }
    let needed = if facts.built { SPACE_TO_RUN } else { SPACE_TO_BUILD };
    if facts.free_bytes < needed {
        problem(
            format!("{} has {:.1} GiB free and {} GiB are needed", facts.cache.display(), gib(facts.free_bytes), needed / GIB),
            "free some space, or set SLIPWAY_CACHE to a folder on a larger disk",
        );
    }
    for covered in ["/var/lib", "/var/log", "/run"] {
        if facts.cache.starts_with(covered) {
            problem(
                format!("the cache {} lies below {covered}, which nodes cover with their own", facts.cache.display()),
                "set SLIPWAY_CACHE to a folder elsewhere",
            );
        }
    }
    for kind in ["mnt", "net", "pid", "uts", "ipc", "cgroup"] {
        if !facts.namespaces.iter().any(|found| found == kind) {
            problem(format!("the kernel has no {kind} namespaces"), "a kernel with all kinds of namespaces");
        }
    }
    if !facts.filesystems.lines().any(|line| line.trim_start_matches("nodev").trim() == "overlay") {
        problem("the kernel has no overlay file system".to_owned(), "`modprobe overlay`, or a kernel that has it");
    }
    let missing: Vec<_> = CONTROLLERS.iter().filter(|name| !facts.controllers.iter().any(|found| found == *name)).copied().collect();
    if !missing.is_empty() {
        problem(
            format!("version 1 control groups are not mounted for {}, and beds do not yet work with version 2 alone", missing.join(", ")),
            "boot with systemd.unified_cgroup_hierarchy=0, or mount them below /sys/fs/cgroup",
        );
    }
    if let Some(complaint) = &facts.network_complaint {
        problem(
            format!("the kernel refuses a bridge, a link or a firewall table in a new network: {complaint}"),
            "`modprobe bridge veth nf_tables`, or a machine that allows them",
        );
    }
    found
}

/// Fails with the first problem. For commands that are about to start.
pub fn check(cache: &Cache) -> Result<(), Failure> {
    match problems(&Facts::gather(cache)).into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(()),
    }
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB as f64
}

fn go_is_new_enough(version: &str) -> bool {
    let numbers = version.split(' ').find_map(|word| word.strip_prefix("go").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())));
    let mut numbers = numbers.unwrap_or_default().split(|c: char| !c.is_ascii_digit()).map(|text| text.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= GO
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        Facts {
            root: true,
            has_apt: true,
            distribution: "Debian GNU/Linux 12 (bookworm)".to_owned(),
            go: Some("go version go1.26.8 linux/amd64".to_owned()),
            built: false,
            free_bytes: 20 * GIB,
            cache: "/root/.cache/slipway".into(),
            namespaces: ["mnt", "net", "pid", "uts", "ipc", "cgroup"].map(str::to_owned).to_vec(),
            filesystems: "nodev\tproc\nnodev\toverlay\n\text4\n".to_owned(),
            controllers: CONTROLLERS.map(str::to_owned).to_vec(),
            network_complaint: None,
            missing_packages: Vec::new(),
        }
    }

    fn only_problem(facts: &Facts) -> String {
        let found = problems(facts);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].to_string()
    }

    #[test]
    fn a_good_machine_has_no_problem() {
        assert!(problems(&good()).is_empty(), "{:?}", problems(&good()));
    }

    #[test]
    fn each_lack_has_one_sentence_and_a_remedy() {
        let cases: [(Facts, &str, &str); 10] = [
            (Facts { root: false, ..good() }, "needs root", "sudo"),
            (Facts { has_apt: false, ..good() }, "has no apt", "Debian"),
            (Facts { go: None, ..good() }, "Go is missing", "1.26"),
            (Facts { go: Some("go version go1.21.0 linux/amd64".to_owned()), ..good() }, "too old", "1.26"),
            (Facts { free_bytes: GIB, ..good() }, "1.0 GiB free and 16 GiB", "SLIPWAY_CACHE"),
            (Facts { cache: "/var/lib/x".into(), ..good() }, "below /var/lib", "SLIPWAY_CACHE"),
            (
                Facts { namespaces: vec!["mnt".into(), "net".into(), "pid".into(), "uts".into(), "ipc".into()], ..good() },
                "cgroup",
                "kernel",
            ),
            (Facts { filesystems: String::new(), ..good() }, "overlay", "modprobe"),
            (Facts { controllers: Vec::new(), ..good() }, "version 2 alone", "/sys/fs/cgroup"),
            (Facts { network_complaint: Some("Operation not supported".into()), ..good() }, "Operation not supported", "modprobe"),
        ];
        for (facts, what, remedy) in cases {
            let text = only_problem(&facts);
            assert!(text.contains(what) && text.contains(remedy), "{text}");
        }
    }

    #[test]
    fn a_machine_that_built_once_needs_neither_go_nor_much_space() {
        let facts = Facts { built: true, go: None, free_bytes: 3 * GIB, ..good() };
        assert!(problems(&facts).is_empty(), "{:?}", problems(&facts));
    }
}
