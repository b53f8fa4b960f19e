use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

/// Fit of node `k1`, with labels `zone=a`, `cores=8`, `empty=` and these taints, written `key=value:effect`.
fn fit_with(spec: &Value, taints: &[&'static str]) -> Fit {
    let labels = [("zone", "a"), ("cores", "8"), ("empty", "")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let taint = |text: &&'static str| {
        let (rest, effect) = text.split_once(':').unwrap();
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        Taint { key, value, effect }
    };
    Demands::parse(spec).unwrap().fit(&Node { name: "k1", labels: &labels, taints: taints.iter().map(taint).collect() })
}

fn affinity(terms: &Value) -> Value {
    json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } })
}

#[rstest]
#[case::nothing(json!({}), true)]
#[case::nulls(json!({ "nodeName": null, "nodeSelector": null, "affinity": null, "tolerations": null }), true)]
#[case::its_name(json!({ "nodeName": "k1" }), true)]
#[case::another_name(json!({ "nodeName": "k2" }), false)]
#[case::its_label(json!({ "nodeSelector": { "zone": "a", "cores": "8" } }), true)]
#[case::another_value(json!({ "nodeSelector": { "zone": "a", "cores": "9" } }), false)]
#[case::another_label(json!({ "nodeSelector": { "rack": "a" } }), false)]
#[case::an_empty_label(json!({ "nodeSelector": { "empty": "" } }), true)]
#[case::preferences_do_not_count(json!({ "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution":
    [{ "weight": 1, "preference": { "matchExpressions": [{ "key": "rack", "operator": "Exists" }] } }] } } }), true)]
#[case::affinity_and_selector(json!({ "nodeSelector": { "rack": "r" }, "affinity": { "nodeAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "zone", "operator": "Exists" }] }] } } } }), false)]
fn a_node_is_wanted_for_its_name_and_its_labels(#[case] spec: Value, #[case] is_wanted: bool) {
    assert_eq!(fit_with(&spec, &[]), if is_wanted { Fit::Yes } else { Fit::No });
}

#[rstest]
#[case::listed("zone", "In", &["b", "a"], true)]
#[case::not_listed("zone", "In", &["b"], false)]
#[case::not_there("rack", "In", &["a"], false)]
#[case::in_nothing("zone", "In", &[], false)]
#[case::other_than("zone", "NotIn", &["b"], true)]
#[case::not_other_than("zone", "NotIn", &["b", "a"], false)]
#[case::other_and_not_there("rack", "NotIn", &["a"], true)]
#[case::not_in_nothing("zone", "NotIn", &[], false)]
#[case::there("empty", "Exists", &[], true)]
#[case::missing("rack", "Exists", &[], false)]
#[case::exists_with_values("zone", "Exists", &["a"], false)]
#[case::absent("rack", "DoesNotExist", &[], true)]
#[case::not_absent("zone", "DoesNotExist", &[], false)]
#[case::more("cores", "Gt", &["7"], true)]
#[case::not_more("cores", "Gt", &["8"], false)]
#[case::less("cores", "Lt", &["9"], true)]
#[case::not_less("cores", "Lt", &["-9"], false)]
#[case::no_number("zone", "Gt", &["7"], false)]
#[case::more_than_words("cores", "Gt", &["many"], false)]
#[case::more_than_two("cores", "Gt", &["1", "2"], false)]
#[case::more_and_not_there("gpus", "Gt", &["1"], false)]
#[case::nonsense("zone", "Like", &["a"], false)]
fn a_label_can_be_asked_for_in_six_ways(#[case] key: &str, #[case] operator: &str, #[case] values: &[&str], #[case] holds: bool) {
    let spec = affinity(&json!([{ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }]));
    assert_eq!(fit_with(&spec, &[]), if holds { Fit::Yes } else { Fit::No });
}

#[rstest]
#[case::its_name(json!([{ "key": "metadata.name", "operator": "In", "values": ["k1"] }]), true)]
#[case::another(json!([{ "key": "metadata.name", "operator": "In", "values": ["k2"] }]), false)]
#[case::two_names(json!([{ "key": "metadata.name", "operator": "In", "values": ["k1", "k2"] }]), false)]
#[case::not_another(json!([{ "key": "metadata.name", "operator": "NotIn", "values": ["k2"] }]), true)]
#[case::not_this(json!([{ "key": "metadata.name", "operator": "NotIn", "values": ["k1"] }]), false)]
#[case::by_label_operator(json!([{ "key": "metadata.name", "operator": "Exists" }]), false)]
#[case::another_field(json!([{ "key": "metadata.uid", "operator": "In", "values": ["k1"] }]), false)]
fn of_the_fields_only_the_name_can_be_asked_for(#[case] fields: Value, #[case] holds: bool) {
    assert_eq!(fit_with(&affinity(&json!([{ "matchFields": fields }])), &[]), if holds { Fit::Yes } else { Fit::No });
}

