//! The generated CustomResourceDefinitions against the facts of the public API in `contract/`, path by path and in both directions.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use slipway_api::crd;

/// Everything that a schema says about one field, description and rules aside.
#[derive(Clone, Debug, Default, PartialEq)]
struct Field {
    kind: String,
    is_required: bool,
    default: Option<Value>,
    constraints: BTreeMap<String, Value>,
}

/// Where our schema differs on purpose: a kind, a path and why.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("Controller", "spec.persistence", "keeps fields of a claim that are newer than the definition, as the other passed-on objects do"),
    ("NodeSet", "spec.volumeClaimTemplates", "has a type, or no rule could say that it must not change: CEL sees only what has one"),
    ("NodeSet", "spec.volumeClaimTemplates[]", "is there because the list has a type; it takes any object and keeps it as it is"),
    ("NodeSet", "spec.template.spec.hostname", "is named, or no rule could look at it; it ends up in slurm.conf and in Slurm's node names"),
];

/// Every kind whose public schema leaves `spec` optional: an object without one would pass every rule and mean nothing.
const SPEC_IS_REQUIRED: &str = "an object without a spec would pass every rule unseen and mean nothing";

const CONSTRAINTS: [(&str, &str); 14] = [
    ("format", "format"),
    ("pattern", "pattern"),
    ("enum", "enum"),
    ("minimum", "minimum"),
    ("maximum", "maximum"),
    ("minLength", "minLength"),
    ("maxLength", "maxLength"),
    ("minItems", "minItems"),
    ("maxItems", "maxItems"),
    ("nullable", "nullable"),
    ("x-kubernetes-preserve-unknown-fields", "preserve-unknown-fields"),
    ("x-kubernetes-int-or-string", "int-or-string"),
    ("x-kubernetes-list-type", "list-type"),
    ("x-kubernetes-map-type", "map-type"),
];

fn public_fields() -> BTreeMap<(String, String), Field> {
    include_str!("contract/fields.tsv")
        .lines()
        .skip(1)
        .map(|line| {
            let columns: Vec<_> = line.split('\t').collect();
            let field = Field {
                kind: columns[2].to_owned(),
                is_required: columns[3] == "required",
                default: (!columns[4].is_empty()).then(|| columns[4].parse().unwrap()),
                constraints: constraints(columns[5]),
            };
            ((columns[0].to_owned(), columns[1].to_owned()), field)
        })
        .collect()
}

/// Reads `key=<JSON> key=<JSON>`. The number of rules is no constraint of a field.
fn constraints(mut text: &str) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    while let Some((key, rest)) = text.trim_start().split_once('=') {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        let value: Value = values.next().unwrap().unwrap();
        text = &rest[values.byte_offset()..];
        found.insert(key.to_owned(), value);
    }
    found.remove("cel-rules");
    found
}

fn our_fields() -> BTreeMap<(String, String), Field> {
    let mut fields = BTreeMap::new();
    for definition in crd::definitions() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_eq!(schema["required"], json!(["spec"]), "{kind}: {SPEC_IS_REQUIRED}");
        for part in ["spec", "status"] {
            walk(part, &schema["properties"][part], false, &mut |path, field| {
                fields.insert((kind.to_owned(), path.to_owned()), field);
            });
        }
    }
    fields
}

