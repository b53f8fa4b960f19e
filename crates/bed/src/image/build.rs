//! Builds images that are missing or whose inputs have changed.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::archive::Archive;
use super::base::Base;
use super::recipe::{Ingredients, Recipe, short};
use super::store::Store;
use super::{FOLDER, Image};
use crate::cache::Cache;
use crate::failure::{Context, Failure};
use crate::program::Program;
use crate::progress::{Progress, Step};

/// Programs that are built elsewhere and copied into an image; needed only if that image is requested.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub coredns: Option<PathBuf>,
    pub operator: Option<PathBuf>,
}

/// A requested image and its current inputs.
struct Wanted {
    image: Image,
    base: Option<Base>,
    /// Files that it copies: the name in the Containerfile and the path.
    files: Vec<(String, PathBuf)>,
    key: String,
}

/// Builds the missing or outdated ones of `images` and returns all of them in the requested order.
///
/// One build runs at a time per cache; an interrupted build resumes where it stopped. Fails if a program of `inputs` is missing, if a package mirror
/// is unreachable, or if an instruction of the Containerfile fails.
pub fn build(cache: &Cache, progress: Progress, images: &[Image], inputs: &Inputs) -> Result<Vec<Archive>, Failure> {
    let step = progress.step("looking at the images");
    let _lock = cache.lock("images", &step)?;
    let containerfile = Path::new(FOLDER).join("Containerfile");
    let recipe = Recipe::read(&containerfile)?;
    let pause = if images.contains(&Image::Pause) { Some(compile_pause(cache, &step)?) } else { None };
    let wanted = images
        .iter()
        .map(|&image| {
            let program = match image {
                Image::Pause => pause.as_deref(),
                Image::CoreDns => inputs.coredns.as_deref(),
                Image::Operator => inputs.operator.as_deref(),
                Image::Slurm(..) | Image::Mariadb => None,
            };
            Wanted::of(cache, &recipe, image, program)
        })
        .collect::<Result<Vec<_>, _>>()?;
    if wanted.iter().all(|wanted| wanted.find(cache).is_some()) {
        step.nothing_to_do();
    } else {
        let store = Store::open(cache, &step)?;
        step.nothing_to_do();
        for wanted in wanted.iter().filter(|wanted| wanted.find(cache).is_none()) {
            wanted.make(cache, progress, &store, &containerfile)?;
        }
        store.prune();
    }
    wanted
        .iter()
        .map(|wanted| wanted.find(cache).ok_or_else(|| Failure::new(format!("the image {} is gone after it was built", wanted.image))))
        .collect()
}

impl Wanted {
    fn of(cache: &Cache, recipe: &Recipe, image: Image, program: Option<&Path>) -> Result<Self, Failure> {
        let ingredients = recipe
            .ingredients(image.target())
            .ok_or_else(|| Failure::new(format!("images/Containerfile has no target `{}` for the image {image}", image.target())))?;
        let base = ingredients.on_base.then(|| Base::of(cache, image.suite()));
        let files = locate(&ingredients, image, program)?;
        let digests = files.iter().map(|(name, path)| Ok((name.clone(), file_digest(path)?))).collect::<Result<Vec<_>, Failure>>()?;
        let key = ingredients.key(base.as_ref().map(|base| base.key.as_str()), &digests);
        Ok(Self { image, base, files, key })
    }

    fn find(&self, cache: &Cache) -> Option<Archive> {
        Archive::find(cache, self.image, &self.key)
    }

    fn make(&self, cache: &Cache, progress: Progress, store: &Store, containerfile: &Path) -> Result<(), Failure> {
        if let Some(base) = &self.base {
            base.ensure(cache, progress)?;
        }
        let step = progress.step(format!("building the image {}", self.image));
        if let Some(base) = &self.base {
            store.ensure_base(base, &step)?;
        }
        let context = store.tmp().join("context");
        fill(&context, &self.files)?;
        store.build(self.image, containerfile, &context, self.base.as_ref(), &step)?;
        step.waits_for("its archive");
        let (archive, digest) = (store.tmp().join("image.tar"), store.tmp().join("image.digest"));
        store.export(self.image, &archive, &digest)?;
        let kept = Archive::keep(cache, self.image, &self.key, &archive, &digest)?;
        let size = fs::metadata(&kept.path).map_or(0, |file| file.len());
        step.done_with(format!("{} MB", size.div_ceil(1_000_000)));
        Ok(())
    }
}

