//! Merge of the user's lines with ours: Slurm uses the last of two, so a later line wins, even over a list that both contribute to.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
};

use super::Text;
use crate::{
    conf_check::file::{ConfFile, is_record},
    name::{excerpt, spoken},
};

/// Keys for which the user's options and ours are merged, in the order in which they are written.
const LISTS: [&str; 3] = ["AuthAltParameters", "AuthInfo", "SlurmctldParameters"];

/// Options in [`LISTS`] that the pods need; for the others the user's value wins.
const OUR_OPTIONS: [&str; 5] = ["jwt_key", "jwks", "enable_configless", "reconfig_on_restart", "use_client_ids"];

/// Keys that the user cannot change for our pods, with the reason and the fix.
const FIXED: [(&str, &str); 6] = [
    ("AuthType", "daemons of this operator know each other by auth/slurm alone: take it out"),
    ("ClusterName", "it would not be that of the state on disk: take it out, spec.clusterName has the name"),
    ("SlurmctldHost", "slurmctld runs in pods of this operator alone: take it out, spec.ha adds backups"),
    ("SlurmctldPort", "probes and Services use another: take it out, spec.service.port is the port for clients"),
    ("SlurmUser", "slurmctld runs as another user: take it out"),
    ("StateSaveLocation", "nothing outlives the pod there: take it out, spec.persistence says where the state lies"),
];

/// Keys that may be on several lines, which add up.
const ADDING: [&str; 4] = ["Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld"];

/// Keys for which our value is only a default: overriding them needs no note.
const SUGGESTED: [&str; 1] = ["MaxNodeCount"];

/// A rejected line of the user: the line, the reason and the fix, to follow the name of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotExtra(String);

impl fmt::Display for NotExtra {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for NotExtra {}

/// The user's lines, compared with ours.
pub(super) struct Extra {
    /// Keys of [`LISTS`] that the user sets, with the options of both.
    merged: Vec<(&'static str, String)>,
    /// Overrides, one sentence each.
    pub(super) notes: Vec<String>,
}

impl Extra {
    /// Fails on a line that would disable slurmctld or lose its state: no other line matters then.
    pub(super) fn read(extra: &str, ours: &str) -> Result<Self, NotExtra> {
        let (theirs, ours) = (ConfFile::parse(extra), ConfFile::parse(ours));
        let plain = theirs.entries.iter().filter(|entry| !is_record(&entry.head().key));
        let mut last = BTreeMap::new();
        for entry in plain {
            let setting = entry.head();
            if let Some((key, why)) = FIXED.iter().find(|(key, _)| setting.is(key)) {
                let is_same = ours.last(key).is_some_and(|(_, value)| value == setting.value) && *key != "SlurmctldHost";
                if !is_same {
                    return Err(NotExtra(format!("line {}: {key}={} cannot be, as {why}", entry.line, excerpt(&setting.value))));
                }
            }
            last.insert(setting.key.to_ascii_lowercase(), (entry.line, setting));
        }

        let mut read = Self { merged: Vec::new(), notes: Vec::new() };
        for key in LISTS {
            let Some((line, setting)) = last.remove(&key.to_ascii_lowercase()) else { continue };
            let value = read.join(key, line, ours.last(key).map_or("", |(_, value)| value), &setting.value)?;
            read.merged.push((key, value));
        }
        let mut overrides: Vec<_> = last.into_values().collect();
        overrides.sort_by_key(|(line, _)| *line);
        for (line, setting) in overrides {
            let is_expected = ADDING.iter().chain(&SUGGESTED).any(|key| setting.is(key));
            if let Some((_, our)) = ours.last(&setting.key).filter(|(_, our)| *our != setting.value && !is_expected) {
                let (key, value) = (&setting.key, excerpt(&setting.value));
                read.notes.push(format!("line {line}: {key}={value} wins over the operator's {our}"));
            }
        }
        Ok(read)
    }

    /// The options of both, sorted by name, in their original spelling.
    fn join(&mut self, key: &str, line: usize, ours: &str, theirs: &str) -> Result<String, NotExtra> {
        // Each of these would end the line, or join it with the next.
        if let Some(character) = theirs.chars().find(|character| character.is_control() || matches!(character, '"' | '\\' | '#')) {
            return Err(NotExtra(format!("line {line}: {key} has {}, which no option of it has: take it out", spoken(character))));
        }
        let name = |option: &str| option.split('=').next().unwrap_or_default().trim().to_ascii_lowercase();
        let options =
            |list: &str| list.split(',').map(str::trim).filter(|option| !option.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let mut joined: BTreeMap<String, String> = options(theirs).into_iter().map(|option| (name(&option), option)).collect();
        for ours in options(ours) {
            match joined.entry(name(&ours)) {
                Entry::Vacant(place) => {
                    place.insert(ours);
                }
                Entry::Occupied(mut place) if OUR_OPTIONS.contains(&place.key().as_str()) => {
                    if *place.get() != ours {
                        let theirs = place.insert(ours.clone());
                        self.notes.push(format!("line {line}: {} in {key} gives way to the operator's {ours}", excerpt(&theirs)));
                    }
                }
                Entry::Occupied(_) => {}
            }
        }
        Ok(joined.into_values().collect::<Vec<_>>().join(","))
    }

    /// Writes the merged lists after everything else, so that Slurm uses them.
    pub(super) fn write_merged(&self, file: &mut Text) {
        if !self.merged.is_empty() {
            file.section("MERGED CONFIG");
        }
        for (key, options) in &self.merged {
            file.options(key, options);
        }
    }
}
