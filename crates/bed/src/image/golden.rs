//! Template containerd root with all images unpacked once. Every node starts with a copy of it, made of hard links.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::archive::Archive;
use super::contained::contained;
use super::recipe::short;
use crate::cache::Cache;
use crate::failure::{Context, Failure};
use crate::program::Program;
use crate::progress::Progress;

/// The two files in a containerd root that are written in place. A hard link would change both roots. All other files are written once under a new
/// name.
const DATABASES: [&str; 2] = ["io.containerd.metadata.v1.bolt/meta.db", "io.containerd.snapshotter.v1.overlayfs/metadata.db"];
/// The list of images in a template, and a file whose mtime is the template's last use.
const LIST: &str = "images.json";
const USED: &str = "used";
/// Number of templates kept, and the time one is kept after its last use, so that no bed is still copying it.
const KEPT: usize = 3;
const UNUSED: Duration = Duration::from_hours(1);

/// Image names and the digests of the images.
type Content = BTreeMap<String, String>;

/// An existing template.
#[derive(Debug)]
struct Template {
    path: PathBuf,
    content: Content,
    used: SystemTime,
}

/// A folder whose `containerd` subfolder is a containerd root with exactly `archives` unpacked.
///
/// A missing one is made from the template that differs least, so that one changed image costs one import. Fails if containerd does not start or
/// rejects an archive.
pub fn golden(cache: &Cache, progress: Progress, archives: &[Archive]) -> Result<PathBuf, Failure> {
    let wanted: Content = archives.iter().map(|archive| (archive.reference.clone(), archive.digest.clone())).collect();
    let folder = cache.folder("golden")?;
    let place = folder.join(key(&wanted));
    let step = progress.step("unpacking the images");
    let _lock = cache.lock("golden", &step)?;
    if place.join(LIST).is_file() {
        mark_used(&place);
        step.nothing_to_do();
        return Ok(place);
    }

    let unfinished = folder.join("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).context(|| format!("could not clear {}", unfinished.display()))?;
    }
    fs::create_dir(&unfinished).context(|| format!("could not make {}", unfinished.display()))?;
    let templates = templates(&folder);
    let start = closest(&templates, &wanted);
    if let Some(start) = start {
        step.waits_for(format!("a copy of {}", start.path.display()));
        copy(&start.path.join("containerd"), &unfinished.join("containerd"))?;
    }
    let log = cache.path("log/golden.log");
    let _ = fs::remove_file(&log);
    let empty = Content::new();
    let changes = changes(start.map_or(&empty, |start| &start.content), &wanted);
    let mut script = contained("sh").args(["-c", include_str!("golden.sh"), "golden.sh"]).arg(unfinished.join("containerd"));
    for name in &changes.forget {
        script = script.args(["forget", name]);
    }
    for archive in archives.iter().filter(|archive| changes.import.contains(&archive.reference)) {
        script = script.arg("import").arg(&archive.path);
    }
    for name in wanted.keys() {
        script = script.args(["expect", name]);
    }
    script.log(&log).run(&step).map_err(|_| {
        Failure::new("the images could not be unpacked with containerd")
            .with_log(&log)
            .advise(format!("remove {} and run the same command again", folder.display()))
    })?;
    let list = serde_json::to_string_pretty(&wanted).context(|| "could not list the unpacked images".to_owned())?;
    fs::write(unfinished.join(LIST), list).context(|| format!("could not write into {}", unfinished.display()))?;
    mark_used(&unfinished);
    fs::rename(&unfinished, &place).context(|| format!("could not keep {}", place.display()))?;
    prune(templates);
    step.done_with(format!("{} of {} rebuilt", changes.import.len(), wanted.len()));
    Ok(place)
}

fn key(content: &Content) -> String {
    let mut hash = Sha256::new();
    for (name, digest) in content {
        hash.update(format!("{name} {digest}\n"));
    }
    short(hash)
}

/// Images to remove from a template, and images to import.
#[derive(Debug, PartialEq, Eq)]
struct Changes {
    forget: Vec<String>,
    import: Vec<String>,
}

fn changes(have: &Content, want: &Content) -> Changes {
    let missing_in = |other: &Content, name: &String, digest: &String| other.get(name) != Some(digest);
    Changes {
        forget: have.iter().filter(|(name, digest)| missing_in(want, name, digest)).map(|(name, _)| name.clone()).collect(),
        import: want.iter().filter(|(name, digest)| missing_in(have, name, digest)).map(|(name, _)| name.clone()).collect(),
    }
}

