//! Host lists in Slurm's notation: `a[1-3,07],b[1-2]-x[1-2]`.
//!
//! [`Hostlist`] is such an expression: ordered, with duplicates, expanded lazily. [`HostSet`] serves set operations and output. Both agree with
//! `scontrol show hostnames`, `hostlist` and `hostlistsorted` of 26.05 on the corpus in `tests/corpus`. Slurm accepts some texts and makes odd names
//! of them (nested brackets, blanks in brackets, numbers beyond 64 bits). This grammar refuses those; the corpus marks their lines.

use std::fmt;

pub use name::Host;
pub use set::HostSet;

mod name;
mod parse;
mod set;

/// Slurm's limit on one range: `a[1-65536]` is accepted, `a[0-65536]` is refused.
pub const MAX_RANGE: u64 = 65_536;

/// Maximum length of an expression: that of the longest file that may contain one.
pub const MAX_TEXT: usize = 1 << 20;

/// A refused expression: the problem, its location and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAHostlist {
    text: String,
    problem: String,
    remedy: String,
    taken_by_slurm: bool,
}

impl fmt::Display for NotAHostlist {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, problem, remedy, .. } = self;
        write!(out, "`{text}` is no list of hosts: {problem}; {remedy}")
    }
}

impl std::error::Error for NotAHostlist {}

impl NotAHostlist {
    fn new(text: &str, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { text: crate::name::excerpt(text), problem: problem.into(), remedy: remedy.into(), taken_by_slurm: false }
    }

    /// Sets if Slurm accepts the text, as something other than what was written.
    fn but_taken_by_slurm(self, taken_by_slurm: bool) -> Self {
        Self { taken_by_slurm, ..self }
    }

    /// True if Slurm is known to accept this, as other names than those written. Other errors in the text are not checked.
    pub fn is_taken_by_slurm(&self) -> bool {
        self.taken_by_slurm
    }
}

/// A parsed expression. Its memory depends on the length of its text, not on the number of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hostlist {
    patterns: Vec<Pattern>,
}

/// One element between commas: alternating text and brackets, and text at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    brackets: Vec<Bracket>,
    suffix: String,
}

/// A bracket and the text before it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bracket {
    text: String,
    /// At least one.
    ranges: Vec<Range>,
    /// Number of numbers up to the end of each range.
    ends: Vec<u64>,
}

/// Numbers written with at least `width` digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    low: u64,
    high: u64,
    width: usize,
}

impl Range {
    fn count(self) -> u64 {
        self.high - self.low + 1
    }
}

/// Appends a number with at least `width` digits.
fn push_number(text: &mut String, number: u64, width: usize) {
    use fmt::Write;
    // Writing to a String cannot fail.
    let _ = write!(text, "{number:0width$}");
}

impl Hostlist {
    /// Parses an expression; elements are separated by commas or blanks, empty ones are skipped, as in Slurm.
    ///
    /// Fails on what Slurm refuses and on what it would turn into other names than those written.
    pub fn parse(text: &str) -> Result<Self, NotAHostlist> {
        parse::patterns(text).map(|patterns| Self { patterns })
    }

    /// Number of names in the expression, including duplicates; saturates instead of overflowing.
    pub fn count(&self) -> u128 {
        self.patterns.iter().fold(0, |sum: u128, pattern| sum.saturating_add(pattern.count()))
    }

    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The names in Slurm's order, generated one at a time.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.patterns.iter().flat_map(|pattern| (0..pattern.count()).map(|index| pattern.name(index)))
    }

    /// The hosts as a set. Fails if there are more than `limit` names.
    pub fn to_set(&self, limit: usize) -> Result<HostSet, NotAHostlist> {
        let count = self.count();
        if count > limit as u128 {
            let shown = self.patterns.first().map(ToString::to_string).unwrap_or_default();
            return Err(
                NotAHostlist::new(&shown, format!("it stands for {count} hosts"), format!("name at most {limit}")).but_taken_by_slurm(true)
            );
        }
        let mut set = set::Builder::default();
        for pattern in &self.patterns {
            match pattern.brackets.as_slice() {
                [Bracket { text, ranges, .. }] if pattern.suffix.is_empty() && !text.ends_with(|last: char| last.is_ascii_digit()) => {
                    for range in ranges {
                        set.add_range(text, *range);
                    }
                }
                _ => (0..pattern.count()).for_each(|index| set.add(&pattern.name(index))),
            }
        }
        Ok(set.build())
    }
}

impl Pattern {
    fn count(&self) -> u128 {
        self.brackets.iter().map(|bracket| bracket.size().into()).fold(1, u128::saturating_mul)
    }

    /// The name at `index`. Slurm counts the last bracket fastest and, among the others, the first fastest.
    fn name(&self, index: u128) -> String {
        let mut numbers = vec![(0, 0); self.brackets.len()];
        let mut left = index;
        let last = self.brackets.len().saturating_sub(1);
        for place in self.brackets.len().checked_sub(1).into_iter().chain(0..last) {
            let size = u128::from(self.brackets[place].size());
            numbers[place] = self.brackets[place].number(left % size);
            left /= size;
        }
        let mut name = String::new();
        for (bracket, (number, width)) in self.brackets.iter().zip(numbers) {
            name.push_str(&bracket.text);
            push_number(&mut name, number, width);
        }
        name.push_str(&self.suffix);
        name
    }
}

impl Bracket {
    fn new(text: &str, ranges: Vec<Range>) -> Self {
        let mut end = 0;
        let ends = ranges.iter().map(|range| {
            end += range.count();
            end
        });
        Self { text: text.to_owned(), ends: ends.collect(), ranges }
    }

    /// Number of numbers; never 0, because a bracket has a range, and a range has a number.
    fn size(&self) -> u64 {
        self.ends.last().copied().unwrap_or(1)
    }

    /// The number at an index below the size, and its width.
    fn number(&self, index: u128) -> (u64, usize) {
        let place = self.ends.partition_point(|end| u128::from(*end) <= index);
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        let offset = u64::try_from(index).unwrap_or_default() - start;
        self.ranges.get(place).map_or((0, 0), |range| (range.low + offset, range.width))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Bracket { text, ranges, .. } in &self.brackets {
            write!(out, "{text}[")?;
            for (index, Range { low, high, width }) in ranges.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                if low == high { write!(out, "{comma}{low:0width$}")? } else { write!(out, "{comma}{low:0width$}-{high:0width$}")? }
            }
            out.write_str("]")?;
        }
        out.write_str(&self.suffix)
    }
}

/// The expression in normalized notation.
impl fmt::Display for Hostlist {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, pattern) in self.patterns.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(out, "{comma}{pattern}")?;
        }
        Ok(())
    }
}

/// Joins names in the given order into one expression, like `scontrol show hostlist`: neighbors are joined, nothing is sorted and nothing dropped.
/// Invalid names stay as they are.
pub fn compress<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    name::write_spans(names.into_iter().map(|name| {
        let host = Host::split(name);
        (host.prefix, host.span())
    }))
}

#[cfg(test)]
mod tests;
