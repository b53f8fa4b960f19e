//! Set of hosts: sorted, without duplicates, and compact for regular names.

use std::collections::BTreeMap;
use std::fmt;

use super::{
    Host, Range,
    name::{Span, natural, spans, write_spans},
    push_number,
};

/// Hosts without order or duplicates. Memory depends on the number of gaps, not of hosts.
///
/// Its text is the output of `scontrol show hostlistsorted`, except for a run of more than [`super::MAX_RANGE`] hosts, which Slurm writes as one
/// range and then cannot read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSet {
    /// Spans are sorted, not adjacent, and never empty.
    hosts: BTreeMap<String, Vec<Span>>,
}

impl HostSet {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Number of hosts.
    pub fn len(&self) -> u64 {
        self.hosts.values().flatten().map(|span| span.count()).sum()
    }

    pub fn contains(&self, name: &str) -> bool {
        let host = Host::split(name);
        let Some(spans) = self.hosts.get(host.prefix) else { return false };
        let (digits, number) = (host.digits, host.number);
        let after = spans.partition_point(|span| (span.digits, span.low) <= (digits, number));
        after.checked_sub(1).is_some_and(|index| spans[index].digits == digits && number <= spans[index].high)
    }

    /// The names in Slurm's order.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.sorted().into_iter().flat_map(|(prefix, spans)| {
            spans.iter().flat_map(move |span| {
                (span.low..=span.high).map(move |number| {
                    let mut name = prefix.to_owned();
                    if span.digits > 0 {
                        push_number(&mut name, number, span.digits);
                    }
                    name
                })
            })
        })
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.combine(other, |left, right| merged(left.iter().chain(right).copied().collect()))
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |left, right| overlay(left, right, true))
    }

    /// Hosts that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |left, right| overlay(left, right, false))
    }

    /// Prefixes in Slurm's order, which differs from the map's.
    fn sorted(&self) -> Vec<(&str, &Vec<Span>)> {
        let mut hosts: Vec<_> = self.hosts.iter().map(|(prefix, spans)| (prefix.as_str(), spans)).collect();
        hosts.sort_by(|(left, _), (right, _)| natural(left, right));
        hosts
    }

    fn combine(&self, other: &Self, of: impl Fn(&[Span], &[Span]) -> Vec<Span>) -> Self {
        let mut hosts = BTreeMap::new();
        let mut keep = |prefix: &String, spans: Vec<Span>| {
            if !spans.is_empty() {
                hosts.insert(prefix.clone(), spans);
            }
        };
        for (prefix, spans) in &self.hosts {
            keep(prefix, of(spans, other.hosts.get(prefix).map_or(&[], Vec::as_slice)));
        }
        for (prefix, spans) in other.hosts.iter().filter(|(prefix, _)| !self.hosts.contains_key(*prefix)) {
            keep(prefix, of(&[], spans));
        }
        Self { hosts }
    }
}

impl<'a> FromIterator<&'a str> for HostSet {
    fn from_iter<T: IntoIterator<Item = &'a str>>(names: T) -> Self {
        let mut builder = Builder::default();
        names.into_iter().for_each(|name| builder.add(name));
        builder.build()
    }
}

/// The shortest expression that Slurm reads as these hosts.
impl fmt::Display for HostSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spans = self.sorted().into_iter().flat_map(|(prefix, spans)| spans.iter().map(move |span| (prefix, *span)));
        out.write_str(&write_spans(spans))
    }
}

/// Collects spans in any order and builds the set at the end: one sort instead of one search for each host.
#[derive(Default)]
pub(super) struct Builder {
    hosts: BTreeMap<String, Vec<Span>>,
}

impl Builder {
    pub(super) fn add(&mut self, name: &str) {
        let host = Host::split(name);
        self.extend(host.prefix, std::iter::once(host.span()));
    }

    pub(super) fn add_range(&mut self, prefix: &str, range: Range) {
        self.extend(prefix, spans(range.low, range.high, range.width));
    }

    pub(super) fn build(self) -> HostSet {
        HostSet { hosts: self.hosts.into_iter().map(|(prefix, spans)| (prefix, merged(spans))).collect() }
    }

    /// Looks up a prefix before inserting it, so that it is copied once and not once for each host.
    fn extend(&mut self, prefix: &str, spans: impl Iterator<Item = Span>) {
        match self.hosts.get_mut(prefix) {
            Some(known) => known.extend(spans),
            None => drop(self.hosts.insert(prefix.to_owned(), spans.collect())),
        }
    }
}

/// Sorts spans and joins those that touch.
fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    spans.dedup_by(|next, last| {
        let touches = next.digits == last.digits && next.low <= last.high.saturating_add(1);
        if touches {
            last.high = last.high.max(next.high);
        }
        touches
    });
    spans
}

/// The parts of `left` that lie inside (`keep_inside`) or outside of `right`.
fn overlay(left: &[Span], right: &[Span], keep_inside: bool) -> Vec<Span> {
    let mut parts = Vec::new();
    let mut covers = right.iter().copied().peekable();
    for span in left {
        // A span that ends before this one cannot touch a later one either.
        while covers.next_if(|cover| (cover.digits, cover.high) < (span.digits, span.low)).is_some() {}
        let mut low = Some(span.low);
        let mut next = covers.clone();
        while let (Some(from), Some(cover)) = (low, next.next_if(|cover| (cover.digits, cover.low) <= (span.digits, span.high))) {
            let (inside_low, inside_high) = (cover.low.max(from), cover.high.min(span.high));
            if keep_inside {
                parts.push(Span { low: inside_low, high: inside_high, ..*span });
            } else if from < inside_low {
                parts.push(Span { low: from, high: inside_low - 1, ..*span });
            }
            low = inside_high.checked_add(1).filter(|low| *low <= span.high);
        }
        if let Some(low) = low.filter(|_| !keep_inside) {
            parts.push(Span { low, high: span.high, ..*span });
        }
    }
    parts
}
