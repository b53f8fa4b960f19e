//! Built images on disk; each file name contains a hash of the image's inputs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::Image;
use crate::cache::Cache;
use crate::failure::{Context, Failure};

/// Number of versions kept per image, so that switching between two checkouts costs no rebuild.
const KEPT: usize = 3;

/// An image in an OCI archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// Name under which it is imported.
    pub reference: String,
    pub path: PathBuf,
    /// Digest of its manifest.
    pub digest: String,
}

impl Archive {
    /// The archive of `image` built with `key`, or `None` if it has not been built.
    pub(super) fn find(cache: &Cache, image: Image, key: &str) -> Option<Self> {
        let path = Self::path(cache, image, key);
        // The digest is written last, so its presence proves that the archive is complete.
        let digest = fs::read_to_string(digest_path(&path)).ok()?.trim().to_owned();
        (path.is_file() && !digest.is_empty()).then(|| Self { reference: image.reference(), path, digest })
    }

    /// Moves a finished archive and its digest into place, and removes the oldest versions of the same image.
    pub(super) fn keep(cache: &Cache, image: Image, key: &str, made: &Path, made_digest: &Path) -> Result<Self, Failure> {
        cache.folder("images/archive")?;
        let path = Self::path(cache, image, key);
        let _ = fs::remove_file(digest_path(&path));
        fs::rename(made, &path).context(|| format!("could not keep the image {}", path.display()))?;
        fs::rename(made_digest, digest_path(&path)).context(|| format!("could not keep the digest of {}", path.display()))?;
        forget_oldest(&cache.path("images/archive"), &prefix(image), KEPT);
        Self::find(cache, image, key).ok_or_else(|| Failure::new(format!("the archive {} vanished while it was made", path.display())))
    }

    fn path(cache: &Cache, image: Image, key: &str) -> PathBuf {
        cache.path("images/archive").join(format!("{}{key}.tar", prefix(image)))
    }
}

fn prefix(image: Image) -> String {
    format!("{}-{}-", image.target(), image.tag())
}

fn digest_path(archive: &Path) -> PathBuf {
    archive.with_extension("digest")
}

/// Removes all but the newest `kept` archives whose names start with `prefix`. A failed removal only costs space.
fn forget_oldest(folder: &Path, prefix: &str, kept: usize) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut archives: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "tar"))
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    archives.sort();
    let surplus = archives.len().saturating_sub(kept);
    for (_, path) in archives.into_iter().take(surplus) {
        let _ = fs::remove_file(digest_path(&path));
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_the_newest_versions_of_one_image_stay() {
        let folder = std::env::temp_dir().join(format!("slipway-archive-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (age, name) in [(5, "slurmd-26.05-a"), (1, "slurmd-26.05-b"), (3, "slurmd-26.05-c"), (9, "slurmdbd-26.05-d")] {
            let file = File::create(folder.join(format!("{name}.tar"))).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age)).unwrap();
            fs::write(folder.join(format!("{name}.digest")), "x").unwrap();
        }
        forget_oldest(&folder, "slurmd-26.05-", 2);
        let mut left: Vec<String> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        fs::remove_dir_all(&folder).unwrap();
        let kept = ["slurmd-26.05-b", "slurmd-26.05-c", "slurmdbd-26.05-d"];
        assert_eq!(left, kept.iter().flat_map(|name| [format!("{name}.digest"), format!("{name}.tar")]).collect::<Vec<_>>());
    }
}
