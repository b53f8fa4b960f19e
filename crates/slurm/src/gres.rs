//! Generic resources (GRES): resources of a node besides processors and memory, such as GPUs.
//!
//! `tests/corpus/gres.tsv` holds texts and the result of a real slurmd 26.05 for each.

use std::fmt;

use crate::{
    conf_check::file::ConfFile,
    name::{excerpt, spoken},
};

mod conf;

pub use conf::{Detection, GresConf};

/// An amount of one resource, and of one type if it has types: `gpu:a100:4`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gres {
    pub name: String,
    /// Slurm calls it the type.
    pub kind: Option<String>,
    pub count: u64,
}

/// Text that is not a list of resources: the problem and the fix, to follow the name of a field.
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

/// Parses resources separated by commas, as users write them in `Gres=` and as Slurm reports them: `gpu:a100:4(S:0-1),shard:8`. Counts of the same
/// name and type are added up, as in Slurm.
///
/// Fails on what Slurm rejects, on a resource with and without a type, because slurmd does not start with both, and on two types in one entry,
/// because Slurm makes two resources of it.
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

/// True if Slurm reports no resources.
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

/// Parses digits, with `K`, `M`, `G`, `T` or `P` for powers of 1024, and a `B` after it for powers of 1000.
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
    // Slurm has the same limit.
    Ok(number.saturating_mul(factor).min(i64::MAX.unsigned_abs()))
}

/// A part without the sockets and indexes that Slurm appends: `2(S:0-1)`, `1(IDX:0)`.
fn without_place(part: &str) -> &str {
    match part.find('(') {
        Some(start) if !is_none(part) => &part[..start],
        _ => part,
    }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
}

/// Splits at `separator`, except inside parentheses.
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

/// GRES settings in slurmctld's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// `GresTypes` of slurm.conf: Slurm ignores resources that are not listed.
    pub types: Vec<String>,
    pub conf: GresConf,
}

impl Setup {
    /// Reads slurm.conf, and gres.conf if there is one. Never fails: [`crate::conf_check::check`] reports errors in the files.
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
