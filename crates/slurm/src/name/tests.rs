use proptest::prelude::*;
use rstest::rstest;

use super::*;

type Parse = fn(&str) -> Result<String, NotAName>;

/// Every kind of name, with the punctuation that it allows.
const KINDS: [(&str, Parse, &str); 8] = [
    ("cluster", |text| ClusterName::parse(text).map(|name| name.to_string()), "-_."),
    ("node", |text| NodeName::parse(text).map(|name| name.to_string()), "-_."),
    ("nodeset", |text| NodeSetName::parse(text).map(|name| name.to_string()), "-_."),
    ("partition", |text| PartitionName::parse(text).map(|name| name.to_string()), "-_."),
    ("feature", |text| Feature::parse(text).map(|name| name.to_string()), "-_./:=+@%"),
    ("unit", |text| TopologyUnit::parse(text).map(|name| name.to_string()), "-_."),
    ("file", |text| FileName::parse(text).map(|name| name.to_string()), "-_."),
    ("host", |text| HostName::parse(text).map(|name| name.to_string()), "-_."),
];

#[test]
fn names_are_judged_as_the_table_of_what_slurm_did_says() {
    let rows: Vec<Vec<&str>> = include_str!("seen.tsv").lines().skip(1).map(|line| line.split('\t').collect()).collect();
    assert!(rows.len() > 40, "the table is gone");
    for row in rows {
        let (_, parse, _) = KINDS.iter().find(|(kind, ..)| *kind == row[0]).expect("a known kind");
        assert_eq!(parse(row[1]).is_ok(), row[2] == "yes", "{row:?}");
    }
}

#[rstest]
#[case(ClusterName::parse("a\nInclude /etc/passwd").unwrap_err(), "`a\\nInclude /etc/passwd` is no cluster name: character 2 is a line break; use letters, digits, `-`, `_`, `.`")]
#[case(ClusterName::parse("").unwrap_err(), "`` is no cluster name: it is empty; give one")]
#[case(ClusterName::parse(&"x".repeat(85)).unwrap_err(), "`xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...` is no cluster name: it has 85 characters; use at most 84")]
#[case(NodeName::parse("n1234567890123456789").unwrap_err(), "`n1234567890123456789` is no Slurm node name: it ends with 19 digits; end it with at most 18, as Slurm counts no further")]
#[case(NodeName::parse("ALL").unwrap_err(), "`ALL` is no Slurm node name: Slurm gives that word a meaning of its own; choose another")]
#[case(NodeSetName::parse("-gpu").unwrap_err(), "`-gpu` is no Slurm node set name: it starts with `-`; start it with a letter or a digit")]
fn a_refusal_says_what_is_wrong_where_and_what_to_do(#[case] error: NotAName, #[case] words: &str) {
    assert_eq!(error.to_string(), words);
}

#[test]
fn every_node_set_name_is_a_feature() {
    assert!(NodeSetName::GRAMMAR.punctuation.chars().all(|mark| Feature::GRAMMAR.punctuation.contains(mark)));
    assert!(NodeSetName::GRAMMAR.max <= Feature::GRAMMAR.max && Feature::GRAMMAR.reserved.is_empty());
}

#[test]
fn features_are_listed_with_commas() {
    let list = Feature::parse_list(" a, b ,,k8s/c").unwrap();
    assert_eq!(list.iter().map(Feature::as_str).collect::<Vec<_>>(), ["a", "b", "k8s/c"]);
    assert!(Feature::parse_list("a,b\nc").is_err());
}

#[rstest]
#[case::name("ctl.example.org", Some("ctl.example.org:6817"))]
#[case::four("192.0.2.7", Some("192.0.2.7:6817"))]
#[case::six("2001:DB8::7", Some("[2001:db8::7]:6817"))]
#[case::six_in_brackets("[::1]", Some("[::1]:6817"))]
#[case::with_a_port("ctl:6817", None)]
#[case::with_a_zone("fe80::1%eth0", None)]
#[case::two_lines("::1\nInclude /etc/passwd", None)]
#[case::brackets_around_a_name("[ctl]", None)]
fn a_host_is_a_name_or_an_address(#[case] text: &str, #[case] with_port: Option<&str>) {
    assert_eq!(HostName::parse(text).ok().map(|host| host.with_port(6817)).as_deref(), with_port);
}

/// True if a name follows the common rules. The simplest possible check, to compare with the parser.
fn is_recognised(text: &str, punctuation: &str) -> bool {
    let bytes = text.as_bytes();
    let digits_at_end = text.len() - text.trim_end_matches(|character: char| character.is_ascii_digit()).len();
    bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || punctuation.as_bytes().contains(byte))
        && bytes.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && digits_at_end <= 18
        && text.len() <= 255
}

proptest! {
    #[test]
    fn nothing_outside_the_grammar_is_accepted_and_what_is_comes_back(
        text in prop_oneof![any::<String>(), r#"[aZ09\-_./:=+@%\n"'# \\]{0,8}[0-9]{0,22}"#, "[a-z0-9.-]{0,300}", "(?i)all|default|include"],
    ) {
        for (kind, parse, punctuation) in KINDS {
            match parse(&text) {
                Ok(name) if kind == "host" && name.contains(':') => prop_assert!(name.parse::<std::net::IpAddr>().is_ok(), "{name:?}"),
                Ok(name) => {
                    prop_assert_eq!(&name, &text);
                    prop_assert!(is_recognised(&text, punctuation), "{} accepted {:?}", kind, text);
                }
                Err(error) => {
                    let words = error.to_string();
                    prop_assert!(!words.contains(['\n', '\r']), "{words:?}");
                }
            }
        }
    }

    #[test]
    fn what_the_grammar_has_is_accepted(text in "[a-z][a-z0-9_.-]{0,60}[a-z]", tail in 0..1_000_000_000_000_000_000_u64) {
        let reserved = ["all", "default"].contains(&text.as_str());
        for (kind, parse, _) in KINDS.into_iter().filter(|_| !reserved) {
            prop_assert!(parse(&text).is_ok(), "{kind} refused {text:?}");
            prop_assert!(parse(&format!("{text}{tail}")).is_ok(), "{kind} refused {text}{tail}");
        }
    }
}
