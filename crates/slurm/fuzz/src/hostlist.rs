//! Host lists: one or two expressions.

use std::collections::BTreeSet;

use slipway_slurm::hostlist::{HostSet, Hostlist, compress};

/// Maximum number of names to expand from one list.
const NAMES: usize = 2048;
/// More digits at the end of a name than an expression may have. Adjacent brackets can make such names.
const MANY_DIGITS: usize = 19;

pub fn run(data: &[u8]) {
    let parts = super::parts(data);
    let sets: Vec<HostSet> = parts.iter().take(2).filter_map(|text| one(text)).collect();
    if let [left, right] = sets.as_slice() {
        algebra(left, right);
    }
}

fn one(text: &str) -> Option<HostSet> {
    let list = Hostlist::parse(text).ok()?;
    assert_eq!(Hostlist::parse(&list.to_string()).as_ref(), Ok(&list), "a list reads as it was written");
    let names: Vec<String> = list.names().take(NAMES).collect();
    assert_eq!(names.len() as u128, list.count().min(NAMES as u128), "as many names as were counted");
    let written = compress(names.iter().map(String::as_str));
    match Hostlist::parse(&written) {
        Ok(again) => assert!(again.names().eq(names.iter().cloned()), "`{written}` stands for other names"),
        Err(why) => assert!(names.iter().any(|name| has_many_digits(name)), "{why}"),
    }
    let set = list.to_set(NAMES).ok()?;
    assert_eq!(set.names().collect::<BTreeSet<_>>(), names.iter().cloned().collect(), "a set has the list's names");
    assert_eq!(set.len(), names.iter().collect::<BTreeSet<_>>().len() as u64, "each once");
    assert!(names.iter().all(|name| set.contains(name)), "and knows them");
    if !names.iter().any(|name| has_many_digits(name)) {
        let read = Hostlist::parse(&set.to_string()).and_then(|list| list.to_set(NAMES));
        assert_eq!(read.as_ref(), Ok(&set), "a set reads as it was written");
    }
    Some(set)
}

fn algebra(left: &HostSet, right: &HostSet) {
    let names = |set: &HostSet| set.names().collect::<BTreeSet<_>>();
    let (one, other) = (names(left), names(right));
    assert_eq!(names(&left.union(right)), one.union(&other).cloned().collect());
    assert_eq!(names(&left.intersection(right)), one.intersection(&other).cloned().collect());
    assert_eq!(names(&left.difference(right)), one.difference(&other).cloned().collect());
}

fn has_many_digits(name: &str) -> bool {
    name.bytes().rev().take_while(u8::is_ascii_digit).count() >= MANY_DIGITS
}