/// The template that needs the fewest imports; among equals the one with the fewest images to forget, then the newest. `None` if none saves an
/// import.
fn closest<'a>(templates: &'a [Template], wanted: &Content) -> Option<&'a Template> {
    templates.iter().filter(|template| changes(&template.content, wanted).import.len() < wanted.len()).min_by_key(|template| {
        let changes = changes(&template.content, wanted);
        (changes.import.len(), changes.forget.len(), std::cmp::Reverse(template.used))
    })
}

/// Every finished template. An unreadable one is skipped.
fn templates(folder: &Path) -> Vec<Template> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let read = |path: PathBuf| {
        let content = serde_json::from_slice(&fs::read(path.join(LIST)).ok()?).ok()?;
        let used = fs::metadata(path.join(USED)).ok()?.modified().ok()?;
        Some(Template { path, content, used })
    };
    entries.flatten().filter_map(|entry| read(entry.path())).collect()
}

/// Copies a containerd root as hard links, except the two files that are written in place.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    Program::new("cp").arg("-al").arg(from).arg(to).output()?;
    for database in DATABASES {
        let (from, to) = (from.join(database), to.join(database));
        fs::remove_file(&to).context(|| format!("could not replace {}", to.display()))?;
        fs::copy(&from, &to).context(|| format!("could not copy {}", from.display()))?;
    }
    Ok(())
}

/// Records the time of use. If that fails, the template is only removed earlier.
fn mark_used(place: &Path) {
    let _ = fs::write(place.join(USED), "the time of this file says when the template was last used\n");
}

/// Removes templates that are neither among the newest nor recently used. A failed removal only costs space.
fn prune(mut templates: Vec<Template>) {
    templates.sort_by_key(|template| std::cmp::Reverse(template.used));
    for old in templates.iter().skip(KEPT).filter(|template| template.used.elapsed().is_ok_and(|age| age > UNUSED)) {
        // The list is removed first: without it the folder no longer counts as a template, even if the rest of the removal fails.
        if fs::remove_file(old.path.join(LIST)).is_ok() {
            let _ = fs::remove_dir_all(&old.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(images: &[(&str, &str)]) -> Content {
        images.iter().map(|&(name, digest)| (name.to_owned(), digest.to_owned())).collect()
    }

    fn template(name: &str, age: u64, images: &[(&str, &str)]) -> Template {
        Template { path: PathBuf::from(name), content: content(images), used: SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age) }
    }

    #[test]
    fn a_new_template_starts_from_the_one_that_saves_the_most_imports() {
        let templates = [
            template("small", 0, &[("pause", "1"), ("dns", "1")]),
            template("old-operator", 9, &[("pause", "1"), ("dns", "1"), ("slurmd", "1"), ("operator", "1")]),
            template("stale", 0, &[("pause", "2"), ("dns", "2"), ("slurmd", "2"), ("operator", "2")]),
        ];
        let wanted = content(&[("pause", "1"), ("dns", "1"), ("slurmd", "1"), ("operator", "3")]);
        let start = closest(&templates, &wanted).unwrap();
        assert_eq!(start.path, Path::new("old-operator"));
        let changes = changes(&start.content, &wanted);
        assert_eq!(changes, Changes { forget: vec!["operator".to_owned()], import: vec!["operator".to_owned()] });
    }

    #[test]
    fn of_templates_that_save_the_same_the_one_with_nothing_to_forget_is_taken() {
        let templates = [
            template("more", 0, &[("pause", "1"), ("mariadb", "1")]),
            template("exact", 5, &[("pause", "1")]),
            template("other", 0, &[("slurmd", "7")]),
        ];
        let start = closest(&templates, &content(&[("pause", "1"), ("dns", "1")])).unwrap();
        assert_eq!(start.path, Path::new("exact"));
    }

    #[test]
    fn a_template_that_shares_nothing_is_no_start() {
        let templates = [template("other", 0, &[("slurmd", "7")])];
        assert!(closest(&templates, &content(&[("slurmd", "8")])).is_none());
    }

    #[test]
    fn a_key_depends_on_every_digest_and_not_on_the_order_of_archives() {
        let one = key(&content(&[("a", "1"), ("b", "2")]));
        assert_eq!(one, key(&content(&[("b", "2"), ("a", "1")])));
        assert_ne!(one, key(&content(&[("a", "1"), ("b", "3")])));
    }
}