/// Paths of the files that an image copies: a program built elsewhere, or files next to the Containerfile.
fn locate(ingredients: &Ingredients, image: Image, program: Option<&Path>) -> Result<Vec<(String, PathBuf)>, Failure> {
    let beside = |name: &String| match (image, program) {
        (Image::Slurm(..) | Image::Mariadb, _) => Ok((name.clone(), Path::new(FOLDER).join(name))),
        (_, Some(program)) => Ok((name.clone(), program.to_owned())),
        (_, None) => Err(Failure::new(format!("the image {image} needs the program `{name}`, and none was given"))),
    };
    ingredients.files.iter().map(beside).collect()
}

/// Copies the files of one build into a folder of their own, so that the build reads nothing else.
fn fill(context: &Path, files: &[(String, PathBuf)]) -> Result<(), Failure> {
    if context.exists() {
        fs::remove_dir_all(context).context(|| format!("could not clear {}", context.display()))?;
    }
    fs::create_dir_all(context).context(|| format!("could not make {}", context.display()))?;
    for (name, from) in files {
        let to = context.join(name);
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))?;
        }
        fs::copy(from, &to).context(|| format!("could not copy {} for a build", from.display()))?;
    }
    Ok(())
}

/// Digest of a file's content. Computed by `sha256sum`, because hashing a large binary in an unoptimised build takes seconds.
fn file_digest(path: &Path) -> Result<String, Failure> {
    let line = Program::new("sha256sum").arg("--binary").arg("--").arg(path).output()?;
    Ok(line.split_whitespace().next().unwrap_or_default().to_owned())
}

/// Compiles the process that holds a pod's namespaces. It is linked statically, because its image has no libraries.
fn compile_pause(cache: &Cache, step: &Step) -> Result<PathBuf, Failure> {
    let source = Path::new(FOLDER).join("pause.c");
    let text = fs::read(&source).context(|| format!("could not read {}", source.display()))?;
    let program = cache.folder("images/pause")?.join(short(Sha256::new_with_prefix(text)));
    if !program.is_file() {
        step.waits_for("the compilation of pause.c");
        let unfinished = program.with_extension("unfinished");
        Program::new("gcc")
            .args(["-static", "-Os", "-s", "-Wall", "-Werror", "-o"])
            .arg(&unfinished)
            .arg(&source)
            .advise("install a C compiler and the C library's development files (`apt-get install gcc libc6-dev`)")
            .output()?;
        fs::rename(&unfinished, &program).context(|| format!("could not keep {}", program.display()))?;
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_its_program_says_which_one_is_missing() {
        let cache = Cache::at(std::env::temp_dir().join(format!("slipway-build-{}", std::process::id()))).unwrap();
        let failure = build(&cache, Progress::Quiet, &[Image::Operator], &Inputs::default()).unwrap_err();
        fs::remove_dir_all(cache.root()).unwrap();
        assert_eq!(failure.what(), "the image operator:dev needs the program `slipway`, and none was given");
    }

    #[test]
    fn a_build_reads_only_its_own_files_and_no_leftovers() {
        let folder = std::env::temp_dir().join(format!("slipway-context-{}", std::process::id()));
        fs::create_dir_all(folder.join("context")).unwrap();
        fs::write(folder.join("context/leftover"), "old").unwrap();
        fs::write(folder.join("program"), "new").unwrap();
        fill(&folder.join("context"), &[("entry/run".to_owned(), folder.join("program"))]).unwrap();
        let content = fs::read_to_string(folder.join("context/entry/run")).unwrap();
        let leftover = folder.join("context/leftover").exists();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((content.as_str(), leftover), ("new", false));
    }
}