fn walk(path: &str, schema: &Value, is_required: bool, found: &mut impl FnMut(&str, Field)) {
    let is_either = schema["x-kubernetes-int-or-string"] == true;
    let mut constraints: BTreeMap<String, Value> =
        CONSTRAINTS.iter().filter_map(|(key, name)| Some(((*name).to_owned(), schema.get(*key)?.clone()))).collect();
    if let Some(keys) = schema.get("x-kubernetes-list-map-keys") {
        constraints.insert("list-map-keys".to_owned(), keys.clone());
    }
    constraints.values_mut().for_each(whole_numbers);
    let field = Field {
        kind: if is_either { "int-or-string" } else { schema["type"].as_str().unwrap_or_default() }.to_owned(),
        is_required,
        default: schema.get("default").cloned(),
        constraints,
    };
    found(path, field);
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

/// Bounds are floats in a definition and whole numbers in the facts.
fn whole_numbers(value: &mut Value) {
    if let Some(whole) = value.as_f64().filter(|number| number.fract() == 0.0) {
        #[allow(clippy::cast_possible_truncation)] // bounds are small
        let whole = whole as i64;
        *value = whole.into();
    }
}

#[test]
fn every_public_field_is_ours_and_every_field_of_ours_is_public_with_the_same_shape() {
    let (public, ours) = (public_fields(), our_fields());
    let on_purpose: BTreeSet<_> = DIFFERENCES.iter().map(|(kind, path, _)| ((*kind).to_owned(), (*path).to_owned())).collect();
    let paths: BTreeSet<_> = public.keys().chain(ours.keys()).collect();
    let differing: BTreeSet<_> = paths.into_iter().filter(|path| public.get(*path) != ours.get(*path)).cloned().collect();
    let wrong: Vec<_> = differing
        .difference(&on_purpose)
        .map(|path| format!("{} {}:\n  public {:?}\n  ours   {:?}", path.0, path.1, public.get(path), ours.get(path)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let needless: Vec<_> = on_purpose.difference(&differing).collect();
    assert!(needless.is_empty(), "these do not differ: take them from the list: {needless:?}");
}

/// Columns beyond those of the public API: status and reason of the `Ready` condition.
const ADDED_COLUMNS: [&str; 2] = ["READY", "STATUS"];

#[test]
fn kinds_have_the_public_names_columns_and_subresources() {
    let public: Vec<Value> = serde_json::from_str(include_str!("contract/kinds.json")).unwrap();
    let definitions = crd::definitions();
    assert_eq!(definitions.len(), public.len());
    for definition in definitions {
        let kind = &definition["spec"]["names"]["kind"];
        let expected = public.iter().find(|public| public["kind"] == *kind).expect("a public kind");
        let version = &definition["spec"]["versions"][0];
        assert_eq!(definition["spec"]["group"], expected["group"]);
        assert_eq!(definition["spec"]["scope"], expected["scope"]);
        assert_eq!(version["name"], expected["version"]);
        assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(true)), "{kind}");
        let is_public = |column: &&Value| expected["columns"].as_array().is_some_and(|public| public.contains(column));
        let (public, added): (Vec<&Value>, Vec<&Value>) =
            version["additionalPrinterColumns"].as_array().unwrap().iter().partition(is_public);
        assert_eq!(json!(public), expected["columns"], "{kind}");
        assert!(added.iter().all(|column| ADDED_COLUMNS.contains(&column["name"].as_str().unwrap())), "{kind}: {added:?}");
        assert!(version["additionalPrinterColumns"].as_array().unwrap().iter().any(|column| column["name"] == "STATUS"), "{kind}");
        assert_eq!(version["subresources"], expected["subresources"], "{kind}");
        let mut names = definition["spec"]["names"].clone();
        names.as_object_mut().unwrap().retain(|_, value| *value != json!([]));
        names["listKind"] = json!(format!("{}List", kind.as_str().unwrap()));
        assert_eq!(names, expected["names"], "{kind}");
    }
}

/// Messages that others may look for, by kind and path.
const PUBLIC_MESSAGES: [(&str, &str, &str); 9] = [
    ("Controller", "", "slurmKeyRef must be set when external is false"),
    ("Controller", "", "jwtKeyRef or jwtHs256KeyRef must be set when external is false"),
    ("Controller", "", "externalConfig must be set when external is true"),
    ("Controller", "", "slurm high availability (HA) mode requires existing PVC with an access mode of ReadWriteMany"),
    (
        "NodeSet",
        "/properties/updateStrategy",
        "scheduledUpdate.startTime and scheduledUpdate.duration are required when type is ScheduledUpdate",
    ),
    ("Accounting", "", "slurmKeyRef must be set when external is false"),
    ("Accounting", "", "jwtKeyRef or jwtHs256KeyRef must be set when external is false"),
    ("Accounting", "", "externalConfig must be set when external is true"),
    ("Token", "", "jwtKeyRef or jwtHs256KeyRef must be set"),
];

#[test]
fn rules_of_the_public_api_answer_with_its_words() {
    for (kind, path, message) in PUBLIC_MESSAGES {
        let definition = crd::definitions().into_iter().find(|definition| definition["spec"]["names"]["kind"] == kind).unwrap();
        let spec = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let rules = spec.pointer(&format!("{path}/x-kubernetes-validations")).and_then(Value::as_array).expect("rules");
        assert!(rules.iter().any(|rule| rule["message"].as_str().unwrap().starts_with(message)), "{kind}{path}: {message}");
    }
}

#[test]
fn definitions_stay_small_enough_for_a_client_side_apply() {
    for file in crd::files().unwrap() {
        assert!(file.yaml.len() < 200_000, "{} has {} bytes", file.name, file.yaml.len());
    }
}

#[test]
fn every_field_says_what_it_is() {
    let mut silent = Vec::new();
    for definition in crd::definitions() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        undescribed(&kind, schema, &mut silent);
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

fn undescribed(path: &str, schema: &Value, silent: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if property["description"].as_str().unwrap_or_default().len() < 10 {
            silent.push(path.clone());
        }
        undescribed(&path, property, silent);
        undescribed(&path, &property["items"], silent);
    }
}
