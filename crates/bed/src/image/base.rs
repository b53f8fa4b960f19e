//! Root file system of a distribution's suite, built from its packages: the base of images when no registry is available.

use std::fs;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::Suite;
use super::contained::contained;
use super::recipe::short;
use crate::cache::Cache;
use crate::failure::{Context, Failure};
use crate::progress::Progress;
use crate::tool::apt;

/// Contents of the root. The apt and dpkg options stay in the root, so they apply to packages added later too.
const OPTIONS: [&str; 9] = [
    "--mode=root",
    "--variant=minbase",
    "--include=ca-certificates,hostname,iproute2,netbase,procps,tini",
    "--aptopt=APT::Install-Recommends \"false\"",
    // A mirror's copy of a moving suite may be older than the suite's Valid-Until date allows.
    "--aptopt=Acquire::Check-Valid-Until \"false\"",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
];

/// Root file system of a suite in a tar file.
pub(super) struct Base {
    pub(super) suite: Suite,
    pub(super) key: String,
    pub(super) tar: PathBuf,
}

impl Base {
    /// The root of `suite`, built or not.
    pub(super) fn of(cache: &Cache, suite: Suite) -> Self {
        let mut hash = Sha256::new();
        for part in [suite.0].iter().chain(&OPTIONS) {
            hash.update(part.as_bytes());
            hash.update(b"\n");
        }
        let key = short(hash);
        let tar = cache.path(format!("images/base/{}-{key}.tar", suite.0));
        Self { suite, key, tar }
    }

    /// Name of the image built from it.
    pub(super) fn reference(&self) -> String {
        format!("localhost/slipway/debian:{}-{}", self.suite.0, self.key)
    }

    /// Builds the root if it is missing.
    pub(super) fn ensure(&self, cache: &Cache, progress: Progress) -> Result<(), Failure> {
        if self.tar.is_file() {
            return Ok(());
        }
        let step = progress.step(format!("making a root of {} from its packages", self.suite.0));
        let folder = cache.folder("images/base")?;
        let tmp = cache.folder("images/tmp")?;
        let log = cache.path(format!("log/base-{}.log", self.suite.0));
        let _ = fs::remove_file(&log);
        let unfinished = folder.join(format!("{}.unfinished.tar", self.suite.0));
        let mirror = apt::mirror()?;
        let _apt = cache.lock("apt", &step)?;
        contained("mmdebstrap")
            .args(OPTIONS)
            .arg(self.suite.0)
            .arg(&unfinished)
            .arg(mirror)
            .env("TMPDIR", tmp)
            .log(&log)
            .run(&step)
            .map_err(|_| {
                Failure::new(format!("the root of {} could not be made", self.suite.0)).with_log(&log).advise(
                    "check that this machine reaches the mirror its apt sources name (`apt-get update`), then run the same command again",
                )
            })?;
        fs::rename(&unfinished, &self.tar).context(|| format!("could not keep {}", self.tar.display()))?;
        step.done();
        Ok(())
    }
}
