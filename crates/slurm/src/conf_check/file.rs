//! `Key=Value` files as Slurm reads them: slurm.conf, slurmdbd.conf, cgroup.conf, gres.conf.
//!
//! Keys without regard to case, `#` to the end of the line also inside quotes, `\` at the end of a line joins the next and anywhere else
//! takes the meaning from what follows (`\#` is a `#`), values in double quotes may hold blanks. Reading never fails: what Slurm would refuse becomes an [`Entry`] without settings and a fault.

use std::fmt;

/// A file, line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfFile {
    pub entries: Vec<Entry>,
    pub faults: Vec<Fault>,
}

/// One logical line: a key and its value and, where the key starts a record (`PartitionName`), those that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Of its first physical line, from 1.
    pub line: usize,
    pub settings: Vec<Setting>,
}

/// A key as it was written, and its value without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub key: String,
    pub value: String,
}

/// What is wrong with a line as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub line: usize,
    pub kind: FaultKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No `Key=Value`; Slurm refuses the file.
    NotASetting(String),
    /// The named file would be read in place of the line.
    Include(String),
    /// A quote that is opened and never closed: Slurm takes it as a part of the value.
    OpenQuote(String),
    /// A line joined with nothing.
    ContinuedAtEnd,
    /// A comment that starts right behind a value, and was most likely meant to be a part of it.
    Cut,
    /// A character that no file should have; Slurm stops reading the line or takes it as it is.
    Control(char),
}

impl Setting {
    /// Whether this is the setting of `key`, however it is spelt.
    pub fn is(&self, key: &str) -> bool {
        self.key.eq_ignore_ascii_case(key)
    }
}

impl Entry {
    /// The setting that says what the line is about.
    pub fn head(&self) -> &Setting {
        &self.settings[0]
    }

    /// The value of a setting on this line; of two the last, as in Slurm.
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

    /// Every setting that heads a line with this key, with its line.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.head().is(key))
    }

    /// The value that Slurm uses: the last one.
    pub fn last(&self, key: &str) -> Option<(usize, &str)> {
        let settings = self.entries.iter().flat_map(|entry| entry.settings.iter().map(move |setting| (entry, setting)));
        let mut plain = settings.filter(|(entry, setting)| setting.is(key) && (!is_record(&entry.head().key) || entry.head().is(key)));
        plain.next_back().map(|(entry, setting)| (entry.line, setting.value.as_str()))
    }
}

/// Keys whose line is a record of its own: what follows on the line belongs to it. Nothing may follow any other key.
pub fn is_record(key: &str) -> bool {
    // The last two head the lines of gres.conf.
    ["NodeSet", "PartitionName", "DownNodes", "PowerAction", "NodeName", "Name", "AutoDetect"]
        .iter()
        .any(|record| record.eq_ignore_ascii_case(key))
}

/// Lines without comments, joined where one ends with `\`; empty ones left out.
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

/// Where the comment of a line starts: at the first `#` that no `\` is for.
fn comment(line: &str) -> Option<usize> {
    line.match_indices('#').map(|(start, _)| start).find(|start| !ends_escaped(&line[..*start]))
}

/// A line without the `\` that joins the next one to it; blanks behind that do no harm.
fn continued(line: &str) -> Option<&str> {
    let line = line.trim_end_matches(is_blank);
    line.strip_suffix('\\').filter(|_| ends_escaped(line))
}

/// Whether the last of the `\` at the end of a text is for what comes next, and not for another one.
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

/// Reads one `Key=Value` at the start of a text and returns it with what is left; `None` where there is none.
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

/// What C's `isspace` takes for a blank.
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

/// The settings alone, one line each; comments and faults are gone.
impl fmt::Display for ConfFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.iter().try_for_each(|entry| writeln!(out, "{entry}"))
    }
}

#[cfg(test)]
mod tests;
