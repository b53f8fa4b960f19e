//! The generated CustomResourceDefinitions against the facts of the public API in `contract/`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use slipway_api::crd;

/// What the public API says about one field.
#[derive(Debug, PartialEq)]
struct Field {
    kind: String,
    is_required: bool,
    default: Option<Value>,
    is_preserved: bool,
    is_atomic: bool,
}

fn public_fields() -> BTreeMap<(String, String), Field> {
    include_str!("contract/fields.tsv")
        .lines()
        .skip(1)
        .map(|line| {
            let columns: Vec<_> = line.split('\t').collect();
            let default = (!columns[4].is_empty()).then(|| columns[4].parse().unwrap_or_default());
            let field = Field {
                kind: columns[2].to_owned(),
                is_required: columns[3] == "required",
                default,
                is_preserved: columns[5].contains("preserve-unknown-fields=true"),
                is_atomic: columns[5].contains("map-type=\"atomic\""),
            };
            ((columns[0].to_owned(), columns[1].to_owned()), field)
        })
        .collect()
}

fn walk(path: &str, schema: &Value, is_required: bool, found: &mut Vec<(String, Field)>) {
    let field = Field {
        kind: schema["type"].as_str().unwrap_or_default().to_owned(),
        is_required,
        default: schema.get("default").cloned(),
        is_preserved: schema["x-kubernetes-preserve-unknown-fields"] == true,
        is_atomic: schema["x-kubernetes-map-type"] == "atomic",
    };
    found.push((path.to_owned(), field));
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), property, required.contains(&json!(name)), found);
    }
    if schema.get("items").is_some() {
        walk(&format!("{path}[]"), &schema["items"], false, found);
    }
    if schema["additionalProperties"].is_object() {
        walk(&format!("{path}{{}}"), &schema["additionalProperties"], false, found);
    }
}

#[test]
fn every_field_of_ours_is_a_public_one_with_the_same_shape() {
    let public = public_fields();
    let mut wrong = Vec::new();
    for definition in crd::definitions() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        let mut found = Vec::new();
        walk("spec", &schema["spec"], false, &mut found);
        walk("status", &schema["status"], false, &mut found);
        assert!(found.len() > 20, "{kind} has only {} fields: the walk is broken", found.len());
        for (path, field) in found {
            // The inlined claim spec is passed on raw: it keeps what it does not know.
            if kind == "Controller" && path == "spec.persistence" {
                assert!(field.is_preserved, "an inlined claim spec must survive");
                continue;
            }
            match public.get(&(kind.to_owned(), path.clone())) {
                Some(expected) if *expected == field => {}
                expected => wrong.push(format!("{kind} {path}: public {expected:?}, ours {field:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn kinds_have_the_public_names_columns_and_subresources() {
    let public: Vec<Value> = serde_json::from_str(include_str!("contract/kinds.json")).unwrap();
    for definition in crd::definitions() {
        let kind = &definition["spec"]["names"]["kind"];
        let expected = public.iter().find(|public| public["kind"] == *kind).expect("a public kind");
        let version = &definition["spec"]["versions"][0];
        assert_eq!(definition["spec"]["group"], expected["group"]);
        assert_eq!(definition["spec"]["scope"], expected["scope"]);
        assert_eq!(version["name"], expected["version"]);
        assert_eq!(version["additionalPrinterColumns"], expected["columns"], "{kind}");
        assert_eq!(version["subresources"], expected["subresources"], "{kind}");
        let mut names = definition["spec"]["names"].clone();
        names.as_object_mut().unwrap().retain(|_, value| *value != json!([]));
        names["listKind"] = json!(format!("{}List", kind.as_str().unwrap()));
        assert_eq!(names, expected["names"], "{kind}");
    }
}

#[test]
fn conditions_can_have_several_writers() {
    for definition in crd::definitions() {
        let status = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
        let conditions = &status["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    }
}

#[test]
fn definitions_stay_small_enough_for_a_client_side_apply() {
    for file in crd::files().unwrap() {
        assert!(file.yaml.len() < 200_000, "{} has {} bytes", file.name, file.yaml.len());
    }
}
