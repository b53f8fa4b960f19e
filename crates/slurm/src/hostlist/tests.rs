//! Expansion of expressions, and their output.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rstest::rstest;

use super::*;

/// A line of the corpus: an expression and scontrol's output.
struct Line {
    expression: String,
    /// Names, the list of them, the sorted list without duplicates; `None` if scontrol refused.
    answer: Option<[&'static str; 3]>,
    narrower: bool,
}

fn corpus() -> Vec<Line> {
    let lines = include_str!("../../tests/corpus/hostlist.tsv").lines().filter(|line| !line.starts_with('#'));
    let lines = lines.map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        let answer = if fields[1].starts_with('!') { None } else { Some([fields[1], fields[2], fields[3]]) };
        let expression = fields[0].replace("\\t", "\t").replace("\\n", "\n");
        Line { expression, answer, narrower: fields.last() == Some(&"narrower") }
    });
    lines.collect()
}

#[test]
fn lists_are_read_and_written_as_scontrol_does() {
    let mut read = 0;
    for Line { expression, answer, narrower } in corpus() {
        match (Hostlist::parse(&expression), answer) {
            (Ok(list), Some([names, written, sorted])) => {
                read += 1;
                let ours: Vec<String> = list.names().collect();
                assert_eq!(ours.join(" "), names, "{expression}");
                assert_eq!(list.count(), ours.len() as u128, "{expression}");
                assert_eq!(compress(ours.iter().map(String::as_str)), written, "{expression}");
                assert_eq!(list.to_set(10_000).unwrap().to_string(), sorted, "{expression}");
            }
            (Ok(_), None) => panic!("scontrol refuses {expression}"),
            (Err(why), Some(_)) => assert!(narrower, "scontrol takes it: {why}"),
            (Err(_), None) => {}
        }
    }
    assert!(read > 400, "{read}");
}

#[rstest]
#[case("a[0-99999999999]", "more than 65536 hosts")]
#[case("a[0-65536]", "more than 65536 hosts")]
#[case("a[3-1]", "runs backwards")]
#[case("a[1", "never closed")]
#[case("a[[1-2]]", "is no range")]
#[case("a]", "it has `]`")]
#[case("a99999999999999999999", "has 20 digits")]
#[case("-a", "starts with a mark")]
#[case("a[1-2],é", "it has `é`")]
fn a_refusal_says_what_is_wrong(#[case] text: &str, #[case] words: &str) {
    let told = Hostlist::parse(text).unwrap_err().to_string();
    assert!(told.contains(words) && !told.contains('\n'), "{told}");
}

#[test]
fn billions_of_hosts_are_counted_and_read_from_the_front_but_never_held() {
    let list = Hostlist::parse(&format!("a{}", "[1-65536]".repeat(7))).unwrap();
    assert_eq!(list.count(), 1 << 112);
    assert_eq!(list.names().nth(1).as_deref(), Some("a1111112"));
    let refused = list.to_set(1 << 20).unwrap_err().to_string();
    assert!(refused.contains("5192296858534827628530496329220096 hosts; name at most 1048576"), "{refused}");
    let endless = Hostlist::parse(&format!("a{}", "[1-65536]".repeat(50))).unwrap();
    assert_eq!(endless.count(), u128::MAX);
    assert!(Hostlist::parse(&"a,".repeat(MAX_TEXT)).is_err());
}

#[test]
fn a_hundred_thousand_names_are_a_few_spans() {
    let names: Vec<String> = (0..100_000).map(|number| format!("node-{}", (number * 7919) % 100_000)).collect();
    let set: HostSet = names.iter().map(String::as_str).collect();
    assert_eq!(set.len(), 100_000);
    assert_eq!(set.to_string(), "node-[0-65535,65536-99999]");
    assert_eq!(Hostlist::parse(&set.to_string()).unwrap().to_set(100_000).unwrap(), set);
}

fn names() -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::btree_set("[ab]-?([0-9]|0[0-9]|1[0-2]|09[89]|10[01])?x?", 0..30)
}

fn set(names: &BTreeSet<String>) -> HostSet {
    names.iter().map(String::as_str).collect()
}

fn unfold(set: &HostSet) -> BTreeSet<String> {
    set.names().collect()
}

proptest! {
    #[test]
    fn a_set_is_what_it_was_made_of(names in names()) {
        let set = set(&names);
        prop_assert_eq!(&unfold(&set), &names);
        prop_assert_eq!(set.len(), names.len() as u64);
        prop_assert!(names.iter().all(|name| set.contains(name)));
        let read = Hostlist::parse(&set.to_string()).unwrap().to_set(1000).unwrap();
        prop_assert_eq!(read, set);
    }

    #[test]
    fn algebra_is_that_of_plain_sets(left in names(), right in names()) {
        let (a, b) = (set(&left), set(&right));
        prop_assert_eq!(unfold(&a.union(&b)), left.union(&right).cloned().collect::<BTreeSet<_>>());
        prop_assert_eq!(unfold(&a.intersection(&b)), left.intersection(&right).cloned().collect::<BTreeSet<_>>());
        prop_assert_eq!(unfold(&a.difference(&b)), left.difference(&right).cloned().collect::<BTreeSet<_>>());
        prop_assert!(right.iter().all(|name| a.contains(name) == left.contains(name)));
        prop_assert_eq!(a.union(&b), b.union(&a));
    }

    #[test]
    fn ranges_obey_the_same_algebra(low in 0_u64..300, length in 0_u64..300, cut in 0_u64..300, width in 1_usize..4) {
        let all = Hostlist::parse(&format!("a[{low:0width$}-{}]", low + length)).unwrap().to_set(1000).unwrap();
        let hole: HostSet = [format!("a{cut:0width$}")].iter().map(String::as_str).collect();
        let rest = all.difference(&hole);
        prop_assert_eq!(&rest.union(&all.intersection(&hole)), &all);
        prop_assert_eq!(unfold(&rest), all.names().filter(|name| !hole.contains(name)).collect::<BTreeSet<_>>());
    }

    #[test]
    fn no_text_makes_it_panic_and_what_is_read_is_written_back(text in r"[ab01\[\],\- x9é]{0,24}") {
        if let Ok(list) = Hostlist::parse(&text) {
            prop_assert_eq!(&Hostlist::parse(&list.to_string()).unwrap(), &list);
            let names: Vec<String> = list.names().take(50).collect();
            prop_assert_eq!(names.len() as u128, list.count().min(50));
        }
    }

    #[test]
    fn any_text_at_all_is_read_or_refused(text in any::<String>()) {
        let _ = Hostlist::parse(&text);
    }
}
