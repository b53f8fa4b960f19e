//! plugstack.conf: the SPANK plug-ins that every slurmd loads. slurmctld distributes the file and reads only its includes.

use super::file::is_blank;
use super::surroundings::Surroundings;
use super::{Findings, Severity};
use crate::name::excerpt;

/// The plug-in that Slurm itself provides.
const OWN: &str = "spank_pbs.so";

/// Checks the file. Its syntax is not that of slurm.conf: keywords in lower case, no quotes, no `\` that joins lines.
pub(super) fn check(findings: &mut Findings<'_>, text: &str, around: &Surroundings) {
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let mut words = line.split('#').next().unwrap_or_default().split(is_blank).filter(|word| !word.is_empty());
        let (Some(keyword), argument) = (words.next(), words.next()) else { continue };
        match (keyword, argument) {
            ("include", path) => {
                let message = format!(
                    "include reads `{}`, which the pods do not have and the operator does not check: put its lines here",
                    excerpt(path.unwrap_or_default())
                );
                findings.add(Severity::Error, number, "include", message);
            }
            ("required" | "optional", None) => {
                findings.add(Severity::Silent, number, keyword, format!("{keyword} names no plug-in, so the line does nothing: name one"));
            }
            ("required", Some(plugin)) if !is_there(plugin, around) => {
                let message =
                    format!("the plug-in `{}` is required, and the workers do not have it: mount it or make it optional", excerpt(plugin));
                findings.add(Severity::KillsWorkers, number, "required", message);
            }
            ("required" | "optional", Some(_)) => {}
            (other, _) => {
                let message = format!("a line starts with `{}`, so it does nothing: start it with required or optional", excerpt(other));
                findings.add(Severity::Silent, number, other, message);
            }
        }
    }
}

/// True if a worker has this plug-in, by absolute path or by name in the plug-in folder, or if that is unknown.
fn is_there(plugin: &str, around: &Surroundings) -> bool {
    if plugin.contains(['"', '\'', '\\']) {
        return false;
    }
    let Some(paths) = &around.paths else { return true };
    plugin == OWN || paths.iter().any(|path| path == plugin || (!plugin.starts_with('/') && path.rsplit('/').next() == Some(plugin)))
}
