//! Parses the Containerfile, so that an image is rebuilt exactly when one of its inputs has changed.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::failure::{Context, Failure};

/// The stages of a Containerfile.
pub(super) struct Recipe {
    stages: Vec<Stage>,
}

struct Stage {
    name: String,
    /// The stage or image it starts from.
    from: String,
    /// Its instructions without comments and blank lines.
    text: String,
}

/// Inputs of a target.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ingredients {
    /// Instructions of the target and of every stage it needs.
    text: String,
    /// Files copied from the build context.
    pub(super) files: Vec<String>,
    /// True if it is built on the base image.
    pub(super) on_base: bool,
}

impl Recipe {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).context(|| format!("could not read {}", path.display()))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut stages: Vec<Stage> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["FROM", from, "AS", name] = words[..] {
                stages.push(Stage { name: name.to_owned(), from: from.to_owned(), text: String::new() });
            }
            if let Some(stage) = stages.last_mut() {
                stage.text.push_str(line);
                stage.text.push('\n');
            }
        }
        Self { stages }
    }

    /// The inputs of `target`, or `None` if there is no such target.
    pub(super) fn ingredients(&self, target: &str) -> Option<Ingredients> {
        let stage = self.stages.iter().find(|stage| stage.name == target)?;
        let mut found = Ingredients { text: String::new(), files: Vec::new(), on_base: stage.from == "${BASE}" };
        let mut needed = vec![stage.from.as_str()];
        for line in stage.text.lines().filter(|line| line.starts_with("COPY ")) {
            let words: Vec<&str> = line.split_whitespace().skip(1).collect();
            let (flags, paths): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("--"));
            match flags.iter().find_map(|flag| flag.strip_prefix("--from=")) {
                Some(other) => needed.push(other),
                None => found.files.extend(paths.iter().take(paths.len().saturating_sub(1)).map(|&file| file.to_owned())),
            }
        }
        for parent in needed.into_iter().filter_map(|name| self.ingredients(name)) {
            found.text.push_str(&parent.text);
            found.files.extend(parent.files);
            found.on_base |= parent.on_base;
        }
        found.text.push_str(&stage.text);
        Some(found)
    }
}

impl Ingredients {
    /// Hash of exactly this content: the instructions, the base, and the files (each by name and digest).
    pub(super) fn key(&self, base: Option<&str>, files: &[(String, String)]) -> String {
        let mut hash = Sha256::new();
        for part in [self.text.as_str(), base.unwrap_or("scratch")]
            .into_iter()
            .chain(files.iter().flat_map(|(name, digest)| [name.as_str(), digest]))
        {
            // The length keeps two parts from being hashed like one.
            hash.update(part.len().to_le_bytes());
            hash.update(part.as_bytes());
        }
        short(hash)
    }
}

/// The first twelve digits of a hash: enough to be unique in one cache, short enough for a file name.
pub(super) fn short(hash: Sha256) -> String {
    let digits = format!("{:x}", hash.finalize());
    digits[..12].to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::{Daemon, FOLDER, Image, Release};
    use super::*;

    const TEXT: &str = "\
ARG BASE
# common
FROM ${BASE} AS common
RUN install common
FROM common AS daemon
COPY --chmod=0755 entry/run entry/lib /usr/
FROM ${BASE} AS library
RUN collect
FROM scratch AS tool
COPY --from=library /out /
COPY tool /tool
";

    fn key(text: &str, target: &str) -> String {
        Recipe::parse(text).ingredients(target).unwrap().key(Some("base"), &[("f".to_owned(), "1".to_owned())])
    }

    #[test]
    fn a_target_names_its_files_and_whether_it_needs_the_base() {
        let recipe = Recipe::parse(TEXT);
        let daemon = recipe.ingredients("daemon").unwrap();
        assert_eq!((daemon.files, daemon.on_base), (vec!["entry/run".to_owned(), "entry/lib".to_owned()], true));
        let tool = recipe.ingredients("tool").unwrap();
        assert_eq!((tool.files, tool.on_base), (vec!["tool".to_owned()], true));
        assert_eq!(recipe.ingredients("absent"), None);
    }

    #[test]
    fn a_key_follows_what_a_target_is_made_of_and_nothing_else() {
        let (daemon, tool) = (key(TEXT, "daemon"), key(TEXT, "tool"));
        let common_changed = TEXT.replace("install common", "install more");
        assert_ne!(key(&common_changed, "daemon"), daemon);
        assert_eq!(key(&common_changed, "tool"), tool);
        assert_ne!(key(&TEXT.replace("RUN collect", "RUN gather"), "tool"), tool);
        assert_eq!(key(&TEXT.replace("# common", "# other words"), "daemon"), daemon);

        let made = Recipe::parse(TEXT).ingredients("daemon").unwrap();
        assert_ne!(made.key(Some("base"), &[("f".to_owned(), "2".to_owned())]), daemon);
        assert_ne!(made.key(Some("newer"), &[("f".to_owned(), "1".to_owned())]), daemon);
    }

    #[test]
    fn every_image_has_a_target_and_every_file_it_copies_exists() {
        let folder = Path::new(FOLDER);
        let recipe = Recipe::read(&folder.join("Containerfile")).unwrap();
        let daemons = Daemon::ALL.map(|daemon| Image::Slurm(daemon, Release::Slurm26_05));
        for image in daemons.into_iter().chain([Image::Mariadb, Image::Pause, Image::CoreDns, Image::Operator]) {
            let made = recipe.ingredients(image.target()).unwrap_or_else(|| panic!("no target for {image}"));
            match image {
                Image::Slurm(..) | Image::Mariadb => {
                    assert!(made.on_base, "{image} needs a distribution");
                    for file in &made.files {
                        assert!(folder.join(file).is_file(), "{image} copies {file}, which is not in images/");
                    }
                }
                Image::Pause | Image::CoreDns | Image::Operator => assert_eq!(made.files.len(), 1, "{image} copies one program"),
            }
        }
    }
}
