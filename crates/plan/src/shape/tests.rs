use rstest::rstest;
use serde_json::json;
use slipway_api::crd;

use super::*;

fn spec() -> Value {
    json!({
        "group": "slinky.slurm.net", "scope": "Namespaced", "names": { "kind": "NodeSet", "plural": "nodesets" },
        "versions": [{
            "name": "v1beta1", "served": true, "subresources": { "status": {} },
            "schema": { "openAPIV3Schema": { "properties": {
                "spec": { "type": "object", "properties": {
                    "replicas": { "type": "integer" },
                    "slurmd": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                    "labels": { "type": "object", "additionalProperties": { "type": "string" } },
                    "template": { "type": "object", "properties": { "spec": { "type": "object" } } },
                } },
                "status": { "type": "object", "properties": {
                    "selector": { "type": "string" },
                    "conditions": { "type": "array", "items": { "type": "object", "properties": { "type": { "type": "string" }, "reason": { "type": "string" } } } },
                } },
            } } },
        }],
    })
}

fn changed(change: impl FnOnce(&mut Value)) -> Shape {
    let mut spec = spec();
    change(&mut spec);
    Shape::of(&spec)
}

fn schema(spec: &mut Value) -> &mut Value {
    &mut spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
}

fn remove(object: &mut Value, field: &str) {
    object.as_object_mut().unwrap().remove(field);
}

#[test]
fn an_equal_or_a_newer_definition_is_no_difference() {
    assert_eq!(Shape::of(&spec()).compare(&Shape::of(&spec())), Difference::None);
    let newer = changed(|spec| schema(spec)["spec"]["properties"]["brandNew"] = json!({ "type": "string" }));
    assert_eq!(Shape::of(&spec()).compare(&newer), Difference::None);
}

#[rstest]
#[case::one(&["replicas"], "is older than this operator: it has no spec.replicas")]
#[case::a_whole_object(&["template"], "is older than this operator: it has no spec.template")]
#[case::many(&["replicas", "slurmd", "labels", "template"], "is older than this operator: it has no spec.labels, spec.replicas, spec.slurmd and 1 more")]
fn fields_missing_in_the_spec_forbid_writes(#[case] gone: &[&str], #[case] words: &str) {
    let older = changed(|spec| gone.iter().for_each(|field| remove(&mut schema(spec)["spec"]["properties"], field)));
    let difference = Shape::of(&spec()).compare(&older);
    assert!(difference.forbids_writes());
    assert_eq!(difference.to_string(), words);
}

#[test]
fn fields_missing_in_the_status_are_left_out_and_forbid_nothing() {
    let older = changed(|spec| {
        remove(&mut schema(spec)["status"]["properties"], "selector");
        remove(&mut schema(spec)["status"]["properties"]["conditions"]["items"]["properties"], "reason");
    });
    let difference = Shape::of(&spec()).compare(&older);
    assert_eq!(difference, Difference::StatusLacks(vec!["status.conditions[].reason".into(), "status.selector".into()]));
    assert!(!difference.forbids_writes());
    let mut status = json!({ "selector": "a=b", "conditions": [{ "type": "Ready", "reason": "Because" }] });
    older.prune_status(&mut status);
    assert_eq!(status, json!({ "conditions": [{ "type": "Ready" }] }));
}

#[rstest]
#[case::type_differs(|spec: &mut Value| schema(spec)["spec"]["properties"]["replicas"]["type"] = "string".into(), "spec.replicas holds string instead of integer")]
#[case::not_served(|spec: &mut Value| spec["versions"][0]["served"] = false.into(), "does not serve version v1beta1")]
#[case::other_version(|spec: &mut Value| spec["versions"][0]["name"] = "v1".into(), "does not serve version v1beta1")]
#[case::other_group(|spec: &mut Value| spec["group"] = "example.com".into(), "its group is `example.com`")]
#[case::other_kind(|spec: &mut Value| spec["names"]["kind"] = "Set".into(), "its kind is `Set`")]
#[case::other_scope(|spec: &mut Value| spec["scope"] = "Cluster".into(), "scope differs")]
#[case::no_status(|spec: &mut Value| remove(&mut spec["versions"][0]["subresources"], "status"), "no status subresource")]
#[case::nothing(|spec: &mut Value| *spec = Value::Null, "its group is ``")]
fn a_foreign_definition_says_where_it_differs(#[case] change: fn(&mut Value), #[case] words: &str) {
    let difference = Shape::of(&spec()).compare(&changed(change));
    assert!(matches!(difference, Difference::Foreign(_)) && difference.forbids_writes());
    assert!(difference.to_string().contains(words), "{difference}");
}

#[test]
fn an_object_that_drops_newer_fields_is_older_and_one_that_keeps_all_is_not() {
    let closed = changed(|spec| remove(&mut schema(spec)["spec"]["properties"]["slurmd"], "x-kubernetes-preserve-unknown-fields"));
    assert_eq!(Shape::of(&spec()).compare(&closed), Difference::SpecLacks(vec!["spec.slurmd".into()]));
    let open = changed(|spec| {
        schema(spec)["spec"]["properties"]["template"] = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    });
    assert_eq!(Shape::of(&spec()).compare(&open), Difference::None);
}

#[test]
fn of_a_foreign_definition_only_what_means_the_same_is_written() {
    let foreign = changed(|spec| schema(spec)["status"]["properties"]["selector"]["type"] = "object".into());
    let mut status = json!({ "selector": "a=b", "conditions": [{ "type": "Ready" }] });
    Shape::of(&spec()).shared_with(&foreign).unwrap().prune_status(&mut status);
    assert_eq!(status, json!({ "conditions": [{ "type": "Ready" }] }));
    let unserved = changed(|spec| spec["versions"][0]["served"] = false.into());
    assert_eq!(Shape::of(&spec()).shared_with(&unserved), None);
}

#[test]
fn every_definition_of_ours_has_a_shape_that_keeps_its_own_status() {
    for definition in crd::definitions() {
        let shape = Shape::of(&definition["spec"]);
        assert_eq!(shape.compare(&shape), Difference::None);
        assert!(shape.fields.contains_key("status.conditions[].type"), "{}", shape.kind());
        let mut status = json!({ "conditions": [{ "type": "Ready", "status": "True", "reason": "A", "message": "", "observedGeneration": 1, "lastTransitionTime": "x" }] });
        let before = status.clone();
        shape.prune_status(&mut status);
        assert_eq!(status, before);
    }
}
