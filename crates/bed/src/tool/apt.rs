//! Programs from the distribution: installed packages, and single programs unpacked from a newer suite.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::failure::{Context, Failure};
use crate::program::Program;
use crate::progress::{Progress, Step};

/// Packages that a bed and its images need, as (file whose presence shows that it is installed, package).
const PACKAGES: [(&str, &str); 13] = [
    ("/usr/bin/unshare", "util-linux"),
    ("/usr/sbin/ip", "iproute2"),
    ("/usr/bin/containerd", "containerd"),
    ("/usr/sbin/runc", "runc"),
    ("/usr/lib/cni/ptp", "containernetworking-plugins"),
    ("/usr/bin/buildah", "buildah"),
    ("/usr/bin/mmdebstrap", "mmdebstrap"),
    ("/usr/sbin/nft", "nftables"),
    ("/usr/sbin/conntrack", "conntrack"),
    ("/usr/bin/gcc", "gcc"),
    ("/usr/include/stdio.h", "libc6-dev"),
    ("/usr/bin/openssl", "openssl"),
    ("/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"),
];

/// Suite with an etcd and a kubectl about as new as our Kubernetes. Both programs need only libc and also run on older suites.
const FOREIGN_SUITE: &str = "forky";
const FOREIGN: [(&str, &str); 2] = [("etcd-server", "etcd"), ("kubectl", "kubectl")];

const NO_NETWORK: &str =
    "check that this machine reaches the mirror its apt sources name (`apt-get update`), then run the same command again";

/// Names of the packages that are not installed.
pub fn missing_packages() -> Vec<&'static str> {
    PACKAGES.iter().filter(|(file, _)| !Path::new(file).exists()).map(|(_, package)| *package).collect()
}

pub fn ensure_packages(cache: &Cache, progress: Progress) -> Result<(), Failure> {
    if missing_packages().is_empty() {
        return Ok(());
    }
    let step = progress.step("installing packages of the distribution");
    let _lock = cache.lock("apt", &step)?;
    // Another process may have installed them during the wait.
    let missing = missing_packages();
    if missing.is_empty() {
        step.nothing_to_do();
        return Ok(());
    }
    let log = cache.path("log/apt.log");
    let apt = || {
        Program::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            // Waits if the machine's own apt is running.
            .args(["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Check-Valid-Until=false"])
            .log(log.clone())
            .advise(NO_NETWORK)
    };
    apt().arg("update").run(&step)?;
    apt().args(["install", "-y", "--no-install-recommends"]).args(&missing).run(&step)?;
    if let [first, ..] = missing_packages()[..] {
        return Err(Failure::new(format!("apt installed the package {first}, but its program is not where it should be")).with_log(&log));
    }
    step.done_with(missing.join(" "));
    Ok(())
}

/// Folder with etcd and kubectl; fetches them if they are missing.
pub fn ensure_foreign_programs(cache: &Cache, progress: Progress) -> Result<PathBuf, Failure> {
    let folder = cache.path("bin").join(FOREIGN_SUITE);
    let complete = || FOREIGN.iter().all(|(_, program)| folder.join(program).exists());
    if complete() {
        return Ok(folder);
    }
    let step = progress.step("fetching etcd and kubectl");
    let _lock = cache.lock("apt", &step)?;
    if complete() {
        step.nothing_to_do();
        return Ok(folder);
    }
    let work = cache.folder("tmp/foreign")?;
    fs::remove_dir_all(&work).context(|| format!("could not empty {}", work.display()))?;
    fetch(&work, &mirror()?, &cache.path("log/foreign.log"), &step)?;
    fs::create_dir_all(&folder).context(|| format!("could not make {}", folder.display()))?;
    for (_, program) in FOREIGN {
        let unpacked = work.join("root/usr/bin").join(program);
        let place = folder.join(program);
        fs::rename(&unpacked, &place).context(|| format!("could not move {} to {}", unpacked.display(), place.display()))?;
    }
    fs::remove_dir_all(&work).context(|| format!("could not remove {}", work.display()))?;
    step.done();
    Ok(folder)
}

/// Downloads and unpacks with a separate apt tree, so that the machine's package lists stay unchanged.
fn fetch(work: &Path, mirror: &str, log: &Path, step: &Step) -> Result<(), Failure> {
    let make = |relative: &str| {
        let path = work.join(relative);
        fs::create_dir_all(&path).context(|| format!("could not make {}", path.display()))
    };
    make("state/lists/partial")?;
    make("cache/archives/partial")?;
    make("debs")?;
    let write = |relative: &str, text: &str| {
        let path = work.join(relative);
        fs::write(&path, text).context(|| format!("could not write {}", path.display()))
    };
    write("state/status", "")?;
    let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
    write("sources.list", &format!("deb [signed-by={keyring}] {mirror} {FOREIGN_SUITE} main\n"))?;
    let option = |name: &str, value: &str| format!("-o{name}={value}");
    let inside = |name: &str, relative: &str| option(name, &work.join(relative).display().to_string());
    let options = [
        inside("Dir::State", "state"),
        inside("Dir::State::status", "state/status"),
        inside("Dir::Cache", "cache"),
        inside("Dir::Etc::sourcelist", "sources.list"),
        option("Dir::Etc::sourceparts", "/dev/null"),
        option("Dir::Etc::preferencesparts", "/dev/null"),
        // A mirror's copy of a moving suite may be older than the suite's Valid-Until date allows.
        option("Acquire::Check-Valid-Until", "false"),
        option("APT::Sandbox::User", "root"),
    ];
    let apt = || Program::new("apt-get").args(&options).log(log).advise(NO_NETWORK);
    apt().arg("update").run(step)?;
    apt().dir(work.join("debs")).arg("download").args(FOREIGN.map(|(package, _)| package)).run(step)?;
    let debs = fs::read_dir(work.join("debs")).context(|| "could not list the downloaded packages".to_owned())?;
    for deb in debs.flatten() {
        Program::new("dpkg-deb").arg("-x").arg(deb.path()).arg(work.join("root")).run(step)?;
    }
    Ok(())
}

/// Mirror that the machine's own apt uses.
pub fn mirror() -> Result<String, Failure> {
    let listed = Program::new("apt-get").args(["indextargets", "--format", "$(SITE) $(RELEASE) $(CREATED_BY)"]).output()?;
    parse_mirror(&listed).ok_or_else(|| {
        Failure::new("this machine's apt names no Debian mirror")
            .advise("a Debian machine, or one whose apt sources have a line for a Debian suite")
    })
}

/// The first site that serves packages of the distribution itself, not its security updates, or `None`.
fn parse_mirror(listed: &str) -> Option<String> {
    listed
        .lines()
        .filter_map(|line| line.strip_suffix(" Packages")?.split_once(' '))
        .find(|(site, release)| site.trim_end_matches('/').ends_with("/debian") && !release.contains("security"))
        .map(|(site, _)| site.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_one_that_serves_the_distribution() {
        let listed = "http://mirror.example/debian-security/ bookworm-security Packages\n\
                      http://mirror.example/debian/ bookworm Translations\n\
                      http://mirror.example/debian/ bookworm Packages\n";
        assert_eq!(parse_mirror(listed).as_deref(), Some("http://mirror.example/debian"));
        assert_eq!(parse_mirror("http://mirror.example/ubuntu/ noble Packages\n"), None);
    }
}
