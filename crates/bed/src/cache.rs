//! Per-user cache of everything that is expensive to make and safe to keep.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure};
use crate::progress::Step;

/// A folder of built programs, images and beds, shared by every checkout of one user.
///
/// `SLIPWAY_CACHE` names it; the default is `slipway` in the user's cache folder.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// Lock held while one process changes a part of the cache; released when dropped or when the process ends for any reason.
#[derive(Debug)]
pub struct CacheLock {
    file: File,
    path: PathBuf,
}

impl CacheLock {
    /// True if the locked file is still the one at its path.
    fn is_in_place(&self) -> bool {
        let inode = |found: fs::Metadata| (found.dev(), found.ino());
        let held = self.file.metadata().map(inode);
        held.is_ok_and(|held| fs::metadata(&self.path).map(inode).is_ok_and(|found| found == held))
    }
}

impl Drop for CacheLock {
    /// Removes the lock file. Lock names contain bed names, so the files would pile up. A process that waits for this lock finds the file gone and
    /// creates a new one.
    fn drop(&mut self) {
        if self.is_in_place() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Cache {
    /// Opens the user's cache and creates its folder.
    pub fn open() -> Result<Self, Failure> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = set("SLIPWAY_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("slipway")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/slipway")))
            .ok_or_else(|| {
                Failure::new("neither SLIPWAY_CACHE nor HOME is set").advise("set SLIPWAY_CACHE to a folder with 20 GiB free")
            })?;
        Self::at(root)
    }

    /// Opens a cache in the given folder, for tests and for the bed's own processes.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self, Failure> {
        let root = root.into();
        fs::create_dir_all(&root).context(|| format!("could not make the cache folder {}", root.display()))?;
        let root = fs::canonicalize(&root).context(|| format!("could not open the cache folder {}", root.display()))?;
        Ok(Self { root })
    }

    /// The cache's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path inside the cache; creates nothing.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// A folder inside the cache, created if missing.
    pub fn folder(&self, relative: impl AsRef<Path>) -> Result<PathBuf, Failure> {
        let path = self.path(relative);
        fs::create_dir_all(&path).context(|| format!("could not make {}", path.display()))?;
        Ok(path)
    }

    /// Acquires the lock `name`. While another process holds it, waits and reports that on the step.
    pub fn lock(&self, name: &str, step: &Step) -> Result<CacheLock, Failure> {
        let path = self.folder("lock")?.join(name);
        loop {
            let file = File::create(&path).context(|| format!("could not open the lock {}", path.display()))?;
            if file.try_lock().is_err() {
                step.waits_for(format!("another process that holds {}", path.display()));
                file.lock().context(|| format!("could not wait for the lock {}", path.display()))?;
            }
            let lock = CacheLock { file, path: path.clone() };
            if lock.is_in_place() {
                return Ok(lock);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Cache;
    use crate::progress::Progress;

    #[test]
    fn a_lock_is_held_by_one_at_a_time_and_leaves_nothing_behind() {
        let cache = Cache::at(std::env::temp_dir().join(format!("slipway-lock-{}", std::process::id()))).unwrap();
        let holders = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let lock = cache.lock("one", &Progress::Quiet.step("waiting")).unwrap();
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "somebody else holds it");
                        std::thread::yield_now();
                        holders.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(cache.path("lock")).unwrap().count(), 0);
        std::fs::remove_dir_all(cache.root()).unwrap();
    }
}
