//! `Key=Value` files as Slurm parses them: slurm.conf, slurmdbd.conf, cgroup.conf, gres.conf.
//!
//! Keys are case-insensitive. `#` starts a comment, even inside quotes. `\` at the end of a line joins the next; anywhere else it escapes the next
//! character (`\#` is a `#`). Values in double quotes may contain blanks. Parsing never fails: text that Slurm would refuse becomes a [`Fault`],
//! and only the settings before it on its line are kept.

use std::fmt;

/// A file, line by line, and its faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfFile {
    pub entries: Vec<Entry>,
    pub faults: Vec<Fault>,
}

/// One logical line: a key with its value and, if the key starts a record (`PartitionName`), the settings that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of its first physical line, from 1.
    pub line: usize,
    pub settings: Vec<Setting>,
}

/// A key as it was written, and its value without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub key: String,
    pub value: String,
}

/// Problem with a line as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub line: usize,
    pub kind: FaultKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No `Key=Value`; Slurm refuses the file.
    NotASetting(String),
    /// Slurm would read the named file in place of the line.
    Include(String),
    /// A quote that is opened and never closed: Slurm treats it as part of the value.
    OpenQuote(String),
    /// The last line ends with a `\` that joins it with nothing.
    ContinuedAtEnd,
    /// A comment right after a value, most likely meant to be part of it.
    Cut,
    /// A control character that no file should have; Slurm stops reading the line or keeps the character.
    Control(char),
}

impl Setting {
    /// True if this sets `key`, in any case.
    pub fn is(&self, key: &str) -> bool {
        self.key.eq_ignore_ascii_case(key)
    }
}

impl Entry {
    /// The first setting, which determines what the line is about.
    pub fn head(&self) -> &Setting {
        &self.settings[0]
    }

    /// The value of a setting on this line; the last one wins, as in Slurm.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.settings.iter().rev().find(|setting| setting.is(key)).map(|setting| setting.value.as_str())
    }
}

impl ConfFile {
    pub fn parse(text: &str) -> Self {
        let mut file = Self::default();
        for (line, text) in logical_lines(text, &mut file.faults) {
            file.read_line(line, &text);
        }
        file
    }

    fn read_line(&mut self, line: usize, text: &str) {
        let mut fault = |kind| self.faults.push(Fault { line, kind });
        if let Some(control) = text.chars().find(|character| character.is_control() && !is_blank(*character)) {
            fault(FaultKind::Control(control));
        }
        let mut rest = text.trim_matches(is_blank);
        let word = rest.split(is_blank).next().unwrap_or_default();
        if word.eq_ignore_ascii_case("include") && !rest[word.len()..].trim_start_matches(is_blank).starts_with('=') {
            fault(FaultKind::Include(rest[word.len()..].trim_matches(is_blank).to_owned()));
            return;
        }
        let mut settings = Vec::new();
        while !rest.is_empty() {
            let Some((setting, left)) = setting(rest) else {
                fault(FaultKind::NotASetting(rest.to_owned()));
                break;
            };
            if setting.value.starts_with('"') {
                fault(FaultKind::OpenQuote(setting.key.clone()));
            }
            settings.push(setting);
            rest = left.trim_start_matches(is_blank);
            if !rest.is_empty() && !is_record(&settings[0].key) {
                fault(FaultKind::NotASetting(rest.to_owned()));
                break;
            }
        }
        if !settings.is_empty() {
            self.entries.push(Entry { line, settings });
        }
    }

    /// All lines that start with this key.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.head().is(key))
    }

    /// The value that Slurm uses, which is the last one, and its line.
    pub fn last(&self, key: &str) -> Option<(usize, &str)> {
        let settings = self.entries.iter().flat_map(|entry| entry.settings.iter().map(move |setting| (entry, setting)));
        let mut plain = settings.filter(|(entry, setting)| setting.is(key) && (!is_record(&entry.head().key) || entry.head().is(key)));
        plain.next_back().map(|(entry, setting)| (entry.line, setting.value.as_str()))
    }
}

