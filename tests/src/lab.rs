//! Slurm's real programs without a cluster, for hundreds of short runs: the images unpacked into a folder, in namespaces of their own.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use slipway_bed::cache::Cache;
use slipway_bed::failure::{Context, Failure};
use slipway_bed::image::{Archive, Daemon, Image, Inputs, Release, build};
use slipway_bed::program::Program;
use slipway_bed::progress::{Progress, Step};

/// A root file system with slurmctld, slurmd, slurmdbd and the clients; its folder `database` holds that of a MariaDB.
#[derive(Debug)]
pub struct Lab {
    root: PathBuf,
}

impl Lab {
    /// Unpacks the images, once for each of their versions. Fails if they cannot be built or unpacked.
    pub fn open(cache: &Cache) -> Result<Self, Failure> {
        let daemons = [Daemon::Slurmctld, Daemon::Slurmd, Daemon::Slurmdbd].map(|daemon| Image::Slurm(daemon, Release::Slurm26_05));
        let images: Vec<Image> = daemons.into_iter().chain([Image::Mariadb]).collect();
        let archives = build(cache, Progress::Quiet, &images, &Inputs::default())?;
        let step = Progress::Quiet.step("unpacking the images of the lab");
        let _lock = cache.lock("lab", &step)?;
        let key: Vec<_> = archives.iter().map(|archive| archive.digest.rsplit(':').next().unwrap_or_default()).collect();
        let key: Vec<_> = key.iter().map(|digest| digest.get(..12).unwrap_or(digest)).collect();
        let root = cache.folder("lab")?.join(key.join("-"));
        if !root.is_dir() {
            forget_others(&cache.path("lab"));
            let unfinished = cache.path("lab").join("unfinished");
            for (image, archive) in images.iter().zip(&archives) {
                // The database has its own libraries.
                let folder = if *image == Image::Mariadb { unfinished.join("database") } else { unfinished.clone() };
                unpack(archive, &folder, &step)?;
            }
            fs::create_dir_all(unfinished.join("lab")).context(|| format!("could not make {}/lab", unfinished.display()))?;
            fs::rename(&unfinished, &root).context(|| format!("could not keep {}", root.display()))?;
        }
        step.nothing_to_do();
        Ok(Self { root })
    }

    /// Path of the root file system.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs a shell script as root inside, with `input` on its standard input, and returns its output. Everything that it mounts or starts ends with
    /// it.
    pub fn run(&self, script: &str, input: &str) -> Result<String, Failure> {
        Program::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--", "sh", "-c"])
            .arg(r#"mount --rbind /dev "$1/dev" && exec chroot "$1" sh -c "$SCRIPT" script"#)
            .arg("lab")
            .arg(&self.root)
            .env("SCRIPT", script)
            .feed(input)
    }
}

/// Removes older versions. They only cost space, so a failure to remove one is ignored.
fn forget_others(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Unpacks the layers of an image into a folder. Whiteouts are skipped: no layer of these images removes a file.
fn unpack(archive: &Archive, root: &Path, step: &Step) -> Result<(), Failure> {
    step.waits_for(archive.reference.clone());
    let parts = root.with_extension("parts");
    for folder in [&parts, &root.to_owned()] {
        fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))?;
    }
    Program::new("tar").arg("-xf").arg(&archive.path).arg("-C").arg(&parts).output()?;
    let blob = |digest: &Value| parts.join("blobs").join(digest.as_str().unwrap_or_default().replace(':', "/"));
    let index = read_json(&parts.join("index.json"))?;
    let manifest = read_json(&blob(&index["manifests"][0]["digest"]))?;
    for layer in manifest["layers"].as_array().into_iter().flatten() {
        Program::new("tar").arg("-xf").arg(blob(&layer["digest"])).args(["--exclude=.wh.*", "-C"]).arg(root).output()?;
    }
    fs::remove_dir_all(&parts).context(|| format!("could not remove {}", parts.display()))
}

fn read_json(path: &Path) -> Result<Value, Failure> {
    let text = fs::read(path).context(|| format!("could not read {}", path.display()))?;
    serde_json::from_slice(&text).context(|| format!("{} is no JSON", path.display()))
}
