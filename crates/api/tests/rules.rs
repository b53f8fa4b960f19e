//! Every rule of the schema on one object that it accepts and one that it refuses, without a server.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "rules/shape.rs"]
mod shape;
#[path = "rules/table.rs"]
mod table;

use std::{collections::BTreeMap, sync::LazyLock};

use kube_cel::{CompiledSchema, ErrorKind, Validator, compile_schema};
use serde::de::DeserializeOwned;
use serde_json::Value;
use slipway_api::{Accounting, LoginSet, NodeSet, RestApi, SlurmController, Token, crd, page};

/// The schema of every kind, with its rules compiled.
static SCHEMAS: LazyLock<BTreeMap<String, (Value, CompiledSchema)>> = LazyLock::new(|| {
    let of = |definition: &Value| {
        let schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let compiled = compile_schema(&schema);
        (definition["spec"]["names"]["kind"].as_str().unwrap().to_owned(), (schema, compiled))
    };
    crd::definitions().iter().map(of).collect()
});

/// What the server would say, as far as it can be known without one.
fn refusals(object: &Value, old: Option<&Value>) -> Vec<String> {
    let (schema, compiled) = &SCHEMAS[object["kind"].as_str().unwrap()];
    let mut found = shape::problems(schema, object);
    let (object, old) = (without_nulls(object), old.map(without_nulls));
    for error in Validator::new().validate_compiled(compiled, &object, old.as_ref()).err().into_iter().flatten() {
        let is_answer = matches!(error.kind, ErrorKind::ValidationFailure);
        // An object of the wrong shape is refused before rules are looked at.
        assert!(is_answer || !found.is_empty(), "rule `{}` cannot be judged: {error}", error.rule);
        found.push(format!("{}: {}", error.field_path, error.message));
    }
    found
}

/// The server drops nulls where they are not allowed; where they are, ours mean the same as nothing.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

/// Whether our own types can read what the server would store.
fn is_readable(object: &Value) -> Result<(), serde_json::Error> {
    fn read<K: DeserializeOwned>(object: &Value) -> Result<(), serde_json::Error> {
        serde_json::from_value::<K>(object.clone()).map(drop)
    }
    let object = &without_nulls(object);
    match object["kind"].as_str().unwrap() {
        "Controller" => read::<SlurmController>(object),
        "NodeSet" => read::<NodeSet>(object),
        "LoginSet" => read::<LoginSet>(object),
        "RestApi" => read::<RestApi>(object),
        "Accounting" => read::<Accounting>(object),
        _ => read::<Token>(object),
    }
}

#[test]
fn every_rule_accepts_what_it_should_and_refuses_what_it_should() {
    let mut wrong = Vec::new();
    for table::Case { kind, says, from, accepted, refused } in table::cases() {
        if let Some(from) = &from {
            wrong.extend(refusals(from, None).into_iter().map(|why| format!("{kind}, `{says}`: cannot start from there: {why}")));
        }
        wrong.extend(refusals(&accepted, from.as_ref()).into_iter().map(|why| format!("{kind}, `{says}`: should be accepted: {why}")));
        wrong.extend(is_readable(&accepted).err().map(|why| format!("{kind}, `{says}`: {why}")));
        let answers = refusals(&refused, from.as_ref());
        if !answers.iter().any(|answer| answer.contains(&says)) {
            wrong.push(format!("{kind}, `{says}`: should be refused, but {answers:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Messages of every rule in the definitions, by kind.
fn messages() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for definition in crd::definitions() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
        collect(&definition, &mut |message| found.push((kind.to_owned(), message.to_owned())));
    }
    found
}

fn collect(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            for rule in fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
                found(rule["message"].as_str().unwrap());
            }
            fields.values().for_each(|inner| collect(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect(inner, found)),
        _ => {}
    }
}

#[test]
fn no_rule_is_missing_from_the_table_and_each_names_a_remedy() {
    let cases = table::cases();
    for (kind, message) in messages() {
        assert!(cases.iter().any(|case| case.kind == kind && message.starts_with(&case.says)), "{kind}: no row for `{message}`");
        let (what, remedy) = message.split_once(": ").unwrap_or_else(|| panic!("{kind}: `{message}` names no remedy"));
        assert!(what.len() > 20 && remedy.len() > 10, "{kind}: `{message}`");
    }
}

#[test]
fn manifests_with_nulls_and_empty_fields_are_accepted() {
    for manifest in table::manifests() {
        assert_eq!(refusals(&manifest, None), Vec::<String>::new(), "{} {}", manifest["kind"], manifest["metadata"]["name"]);
        is_readable(&manifest).unwrap();
    }
}

#[test]
fn every_field_that_users_write_has_an_example_on_its_page() {
    let mut silent = Vec::new();
    for page in page::pages().unwrap() {
        let rows = page.text.lines().filter(|line| line.starts_with("| `spec."));
        let without = rows.filter(|row| row.ends_with("|  |") && !row.contains("| object"));
        silent.extend(without.map(|row| format!("{}: {}", page.name, row.split('|').nth(1).unwrap().trim())));
    }
    assert!(silent.is_empty(), "{silent:#?}");
}