/// True for keys that start a record: the rest of the line belongs to it. Nothing may follow any other key.
pub fn is_record(key: &str) -> bool {
    // The last two start lines of gres.conf.
    ["NodeSet", "PartitionName", "DownNodes", "PowerAction", "NodeName", "Name", "AutoDetect"]
        .iter()
        .any(|record| record.eq_ignore_ascii_case(key))
}

/// Lines without comments, joined if one ends with `\`; empty ones are left out.
fn logical_lines(text: &str, faults: &mut Vec<Fault>) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let mut last = 0;
    for (index, physical) in text.split('\n').enumerate() {
        last = index + 1;
        let bare = match comment(physical) {
            Some(start) => {
                let before = &physical[..start];
                if before.contains('=') && !before.ends_with(is_blank) {
                    faults.push(Fault { line: last, kind: FaultKind::Cut });
                }
                before
            }
            None => physical,
        };
        let (line, mut joined) = open.take().unwrap_or((last, String::new()));
        if let Some(part) = continued(bare) {
            joined.push_str(part);
            open = Some((line, joined));
        } else {
            joined.push_str(bare);
            lines.push((line, joined));
        }
    }
    if let Some((line, joined)) = open {
        faults.push(Fault { line: last.min(line), kind: FaultKind::ContinuedAtEnd });
        lines.push((line, joined));
    }
    lines.retain(|(_, line)| !line.trim_matches(is_blank).is_empty());
    lines.into_iter().map(|(number, line)| (number, unescaped(&line))).collect()
}

/// Start of a line's comment: the first `#` that is not escaped.
fn comment(line: &str) -> Option<usize> {
    line.match_indices('#').map(|(start, _)| start).find(|start| !ends_escaped(&line[..*start]))
}

/// A line without the `\` that joins the next one to it, or `None` if there is none; blanks after the `\` are ignored.
fn continued(line: &str) -> Option<&str> {
    let line = line.trim_end_matches(is_blank);
    line.strip_suffix('\\').filter(|_| ends_escaped(line))
}

/// True if the text ends with a `\` that is not escaped itself.
fn ends_escaped(text: &str) -> bool {
    (text.len() - text.trim_end_matches('\\').len()) % 2 == 1
}

fn unescaped(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        out.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    out
}

/// Parses one `Key=Value` at the start of a text and returns it with the rest, or `None` if there is none.
fn setting(text: &str) -> Option<(Setting, &str)> {
    let end = text.find(|character: char| !(character.is_ascii_alphanumeric() || matches!(character, '_' | '.')))?;
    let (key, rest) = text.split_at(end);
    let rest = rest.trim_start_matches(is_blank).strip_prefix('=')?.trim_start_matches(is_blank);
    let quoted =
        rest.strip_prefix('"').and_then(|rest| rest.split_once('"')).filter(|(_, left)| left.is_empty() || left.starts_with(is_blank));
    let (value, left) = match quoted {
        Some(parts) => parts,
        None => rest.split_at(rest.find(is_blank).unwrap_or(rest.len())),
    };
    if key.is_empty() || (value.is_empty() && quoted.is_none()) {
        return None;
    }
    Some((Setting { key: key.to_owned(), value: value.to_owned() }, left))
}

/// True for a blank as C's `isspace` defines it.
pub(crate) fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value } = self;
        let quoted = value.is_empty() || value.contains(is_blank);
        let value = value.replace('\\', "\\\\").replace('#', "\\#");
        if quoted { write!(out, "{key}=\"{value}\"") } else { write!(out, "{key}={value}") }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, setting) in self.settings.iter().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            write!(out, "{blank}{setting}")?;
        }
        Ok(())
    }
}

/// Only the settings, one line each, without comments and faults.
impl fmt::Display for ConfFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(out, "{entry}"))
    }
}

#[cfg(test)]
mod tests;
