//! The per-user cache: everything that is expensive to make and safe to keep.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure};
use crate::progress::Step;

/// A folder of built programs, images and beds, shared by every checkout of one user.
///
/// `SLIPWAY_CACHE` names it; otherwise it is `slipway` in the user's cache folder.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// Held while one process changes a part of the cache; released when dropped or when the process ends, however it ends.
#[derive(Debug)]
pub struct CacheLock {
    _file: File,
}

impl Cache {
    /// Opens the user's cache and makes its folder.
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

    /// Opens a cache in a given folder, for tests.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self, Failure> {
        let root = root.into();
        fs::create_dir_all(&root).context(|| format!("could not make the cache folder {}", root.display()))?;
        let root = fs::canonicalize(&root).context(|| format!("could not open the cache folder {}", root.display()))?;
        Ok(Self { root })
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path inside the cache; nothing is made.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// A folder inside the cache, made if absent.
    pub fn folder(&self, relative: impl AsRef<Path>) -> Result<PathBuf, Failure> {
        let path = self.path(relative);
        fs::create_dir_all(&path).context(|| format!("could not make {}", path.display()))?;
        Ok(path)
    }

    /// Waits until no other process holds the lock `name`, saying so on the step, and holds it.
    pub fn lock(&self, name: &str, step: &Step) -> Result<CacheLock, Failure> {
        let path = self.folder("lock")?.join(name);
        let file = File::create(&path).context(|| format!("could not open the lock {}", path.display()))?;
        if file.try_lock().is_err() {
            step.waits_for(format!("another process that holds {}", path.display()));
            file.lock().context(|| format!("could not wait for the lock {}", path.display()))?;
        }
        Ok(CacheLock { _file: file })
    }
}
