//! Runs buildah. Everything it writes is in the cache; everything it starts or mounts is gone when it ends.

use std::fs;
use std::path::{Path, PathBuf};

use super::Image;
use super::base::Base;
use super::contained::contained;
use crate::cache::Cache;
use crate::failure::{Context, Failure, tail};
use crate::program::Program;
use crate::progress::Step;

/// apt messages that distinguish an unreachable network from a mistake in a package list.
const NETWORK: [&str; 5] =
    ["Failed to fetch", "Could not resolve", "Temporary failure resolving", "Could not connect", "Unable to connect"];

/// Store of image layers. The caller of `open` must hold the lock `images`.
pub(super) struct Store {
    root: PathBuf,
    run: PathBuf,
    tmp: PathBuf,
    logs: PathBuf,
}

impl Store {
    /// Opens the store and removes what an interrupted build left.
    pub(super) fn open(cache: &Cache, step: &Step) -> Result<Self, Failure> {
        let (run, tmp) = (cache.path("images/run"), cache.path("images/tmp"));
        for folder in [&run, &tmp] {
            if folder.exists() {
                fs::remove_dir_all(folder).context(|| format!("could not clear {}", folder.display()))?;
            }
        }
        let store =
            Self { root: cache.folder("images/store")?, run: cache.folder(run)?, tmp: cache.folder(tmp)?, logs: cache.folder("log")? };
        let log = store.logs.join("image-store.log");
        store.buildah().args(["rm", "--all"]).log(&log).run(step).map_err(|_| {
            Failure::new("the store of image layers could not be opened")
                .with_log(&log)
                .advise(format!("remove {} and run the same command again; the images are then rebuilt", store.root.display()))
        })?;
        Ok(store)
    }

    /// Folder for intermediate files; empty when the store is opened.
    pub(super) fn tmp(&self) -> &Path {
        &self.tmp
    }

    /// Creates the image that other images start from, if it is missing.
    pub(super) fn ensure_base(&self, base: &Base, step: &Step) -> Result<(), Failure> {
        let reference = base.reference();
        if self.buildah().args(["inspect", "--type", "image", &reference]).output().is_ok() {
            return Ok(());
        }
        step.waits_for(format!("the base image {reference}"));
        let container = self.buildah().args(["from", "scratch"]).output()?;
        let container = container.trim();
        self.buildah().args(["add", "--quiet", container]).arg(&base.tar).arg("/").output()?;
        self.buildah().args(["config", "--env", "LANG=C.UTF-8", "--cmd", "/bin/bash", container]).output()?;
        self.buildah().args(["commit", "--quiet", "--rm", container, &reference]).output()?;
        Ok(())
    }

    /// Builds one target of the Containerfile from the files in `context`.
    pub(super) fn build(
        &self,
        image: Image,
        containerfile: &Path,
        context: &Path,
        base: Option<&Base>,
        step: &Step,
    ) -> Result<(), Failure> {
        let log = self.logs.join(format!("image-{}.log", image.target()));
        let _ = fs::remove_file(&log);
        let mut build = self.buildah().args(["build", "--isolation", "chroot", "--layers", "--pull-never", "--target", image.target()]);
        if let Some(base) = base {
            build = build.args(["--build-arg", &format!("BASE={}", base.reference())]);
        }
        build
            .args(["--tag", &image.reference(), "--file"])
            .arg(containerfile)
            .arg(context)
            .log(&log)
            .run(step)
            .map_err(|_| Failure::new(format!("the image {image} could not be built")).with_log(&log).advise(advice(&log)))
    }

    /// Writes an image to an archive and its digest to a second file. Compression costs a second and saves three quarters of the space, here and in
    /// every template.
    pub(super) fn export(&self, image: Image, archive: &Path, digest: &Path) -> Result<(), Failure> {
        let reference = image.reference();
        let mut target = std::ffi::OsString::from("oci-archive:");
        target.push(archive);
        target.push(format!(":{reference}"));
        self.buildah().args(["push", "--quiet", "--digestfile"]).arg(digest).arg(&reference).arg(target).output()?;
        Ok(())
    }

    /// Deletes layers that no image needs any more. A failure only costs space.
    pub(super) fn prune(&self) {
        let _ = self.buildah().args(["rmi", "--prune"]).output();
    }

    fn buildah(&self) -> Program {
        contained("buildah")
            .arg("--root")
            .arg(&self.root)
            .arg("--runroot")
            .arg(&self.run)
            .args(["--storage-driver", "overlay"])
            .env("TMPDIR", &self.tmp)
    }
}

fn advice(log: &Path) -> String {
    if tail(log, 40).iter().any(|line| NETWORK.iter().any(|words| line.contains(words))) {
        "check that this machine reaches the mirror its apt sources name (`apt-get update`), then run the same command again".to_owned()
    } else {
        format!("read the whole of {}; what was built so far is kept", log.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_could_not_reach_the_mirror_points_to_the_network() {
        let log = std::env::temp_dir().join(format!("slipway-advice-{}.log", std::process::id()));
        fs::write(
            &log,
            "E: Failed to fetch the file  Temporary failure resolving 'mirror'\nError: building at STEP \"RUN apt-get\": exit status 100\n",
        )
        .unwrap();
        let network = advice(&log);
        fs::write(&log, "E: Unable to locate package slurmx\n").unwrap();
        let other = advice(&log);
        fs::remove_file(&log).unwrap();
        assert!(network.contains("apt-get update"), "{network}");
        assert!(other.contains(&log.display().to_string()), "{other}");
    }
}
