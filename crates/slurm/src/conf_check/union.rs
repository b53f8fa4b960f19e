//! Merges several sources into one file.
//!
//! Sources are ordered by precedence: a later one wins. Adding a source never removes a line; each key appears once; keys whose value is a list are
//! merged option by option. The text depends only on the sources and is sorted, so the same settings give the same bytes.

use std::collections::BTreeMap;
use std::fmt;

use super::check::is_repeatable;
use super::file::{ConfFile, Entry, FaultKind, Setting, is_record};

/// Keys whose values are merged; their words are kept as written.
const LISTS: [&str; 3] = ["SlurmctldParameters", "AuthInfo", "AuthAltParameters"];

/// A file with its name in the report.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    pub name: &'a str,
    pub file: &'a ConfFile,
}

/// The merged file and the overrides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    pub file: ConfFile,
    pub overrides: Vec<Override>,
}

/// A value of one source that was replaced by that of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The key, or `PartitionName=x MaxTime` for one inside a record.
    pub key: String,
    pub lost: Place,
    pub won: Place,
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub source: String,
    pub line: usize,
    pub value: String,
}

impl fmt::Display for Override {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, lost, won } = self;
        write!(
            out,
            "{key}: `{}` of {} line {} wins over `{}` of {} line {}",
            won.value, won.source, won.line, lost.value, lost.source, lost.line
        )
    }
}

/// A source that cannot be merged: one of its lines is no setting, or includes a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub source: String,
    pub line: usize,
    pub text: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, line, text } = self;
        write!(out, "{source} line {line}: `{text}` cannot be joined with other settings: write Key=Value, and no Include")
    }
}

impl std::error::Error for Unreadable {}

/// Merges sources, the one with the highest precedence last. Fails on the first line that is no setting: its meaning cannot be kept.
pub fn union(sources: &[Source<'_>]) -> Result<Union, Unreadable> {
    for source in sources {
        for fault in &source.file.faults {
            if let FaultKind::NotASetting(text) | FaultKind::Include(text) = &fault.kind {
                return Err(Unreadable { source: source.name.to_owned(), line: fault.line, text: crate::name::excerpt(text) });
            }
        }
    }
    let mut joined = Joined::default();
    for source in sources {
        for entry in &source.file.entries {
            joined.add(source.name, entry);
        }
    }
    Ok(joined.finish())
}

/// Position of a line in the text: plain keys by name, then records by kind and name, `DEFAULT` before the records it applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    rank: usize,
    key: String,
    not_default: bool,
    name: String,
    /// Keeps repeatable lines in their original order.
    count: usize,
}

/// Content of a slot: settings with their origin.
type Record = Vec<(Setting, Place)>;

#[derive(Default)]
struct Joined {
    slots: BTreeMap<Slot, Record>,
    overrides: Vec<Override>,
}

impl Joined {
    fn add(&mut self, source: &str, entry: &Entry) {
        let slot = self.slot(entry);
        let name = if is_record(&slot.key) { format!("{}={} ", entry.head().key, entry.head().value) } else { String::new() };
        let record = self.slots.entry(slot).or_default();
        for setting in &entry.settings {
            let place = Place { source: source.to_owned(), line: entry.line, value: setting.value.clone() };
            let Some((known, origin)) = record.iter_mut().find(|(known, _)| known.is(&setting.key)) else {
                record.push((setting.clone(), place));
                continue;
            };
            let key = format!("{name}{}", known.key);
            if LISTS.iter().any(|list| setting.is(list)) {
                let merged = merge_options(&known.value, &setting.value, |lost, won| {
                    let lost = Place { value: lost.to_owned(), ..origin.clone() };
                    self.overrides.push(Override { key: key.clone(), lost, won: Place { value: won.to_owned(), ..place.clone() } });
                });
                known.value = merged;
            } else if known.value != setting.value {
                self.overrides.push(Override { key, lost: origin.clone(), won: place.clone() });
                known.value.clone_from(&setting.value);
                *origin = place;
            }
        }
    }

    /// The slot of a line; a repeatable line gets a new one unless the same line exists.
    fn slot(&self, entry: &Entry) -> Slot {
        let head = entry.head();
        let records = ["nodename", "nodeset", "partitionname", "downnodes", "poweraction"];
        let key = head.key.to_ascii_lowercase();
        let rank = records.iter().position(|record| *record == key).map_or(0, |index| index + 1);
        if rank > 0 {
            let not_default = !head.value.eq_ignore_ascii_case("default");
            return Slot { rank, key, not_default, name: head.value.clone(), count: 0 };
        }
        let mut slot = Slot { rank, key, not_default: true, name: String::new(), count: 0 };
        if is_repeatable(&head.key) {
            while self.slots.get(&slot).is_some_and(|record| record.first().is_some_and(|(known, _)| known.value != head.value)) {
                slot.count += 1;
            }
        }
        slot
    }

    fn finish(self) -> Union {
        let lines = self.slots.into_values().enumerate();
        let entries = lines.map(|(index, record)| {
            let mut settings: Vec<Setting> = record.into_iter().map(|(setting, _)| setting).collect();
            if let [_, rest @ ..] = settings.as_mut_slice() {
                rest.sort_by_key(|setting| setting.key.to_ascii_lowercase());
            }
            Entry { line: index + 1, settings }
        });
        Union { file: ConfFile { entries: entries.collect(), faults: Vec::new() }, overrides: self.overrides }
    }
}

/// Merges two lists of options, sorted. Of two with the same name the second wins, and `lost` is called with both.
fn merge_options(first: &str, second: &str, mut lost: impl FnMut(&str, &str)) -> String {
    let mut options: BTreeMap<String, &str> = BTreeMap::new();
    let name = |option: &str| option.split('=').next().unwrap_or_default().to_ascii_lowercase();
    for option in first.split(',').filter(|option| !option.is_empty()) {
        options.insert(name(option), option);
    }
    for option in second.split(',').filter(|option| !option.is_empty()) {
        if let Some(old) = options.insert(name(option), option).filter(|old| *old != option) {
            lost(old, option);
        }
    }
    options.into_values().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
