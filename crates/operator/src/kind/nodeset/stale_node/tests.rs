use rstest::rstest;
use serde_json::json;

use super::*;

fn family(is_shared: bool) -> Family {
    Family {
        namespace: "n".into(),
        nodeset: "gpu".into(),
        uid: "u-1".into(),
        prefix: None,
        padding: 0,
        feature: "gpu".into(),
        daemons: HashMap::new(),
        is_shared,
    }
}

fn record(name: &str, states: &[&str], comment: &str, features: &[&str]) -> Node {
    serde_json::from_value(json!({ "name": name, "state": states, "comment": comment, "features": features })).unwrap()
}

fn linked(namespace: &str, pod: &str, nodeset: &str, uid: &str) -> String {
    let (namespace, pod_name, node) = (namespace.into(), pod.into(), "k1".into());
    PodInfo { namespace, pod_name, node, node_set_name: nodeset.into(), node_set_uid: uid.into() }.to_string()
}

#[rstest]
#[case::of_this_nodeset(&linked("n", "gpu-3", "gpu", "u-1"), Some("gpu-3"), Some("gpu-3"))]
#[case::of_one_before_with_its_name(&linked("n", "gpu-3", "gpu", "u-0"), Some("gpu-3"), None)]
#[case::of_its_name_without_uid(&linked("n", "gpu-3", "gpu", ""), Some("gpu-3"), Some("gpu-3"))]
#[case::of_an_older_operator(&linked("n", "gpu-3", "", ""), Some("gpu-3"), Some("gpu-3"))]
#[case::of_an_older_operator_and_another_pod(&linked("n", "gpu-4", "", ""), None, None)]
#[case::of_another_nodeset(&linked("n", "gpu-3", "cpu", "u-2"), None, None)]
#[case::of_another_namespace(&linked("m", "gpu-3", "gpu", "u-2"), None, None)]
#[case::of_no_pod(&linked("n", "", "gpu", "u-1"), None, None)]
#[case::json_of_others(r#"{"rack":3}"#, None, None)]
#[case::nothing("", Some("gpu-3"), None)]
#[case::words_of_a_person("rack 3", Some("gpu-3"), None)]
fn a_record_belongs_to_whom_its_comment_says(#[case] comment: &str, #[case] alone: Option<&str>, #[case] among_strangers: Option<&str>) {
    let record = record("gpu-3", &["IDLE"], comment, &["gpu"]);
    for (is_shared, expected) in [(false, alone), (true, among_strangers)] {
        let pod = family(is_shared).member(&record).map(|(_, pod, _)| pod);
        assert_eq!(pod.as_deref(), expected, "shared: {is_shared}");
    }
}

#[rstest]
#[case::its_own("gpu-3", &["gpu", "k8s/x"], Some("gpu-3"))]
#[case::another_feature("gpu-3", &["cpu"], None)]
#[case::no_ordinal("gpu-x", &["gpu"], None)]
#[case::a_sign("gpu-+3", &["gpu"], None)]
#[case::another_padding("gpu-03", &["gpu"], None)]
#[case::a_longer_name("gpu-big-3", &["gpu"], None)]
fn without_a_comment_name_and_feature_tell(#[case] name: &str, #[case] features: &[&str], #[case] expected: Option<&str>) {
    let record = record(name, &["IDLE"], "", features);
    assert_eq!(family(false).member(&record).map(|(_, pod, _)| pod).as_deref(), expected);
}

#[test]
fn the_templates_hostname_and_padding_count() {
    let family = Family { prefix: Some("a100-".into()), padding: 3, feature: "a100".into(), ..family(false) };
    let pod = |name| family.member(&record(name, &["IDLE"], "", &["a100"])).map(|(_, pod, _)| pod);
    assert_eq!((pod("a100-007"), pod("a100-7"), pod("gpu-007")), (Some("gpu-007".into()), None, None));
}

#[test]
fn where_strangers_may_be_only_a_silent_record_without_a_comment_is_taken_for_ours() {
    let silent = record("gpu-3", &["IDLE", "NOT_RESPONDING"], "", &["gpu"]);
    assert!(family(true).member(&silent).is_some());
}
