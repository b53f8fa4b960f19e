//! Generic resources (GRES): what a node has beside processors and memory, such as GPUs.
//!
//! `tests/corpus/gres.tsv` holds texts and what a real slurmd 26.05 made of each.

use std::fmt;

use crate::{
    conf_check::file::ConfFile,
    name::{excerpt, spoken},
};

mod conf;

pub use conf::{Detection, GresConf};

/// So many of one resource, and of one type where it has types: `gpu:a100:4`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gres {
    pub name: String,
    /// Slurm calls it the type.
    pub kind: Option<String>,
    pub count: u64,
}

/// Text that is no list of resources: what is wrong and what to do, to follow the name of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotGres(String);

impl fmt::Display for NotGres {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for NotGres {}

impl fmt::Display for Gres {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, count } = self;
        match kind {
            Some(kind) => write!(out, "{name}:{kind}:{count}"),
            None => write!(out, "{name}:{count}"),
        }
    }
}

/// Resources between commas, as users write them in `Gres=` and as Slurm answers: `gpu:a100:4(S:0-1),shard:8`. Those with the same name and type
/// are added up, as Slurm does.
///
/// Fails on what Slurm calls bad, on a resource with and without a type, with which slurmd does not start, and on two types in one entry, of
/// which Slurm makes two resources.
pub fn parse(text: &str) -> Result<Vec<Gres>, NotGres> {
    let mut all: Vec<Gres> = Vec::new();
    if is_none(text) {
        return Ok(all);
    }
    for entry in split(text, ',').into_iter().filter(|entry| !entry.is_empty()) {
        let found = parse_entry(entry)?;
        if let Some(other) = all.iter().find(|known| known.name == found.name && known.kind.is_some() != found.kind.is_some()) {
            let name = excerpt(&other.name);
            return Err(NotGres(format!(
                "has `{name}` with a type and without one, and slurmd starts with neither: give each a type, or none"
            )));
        }
        match all.iter_mut().find(|known| known.name == found.name && known.kind == found.kind) {
            Some(known) => known.count = known.count.saturating_add(found.count),
            None => all.push(found),
        }
    }
    Ok(all)
}

/// What Slurm answers where there is nothing.
fn is_none(text: &str) -> bool {
    ["", "(null)", "N/A"].contains(&text.trim())
}

fn parse_entry(entry: &str) -> Result<Gres, NotGres> {
    let mut parts = split(entry, ':').into_iter();
    let name = parts.next().map(without_place).unwrap_or_default();
    if let Some(character) = name.chars().find(|character| !is_plain(*character)) {
        return Err(NotGres(format!("has `{}` with {} in a name: leave it out", excerpt(entry), spoken(character))));
    }
    if name.is_empty() {
        return Err(NotGres(format!("has `{}` without a name: write it like `gpu:2`", excerpt(entry))));
    }
    let rest: Vec<&str> = parts.map(without_place).collect();
    // Only the last part can be a count; a number before it is a type.
    let (count, kinds) = match rest.split_last() {
        Some((last, kinds)) if last.starts_with(|first: char| first.is_ascii_digit()) => (parse_count(last, entry)?, kinds),
        _ => (1, rest.as_slice()),
    };
    let mut kinds = kinds.iter().filter(|kind| !kind.is_empty() && !is_none(kind) && !kind.eq_ignore_ascii_case("no_consume"));
    let kind = kinds.next().map(|kind| (*kind).to_owned());
    if kinds.next().is_some() {
        return Err(NotGres(format!("has `{}` with two types: write one entry for each", excerpt(entry))));
    }
    Ok(Gres { name: name.to_owned(), kind, count })
}

/// Digits, and `K`, `M`, `G`, `T` or `P` for powers of 1024, with a `B` for powers of 1000.
fn parse_count(text: &str, entry: &str) -> Result<u64, NotGres> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let bad = || NotGres(format!("has `{}`, whose count is no number: write digits, with K, M, G, T or P behind them", excerpt(entry)));
    let suffix = suffix.to_ascii_lowercase();
    let (letter, base) = match suffix.get(1..) {
        None => ("", 1),
        Some("" | "ib") => (&suffix[..1], 1024),
        Some("b") => (&suffix[..1], 1000),
        Some(_) => return Err(bad()),
    };
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|known| *known == letter).ok_or_else(bad)?;
    let factor = (0..power).fold(1_u64, |factor, _| factor.saturating_mul(base));
    let number = digits.parse::<u64>().unwrap_or(u64::MAX);
    // Slurm stops there too.
    Ok(number.saturating_mul(factor).min(i64::MAX.unsigned_abs()))
}

/// A part without what Slurm writes behind it about sockets and indexes: `2(S:0-1)`, `1(IDX:0)`.
fn without_place(part: &str) -> &str {
    match part.find('(') {
        Some(start) if !is_none(part) => &part[..start],
        _ => part,
    }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
}

/// The parts between `separator`, but not inside parentheses.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if character == separator && depth == 0 => {
                parts.push(text[start..index].trim());
                start = index + character.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// What the files of slurmctld say about GRES.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// `GresTypes` of slurm.conf: what is not among them Slurm ignores.
    pub types: Vec<String>,
    pub conf: GresConf,
}

impl Setup {
    /// Reads slurm.conf, and gres.conf where there is one. Never fails: what is wrong with the files is found by [`crate::conf_check::check`].
    pub fn read(slurm_conf: &str, gres_conf: Option<&str>) -> Self {
        let file = ConfFile::parse(slurm_conf);
        let types = file.last("GresTypes").map_or("", |(_, types)| types);
        Self {
            types: types.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            conf: gres_conf.map(GresConf::parse).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
