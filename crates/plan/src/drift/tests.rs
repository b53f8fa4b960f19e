use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn seen(live: Value, accepted: Option<Accepted>) -> Seen {
    Seen { live: Some(Arc::new(live)), accepted }
}

#[rstest]
#[case::equal(json!({"a": 1}), json!({"a": 1}), true)]
#[case::added_by_others(json!({"a": 1, "b": 2}), json!({"a": 1}), true)]
#[case::changed(json!({"a": 2}), json!({"a": 1}), false)]
#[case::missing(json!({}), json!({"a": 1}), false)]
#[case::false_is_something(json!({}), json!({"a": false}), false)]
#[case::empty_is_left_out(json!({}), json!({"a": [], "b": {}}), true)]
#[case::emptied_list_differs(json!({"a": [1]}), json!({"a": []}), false)]
#[case::longer_list(json!({"a": [1, 2]}), json!({"a": [1]}), false)]
#[case::item_with_defaults(json!({"a": [{"x": 1, "y": 0}]}), json!({"a": [{"x": 1}]}), true)]
#[case::other_order(json!({"a": [1, 2]}), json!({"a": [2, 1]}), false)]
#[case::the_same_amount(json!({"limits": {"cpu": "100m", "memory": "1Gi"}}), json!({"limits": {"cpu": 0.1, "memory": "1024Mi"}}), true)]
#[case::another_amount(json!({"requests": {"storage": "1Gi"}}), json!({"requests": {"storage": "1G"}}), false)]
#[case::no_amount(json!({"value": "1Gi"}), json!({"value": "1024Mi"}), false)]
fn a_live_object_covers_what_is_wanted(#[case] live: Value, #[case] desired: Value, #[case] expected: bool) {
    assert_eq!(covers(&live, &desired), expected);
}

#[test]
fn a_value_that_the_server_normalises_is_applied_once() {
    let desired = json!({"spec": {"memory": "1024Mi"}});
    let before = json!({"metadata": {"resourceVersion": "1"}});
    let answer = json!({"metadata": {"resourceVersion": "2"}, "spec": {"memory": "1Gi"}});
    assert_eq!(drift(&desired, &seen(before.clone(), None), at(0)), Drift::Differs);
    let accepted = Accepted::new(&desired, &answer, Some(&before), at(0));
    assert_eq!(drift(&desired, &seen(answer.clone(), Some(accepted.clone())), at(60)), Drift::None);

    let mut running = answer;
    running["metadata"]["resourceVersion"] = "9".into();
    running["status"] = json!({"ready": 1});
    assert_eq!(drift(&desired, &seen(running, Some(accepted.clone())), at(60)), Drift::None, "status is not ours to compare");

    let edited = json!({"metadata": {"resourceVersion": "3"}, "spec": {"memory": "2Gi"}});
    assert_eq!(drift(&desired, &seen(edited, Some(accepted)), at(60)), Drift::Differs, "an edit is repaired");
}

#[test]
fn a_file_that_somebody_added_to_a_config_map_is_not_ours() {
    let desired = json!({"kind": "ConfigMap", "data": {"slurm.conf": "a"}});
    let mut live = desired.clone();
    live["data"]["gres.conf"] = "theirs".into();
    live["binaryData"] = json!({"oci.conf": "AA=="});
    let files = [("data", "gres.conf".to_owned()), ("binaryData", "oci.conf".to_owned())];
    assert_eq!(foreign_files(&live, &desired), files);
    let accepted = Accepted::new(&desired, &live, None, at(0));
    assert_eq!(drift(&desired, &seen(live.clone(), Some(accepted)), at(60)), Drift::Differs, "also one that came with our own write");
    live["kind"] = "Secret".into();
    assert_eq!(foreign_files(&live, &json!({"kind": "Secret", "data": {}})), []);
}

#[test]
fn a_write_that_the_cache_has_not_seen_is_not_repeated_for_a_while() {
    let desired = json!({"spec": 1});
    let accepted = Some(Accepted::new(&desired, &json!({"spec": 1}), None, at(0)));
    let unseen = Seen { live: None, accepted };
    assert_eq!(drift(&desired, &unseen, at(1)), Drift::Settling);
    assert_eq!(drift(&desired, &unseen, at(11)), Drift::Differs, "it was undone meanwhile");
    assert_eq!(drift(&json!({"spec": 2}), &unseen, at(1)), Drift::Differs, "a new wish does not wait");
}

#[test]
fn what_is_wanted_again_before_the_cache_shows_that_it_went_is_written_again() {
    let version = |version: &str, number: u8| json!({"metadata": {"resourceVersion": version}, "spec": number});
    let accepted = Some(Accepted::new(&json!({"spec": 2}), &version("12", 2), Some(&version("10", 3)), at(0)));
    for old in ["10", "11"] {
        assert_eq!(drift(&json!({"spec": 3}), &seen(version(old, 3), accepted.clone()), at(1)), Drift::Differs, "the server has 2");
        assert_eq!(drift(&json!({"spec": 2}), &seen(version(old, 3), accepted.clone()), at(1)), Drift::Settling);
    }
    assert_eq!(drift(&json!({"spec": 3}), &seen(version("13", 3), accepted), at(1)), Drift::None);
}

#[test]
fn a_child_on_its_way_out_is_left_alone() {
    let going = seen(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), None);
    assert_eq!(drift(&json!({"spec": 1}), &going, at(0)), Drift::Going);
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (-9..9_i64).prop_map(Value::from), "[a-c]{0,2}".prop_map(Value::from)];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// An object as a server stores it: with the requested fields, defaults and its own metadata.
fn stored(desired: &Value) -> Value {
    match desired {
        Value::Object(map) => {
            let mut map: serde_json::Map<_, _> = map.iter().map(|(key, value)| (key.clone(), stored(value))).collect();
            map.insert("defaulted".into(), true.into());
            map.into()
        }
        Value::Array(items) => items.iter().map(stored).collect(),
        scalar => scalar.clone(),
    }
}

proptest! {
    #[test]
    fn what_a_server_stored_covers_what_was_sent(desired in json_value()) {
        prop_assert!(covers(&stored(&desired), &desired));
    }

    #[test]
    fn plan_apply_plan_again_is_empty(desired in json_value(), live in json_value()) {
        let desired = json!({"metadata": {"name": "x"}, "spec": desired});
        let mut live = json!({"metadata": {"name": "x"}, "spec": live});
        live["metadata"]["resourceVersion"] = "1".into();
        if drift(&desired, &seen(live.clone(), None), at(0)) == Drift::Differs {
            let mut answer = stored(&desired);
            answer["metadata"]["resourceVersion"] = "2".into();
            let accepted = Accepted::new(&desired, &answer, Some(&live), at(0));
            prop_assert_eq!(drift(&desired, &seen(answer, Some(accepted)), at(1)), Drift::None);
        }
    }
}