#[rstest]
#[case::no_term(json!([]), false)]
#[case::an_empty_term(json!([{}]), false)]
#[case::an_empty_one_beside_another(json!([{}, { "matchExpressions": [{ "key": "zone", "operator": "Exists" }] }]), true)]
#[case::one_of_two(json!([{ "matchExpressions": [{ "key": "rack", "operator": "Exists" }] }, { "matchExpressions": [{ "key": "zone", "operator": "Exists" }] }]), true)]
#[case::all_of_one(json!([{ "matchExpressions": [{ "key": "rack", "operator": "Exists" }, { "key": "zone", "operator": "Exists" }] }]), false)]
#[case::label_and_field(json!([{ "matchExpressions": [{ "key": "zone", "operator": "Exists" }], "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["k2"] }] }]), false)]
fn one_term_must_hold_as_a_whole(#[case] terms: Value, #[case] holds: bool) {
    assert_eq!(fit_with(&affinity(&terms), &[]), if holds { Fit::Yes } else { Fit::No });
}

#[rstest]
#[case::none(json!([]), &[], Fit::Yes)]
#[case::to_be_avoided(json!([]), &["a:PreferNoSchedule"], Fit::Yes)]
#[case::cordoned(json!([]), &["node.kubernetes.io/unschedulable:NoSchedule"], Fit::Keeps)]
#[case::lost(json!([]), &["node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"], Fit::Repels)]
#[case::equal(json!([{ "key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule" }]), &["gpu=yes:NoSchedule"], Fit::Yes)]
#[case::equal_by_default(json!([{ "key": "gpu", "value": "yes" }]), &["gpu=yes:NoSchedule", "gpu=yes:NoExecute"], Fit::Yes)]
#[case::another_value(json!([{ "key": "gpu", "value": "no" }]), &["gpu=yes:NoSchedule"], Fit::Keeps)]
#[case::an_empty_value(json!([{ "key": "nodeset.slinky.slurm.net/worker", "operator": "Equal", "effect": "NoExecute" }]), &["nodeset.slinky.slurm.net/worker:NoExecute"], Fit::Yes)]
#[case::a_value_where_none_was_expected(json!([{ "key": "nodeset.slinky.slurm.net/worker", "operator": "Equal" }]), &["nodeset.slinky.slurm.net/worker=x:NoExecute"], Fit::Repels)]
#[case::exists(json!([{ "key": "gpu", "operator": "Exists" }]), &["gpu=yes:NoExecute"], Fit::Yes)]
#[case::another_effect(json!([{ "key": "gpu", "operator": "Exists", "effect": "NoSchedule" }]), &["gpu=yes:NoExecute"], Fit::Repels)]
#[case::another_key(json!([{ "key": "tpu", "operator": "Exists" }]), &["gpu=yes:NoSchedule"], Fit::Keeps)]
#[case::everything(json!([{ "operator": "Exists" }]), &["a=b:NoExecute", "c:NoSchedule"], Fit::Yes)]
#[case::every_key_of_one_value(json!([{ "value": "b" }]), &["a=b:NoSchedule"], Fit::Yes)]
#[case::one_of_two(json!([{ "key": "a", "operator": "Exists" }]), &["a:NoExecute", "b:NoSchedule"], Fit::Keeps)]
#[case::for_a_while(json!([{ "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5 }]), &["a:NoExecute"], Fit::Yes)]
#[case::nonsense(json!([{ "key": "a", "operator": "Nearly" }]), &["a:NoSchedule"], Fit::Keeps)]
fn taints_keep_pods_away_that_do_not_tolerate_them(#[case] tolerations: Value, #[case] taints: &[&'static str], #[case] expected: Fit) {
    assert_eq!(fit_with(&json!({ "tolerations": tolerations }), taints), expected);
    let elsewhere = json!({ "nodeName": "k2", "tolerations": tolerations });
    assert_eq!(fit_with(&elsewhere, taints), Fit::No, "a node that is not wanted is not made one by its taints");
}

#[rstest]
#[case(json!({ "nodeSelector": "zone" }))]
#[case(json!({ "nodeSelector": { "zone": 1 } }))]
#[case(json!({ "tolerations": { "key": "a" } }))]
#[case(affinity(&json!([{ "matchExpressions": "zone" }])))]
fn demands_that_cannot_be_read_are_not_guessed(#[case] spec: Value) {
    assert!(Demands::parse(&spec).is_err());
}

proptest! {
    #[test]
    fn tolerating_more_never_makes_a_node_fit_less(key in "[ab]?", value in "[xy]?", effect in "(|NoSchedule|NoExecute)", exists in any::<bool>()) {
        let order = |fit| match fit { Fit::No => 0, Fit::Repels => 1, Fit::Keeps => 2, Fit::Yes => 3 };
        let taints = ["a=x:NoSchedule", "b=y:NoExecute", "a:NoExecute"];
        let operator = if exists { "Exists" } else { "Equal" };
        let more = json!({ "tolerations": [{ "key": key, "operator": operator, "value": value, "effect": effect }] });
        let before = fit_with(&json!({}), &taints);
        prop_assert!(order(before) <= order(fit_with(&more, &taints)));
    }
}
