//! Programs built from Go modules, once per version, and kept in the cache.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::cache::Cache;
use crate::failure::{Context, Failure};
use crate::program::Program;
use crate::progress::Progress;

/// Daemons that the one Kubernetes binary runs as, by the name it is called with.
const DAEMONS: [&str; 5] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet"];

/// Module path and version of helm.
const HELM: &str = "helm.sh/helm/v4/cmd/helm@v4.3.1";

const ADVICE: &str = "check that Go reaches its module proxy (`go env GOPROXY`), then run the same command again: what was built is kept";

/// One of our small Go modules: a main package and the locked versions of its dependencies.
struct Module {
    name: &'static str,
    main: &'static str,
    manifest: &'static str,
    sums: &'static str,
    /// Package in which the program looks for its own version, and the module whose version that is.
    version: Option<(&'static str, &'static str)>,
    /// Message shown while it is built for the first time.
    how_long: &'static str,
}

const KUBERNETES: Module = Module {
    name: "kube",
    main: include_str!("../../go/kube/main.go"),
    manifest: include_str!("../../go/kube/go.mod"),
    sums: include_str!("../../go/kube/go.sum"),
    version: Some(("k8s.io/component-base/version", "k8s.io/kubernetes")),
    how_long: "building Kubernetes (once per machine, 7 to 12 minutes)",
};

const COREDNS: Module = Module {
    name: "coredns",
    main: include_str!("../../go/coredns/main.go"),
    manifest: include_str!("../../go/coredns/go.mod"),
    sums: include_str!("../../go/coredns/go.sum"),
    version: None,
    how_long: "building CoreDNS (once per machine, 2 to 5 minutes)",
};

/// Folder with a link for each Kubernetes daemon; builds Kubernetes if it is missing.
pub fn ensure_kubernetes(cache: &Cache, progress: Progress) -> Result<PathBuf, Failure> {
    let program = KUBERNETES.ensure(cache, progress)?;
    let folder = program.parent().map(Path::to_owned).unwrap_or_default();
    for daemon in DAEMONS {
        let link = folder.join(daemon);
        if !link.exists() {
            match std::os::unix::fs::symlink(KUBERNETES.name, &link) {
                // Another process created it after our check.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                result => result.context(|| format!("could not make the link {}", link.display()))?,
            }
        }
    }
    Ok(folder)
}

/// The CoreDNS program; built if it is missing.
pub fn ensure_coredns(cache: &Cache, progress: Progress) -> Result<PathBuf, Failure> {
    COREDNS.ensure(cache, progress)
}

/// The helm program, for commands that work with charts; built if it is missing.
pub fn ensure_helm(cache: &Cache, progress: Progress) -> Result<PathBuf, Failure> {
    let version = HELM.rsplit('@').next().unwrap_or_default();
    let folder = cache.path("bin").join(format!("helm-{version}"));
    let program = folder.join("helm");
    if program.exists() {
        return Ok(program);
    }
    let step = progress.step("building helm (once per machine, 3 to 4 minutes)");
    let _lock = cache.lock("go", &step)?;
    if !program.exists() {
        let log = cache.path("log/go-helm.log");
        Program::new("go")
            .args(["install", "-v", HELM])
            .env("GOBIN", &folder)
            .env("CGO_ENABLED", "0")
            .log(log)
            .advise(ADVICE)
            .run(&step)?;
    }
    step.done();
    Ok(program)
}

impl Module {
    /// Hash that changes with every version and every line of our main package.
    fn key(&self) -> String {
        let mut hash = Sha256::new();
        for text in [self.main, self.manifest, self.sums, &self.linker_flags()] {
            hash.update(text.as_bytes());
            hash.update([0]);
        }
        hash.finalize()[..6].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }

    /// Flags that strip the program and set its version: tools and charts reject a server that does not know its own version.
    fn linker_flags(&self) -> String {
        let mut flags = "-ldflags=-s -w".to_owned();
        if let Some((package, module)) = self.version
            && let Some(version) = required_version(self.manifest, module)
        {
            let mut numbers = version.trim_start_matches('v').split('.');
            let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
            for (name, value) in [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)] {
                let _ = write!(flags, " -X {package}.{name}={value}");
            }
        }
        flags
    }

    fn ensure(&self, cache: &Cache, progress: Progress) -> Result<PathBuf, Failure> {
        let folder = cache.path("bin").join(format!("{}-{}", self.name, self.key()));
        let program = folder.join(self.name);
        if program.exists() {
            return Ok(program);
        }
        let step = progress.step(self.how_long);
        // One build at a time: two concurrent builds would each take twice as long and need twice the memory.
        let _lock = cache.lock("go", &step)?;
        if program.exists() {
            step.nothing_to_do();
            return Ok(program);
        }
        let source = cache.folder(format!("tmp/go-{}", self.name))?;
        for (file, text) in [("main.go", self.main), ("go.mod", self.manifest), ("go.sum", self.sums)] {
            fs::write(source.join(file), text).context(|| format!("could not write {}", source.join(file).display()))?;
        }
        let built = source.join(self.name);
        Program::new("go")
            .args(["build", "-v", "-trimpath", &self.linker_flags(), "-o"])
            .arg(&built)
            .arg(".")
            .dir(&source)
            .env("CGO_ENABLED", "0")
            .log(cache.path(format!("log/go-{}.log", self.name)))
            .advise(ADVICE)
            .run(&step)?;
        fs::create_dir_all(&folder).context(|| format!("could not make {}", folder.display()))?;
        fs::rename(&built, &program).context(|| format!("could not move {} to {}", built.display(), program.display()))?;
        step.done();
        Ok(program)
    }
}

/// The version of `module` that a go.mod requires, or `None` if it does not list the module.
fn required_version<'a>(manifest: &'a str, module: &str) -> Option<&'a str> {
    manifest.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == module).then(|| words.next())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_is_told_the_version_its_manifest_requires() {
        let flags = KUBERNETES.linker_flags();
        assert!(flags.contains("version.gitVersion=v1.") && flags.contains("version.gitMinor=36"), "{flags}");
        assert_eq!(COREDNS.linker_flags(), "-ldflags=-s -w");
    }
}
