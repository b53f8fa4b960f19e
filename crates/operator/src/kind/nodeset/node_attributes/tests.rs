use rstest::rstest;
use serde_json::json;

use super::*;

fn host(key: &str, value: &str) -> NodeView {
    serde_json::from_value(json!({ "metadata": { "name": "k1", "annotations": { key: value } } })).unwrap()
}

#[rstest]
#[case::plain("tree:s1", "tree:s1")]
#[case::several("tree:root:s1,block:b2", "tree:root:s1,block:b2")]
#[case::blanks_around(" tree:s1\n", "tree:s1")]
#[case::nowhere("", "")]
fn a_topology_is_taken_as_it_is(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(topology(&host(annotation::TOPOLOGY, text)), Some(Ok(expected.to_owned())));
}

#[rstest]
#[case::blank("tree:s1 Weight=9")]
#[case::line("tree:s1\nx")]
#[case::no_unit("tree:")]
#[case::brackets("tree:s[1-2]")]
#[case::umlaut("tree:süd")]
fn what_is_no_topology_is_refused_with_a_sentence(#[case] text: &str) {
    let words = topology(&host(annotation::TOPOLOGY, text)).unwrap().unwrap_err();
    assert!(words.starts_with("annotation `topology.slinky.slurm.net/spec` is wrong: `") && words.contains("; "), "{words}");
}

#[test]
fn nobody_has_to_say_anything() {
    let silent = host("other", "x");
    assert_eq!(topology(&silent), None);
    assert_eq!(features(&silent), Ok(BTreeSet::new()));
}

#[rstest]
#[case::one("gpu", &["k8s/gpu"])]
#[case::sorted_and_once("ib, gpu,ib ,", &["k8s/gpu", "k8s/ib"])]
#[case::with_a_value("zone=a,rack:7", &["k8s/rack:7", "k8s/zone=a"])]
#[case::none(" , ", &[])]
fn features_get_our_prefix(#[case] text: &str, #[case] expected: &[&str]) {
    assert_eq!(features(&host(annotation::FEATURES, text)), Ok(expected.iter().map(|&word| word.to_owned()).collect()));
}

#[rstest]
#[case::blank("ib,a b")]
#[case::and("a&b")]
#[case::or("a|b")]
#[case::star("a*4")]
#[case::parenthesis("(a")]
#[case::bracket("[a")]
#[case::brace("{a}")]
#[case::dash("-a")]
#[case::not("!a")]
#[case::umlaut("größe")]
#[case::line("a\nb")]
#[case::quote("a\"b")]
#[case::long(&"x".repeat(65))]
fn what_no_job_could_ask_for_is_refused_with_a_sentence(#[case] text: &str) {
    let words = features(&host(annotation::FEATURES, text)).unwrap_err();
    assert!(words.starts_with("annotation `features.slinky.slurm.net/spec` is wrong: `") && words.contains("is no feature: "), "{words}");
    assert!(words.contains("; ") && !words.contains('\n'), "{words}");
}

#[test]
fn a_feature_of_just_the_longest_size_is_taken() {
    assert!(features(&host(annotation::FEATURES, &"x".repeat(LONGEST))).is_ok());
}

const NOW: i64 = 1_000;

fn ago(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW - seconds).unwrap()
}

fn times(count: u32, seconds: i64) -> Repeats {
    Repeats { hash: "x".to_owned(), count, last: ago(seconds) }
}

#[rstest]
#[case::never_yet(None, None, Moves::Now)]
#[case::just_for_another(Some(ago(4)), None, Moves::After(Duration::from_secs(6)))]
#[case::long_ago_for_another(Some(ago(11)), None, Moves::Now)]
#[case::just_for_this(Some(ago(2)), Some(times(1, 2)), Moves::After(Duration::from_secs(58)))]
#[case::it_may_not_have_come_through(Some(ago(61)), Some(times(1, 61)), Moves::Now)]
#[case::it_does_not_help(Some(ago(999)), Some(times(3, 999)), Moves::Never)]
fn slurm_reads_its_configuration_once_for_a_change(
    #[case] any: Option<Timestamp>,
    #[case] for_this: Option<Repeats>,
    #[case] expected: Moves,
) {
    assert_eq!(turn(any, for_this.as_ref(), ago(0)), expected);
}
