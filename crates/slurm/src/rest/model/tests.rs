use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::flag::Flag;
use super::*;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("(set|infinite|number|[a-z]{1,4})", inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The objects of a recorded list.
fn objects(recorded: &str, list: &str) -> Vec<Map<String, Value>> {
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    recorded["body"][list].as_array().unwrap().iter().map(|object| object.as_object().unwrap().clone()).collect()
}

proptest! {
    #[test]
    fn no_value_of_any_field_makes_a_reader_panic(value in any_json(), pick in any::<prop::sample::Index>()) {
        for (recorded, list) in [
            (include_str!("../../../tests/fixtures/v45-nodes.json"), "nodes"),
            (include_str!("../../../tests/fixtures/v45-jobs.json"), "jobs"),
            (include_str!("../../../tests/fixtures/v45-partitions.json"), "partitions"),
            (include_str!("../../../tests/fixtures/v45-reservations.json"), "reservations"),
        ] {
            for mut object in objects(recorded, list) {
                let key = object.keys().nth(pick.index(object.len())).unwrap().clone();
                object.insert(key, value.clone());
                let text = Value::Object(object).to_string();
                let _ = serde_json::from_str::<Node>(&text);
                let _ = serde_json::from_str::<Job>(&text);
                let _ = serde_json::from_str::<Partition>(&text);
                let _ = serde_json::from_str::<Reservation>(&text);
            }
        }
    }
}

#[test]
fn words_of_the_future_survive() {
    let node: Node = serde_json::from_value(json!({"name": "a", "state": ["IDLE", "QUANTUM", "DRAIN"], "new_field": {"a": 1}})).unwrap();
    assert!(node.state.is_drained());
    assert_eq!(serde_json::to_value(&node.state).unwrap(), json!(["IDLE", "DRAIN", "QUANTUM"]));
    let job: Job =
        serde_json::from_value(json!({"job_state": ["EVAPORATED"], "priority": {"set": true, "number": 4_294_901_759_u64}})).unwrap();
    assert!(!job.job_state.is_terminal() && job.job_state.holds_nodes(), "an unknown state is no end");
    assert_eq!(job.priority, Number::Set(4_294_901_759));
}

#[test]
fn every_known_word_is_read_as_written() {
    for state in NodeState::KNOWN {
        assert_eq!(NodeState::from_word(state.as_word()), *state);
    }
    for state in JobState::KNOWN {
        assert_eq!(JobState::from_word(state.as_word()), *state);
    }
}

#[test]
fn an_update_says_only_what_it_changes() {
    assert_eq!(serde_json::to_value(NodeUpdate::drain("why")).unwrap(), json!({"state": ["DRAIN"], "reason": "why"}));
    assert_eq!(serde_json::to_value(NodeUpdate::undrain()).unwrap(), json!({"state": ["UNDRAIN"]}));
    assert_eq!(serde_json::to_value(NodeUpdate::comment("")).unwrap(), json!({"comment": ""}));
    let features = NodeUpdate::features(&["a".to_owned()]);
    assert_eq!(serde_json::to_value(features).unwrap(), json!({"features": ["a"], "features_act": ["a"]}));
}
