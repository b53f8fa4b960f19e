//! One host: text, and the number at its end.

use std::cmp::Ordering;

use super::{MAX_RANGE, push_number};

/// Maximum digits of a number, which always fit into 64 bits; a name with more is text without a number.
pub(super) const MAX_DIGITS: usize = 18;

/// A host name, split before the digits at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host<'a> {
    pub prefix: &'a str,
    /// Number of digits; leading zeros distinguish `a1` from `a01`.
    pub digits: usize,
    pub number: u64,
}

impl<'a> Host<'a> {
    pub fn split(name: &'a str) -> Self {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        if digits == 0 || digits > MAX_DIGITS {
            return Self { prefix: name, digits: 0, number: 0 };
        }
        let (prefix, tail) = name.split_at(name.len() - digits);
        Self { prefix, digits, number: tail.parse().unwrap_or_default() }
    }

    pub(super) fn span(&self) -> Span {
        Span { digits: self.digits, low: self.number, high: self.number }
    }
}

/// Numbers with the same count of digits; `digits` 0 is the bare prefix.
///
/// The order is Slurm's: fewer digits first, then the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) digits: usize,
    pub(super) low: u64,
    pub(super) high: u64,
}

impl Span {
    pub(super) fn count(self) -> u64 {
        self.high - self.low + 1
    }

    /// True if none of its numbers has leading zeros.
    fn is_unpadded(self) -> bool {
        self.digits < 2 || self.low >= POWERS[self.digits - 1]
    }
}

/// Powers of ten: the smallest number with one digit more than the index.
const POWERS: [u64; MAX_DIGITS + 1] = {
    let mut powers = [1; MAX_DIGITS + 1];
    let mut index = 1;
    while index < powers.len() {
        powers[index] = powers[index - 1] * 10;
        index += 1;
    }
    powers
};

/// Splits the range from `low` to `high`, with at least `width` digits each, into consecutive spans.
pub(super) fn spans(low: u64, high: u64, width: usize) -> impl Iterator<Item = Span> {
    let mut next = Some(low);
    std::iter::from_fn(move || {
        let low = next.filter(|low| *low <= high)?;
        let digits = width.max(low.checked_ilog10().map_or(1, |log| log as usize + 1));
        let high = POWERS.get(digits).map_or(high, |bound| high.min(bound - 1));
        next = high.checked_add(1);
        Some(Span { digits, low, high })
    })
}

/// Slurm's order of prefixes: numbers inside count as numbers, so that `a9b` comes before `a10b`; one with a leading zero is compared digit by digit,
/// as after a decimal point.
pub(super) fn natural(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left.as_bytes(), right.as_bytes());
    while let (Some(a), Some(b)) = (left.first(), right.first()) {
        if a.is_ascii_digit() && b.is_ascii_digit() {
            let run = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (one, two) = (run(left), run(right));
            let longer = if *a == b'0' || *b == b'0' { Ordering::Equal } else { one.cmp(&two) };
            let order = longer.then_with(|| left[..one].cmp(&right[..two]));
            if order != Ordering::Equal {
                return order;
            }
            (left, right) = (&left[one..], &right[two..]);
        } else if a == b {
            (left, right) = (&left[1..], &right[1..]);
        } else {
            return a.cmp(b);
        }
    }
    left.len().cmp(&right.len())
}

/// A range being written; `last` is its last span.
#[derive(Clone, Copy)]
struct Open {
    low: u64,
    width: usize,
    last: Span,
}

impl Open {
    fn new(span: Span) -> Self {
        Self { low: span.low, width: span.digits, last: span }
    }

    /// Adds a span that continues this range: `9` and `10`, `09` and `10`, not `9` and `09`.
    ///
    /// Returns the rest that does not fit: Slurm refuses to read a range longer than [`MAX_RANGE`].
    fn join(&mut self, next: Span) -> Option<Span> {
        let written_alike = next.digits == self.last.digits || (next.digits == self.last.digits + 1 && next.is_unpadded());
        let room = MAX_RANGE - (self.last.high - self.low + 1);
        if next.low != self.last.high + 1 || !written_alike || room == 0 {
            return Some(next);
        }
        let taken = next.count().min(room);
        self.last = Span { high: next.low + taken - 1, ..next };
        (taken < next.count()).then_some(Span { low: next.low + taken, ..next })
    }
}

/// Writes spans in the given order as one expression; consecutive spans of one prefix share a bracket.
pub(super) fn write_spans<'a>(spans: impl Iterator<Item = (&'a str, Span)>) -> String {
    let mut text = String::new();
    let mut group: Option<(&str, Vec<Open>)> = None;
    for (prefix, span) in spans {
        let same = group.as_ref().is_some_and(|(open, _)| *open == prefix) && span.digits > 0;
        if !same {
            if let Some((prefix, ranges)) = group.take() {
                write_group(&mut text, prefix, &ranges);
            }
            if span.digits == 0 {
                write_group(&mut text, prefix, &[]);
                continue;
            }
        }
        let (_, ranges) = group.get_or_insert_with(|| (prefix, Vec::new()));
        let mut left = match ranges.last_mut() {
            Some(open) => open.join(span),
            None => Some(span),
        };
        while let Some(span) = left {
            let taken = span.count().min(MAX_RANGE);
            ranges.push(Open::new(Span { high: span.low + taken - 1, ..span }));
            left = (taken < span.count()).then_some(Span { low: span.low + taken, ..span });
        }
    }
    if let Some((prefix, ranges)) = group {
        write_group(&mut text, prefix, &ranges);
    }
    text
}

/// `prefix` alone, `prefix7`, or `prefix[1-3,7]`.
fn write_group(text: &mut String, prefix: &str, ranges: &[Open]) {
    if !text.is_empty() {
        text.push(',');
    }
    text.push_str(prefix);
    let brackets = match ranges {
        [] => return,
        [only] => only.low != only.last.high,
        _ => true,
    };
    for (index, Open { low, width, last }) in ranges.iter().enumerate() {
        if brackets {
            text.push(if index == 0 { '[' } else { ',' });
        }
        push_number(text, *low, *width);
        if *low != last.high {
            text.push('-');
            push_number(text, last.high, *width);
        }
    }
    if brackets {
        text.push(']');
    }
}
