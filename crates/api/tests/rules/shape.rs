//! What a structural schema says beside its rules, as the API server checks it.

use regex::Regex;
use serde_json::Value;

const DATE_TIME: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$";

/// Everything that is wrong with the shape of an object, in the server's words.
pub(crate) fn problems(schema: &Value, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check("", schema, object, &mut found);
    found
}

fn check(path: &str, schema: &Value, value: &Value, found: &mut Vec<String>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    if !has_type(schema, value) {
        found.push(format!("{path}: Invalid value: must be of type {}", schema["type"]));
        return;
    }
    if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
        found.push(format!("{path}: Unsupported value: {value}"));
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !Regex::new(pattern).unwrap().is_match(text)
    {
        found.push(format!("{path}: Invalid value: {path} in body should match '{pattern}'"));
    }
    if let (Some(least), Some(number)) = (schema["minimum"].as_f64(), value.as_f64())
        && number < least
    {
        found.push(format!("{path}: Invalid value: {path} in body should be greater than or equal to {least}"));
    }
    if schema["format"] == "int32" && value.as_i64().is_some_and(|number| i32::try_from(number).is_err()) {
        found.push(format!("{path}: Invalid value: {path} in body must be of type int32"));
    }
    if schema["format"] == "date-time" && value.as_str().is_some_and(|text| !Regex::new(DATE_TIME).unwrap().is_match(text)) {
        found.push(format!("{path}: Invalid value: {path} in body must be of type date-time"));
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(name).is_none() {
            found.push(format!("{}: Required value", joined(path, name)));
        }
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        // Beside lists and maps, the server drops a null before it looks.
        if let Some(value) = value.get(name).filter(|value| !value.is_null() || inner["nullable"] == true) {
            check(&joined(path, name), inner, value, found);
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(&format!("{path}[{index}]"), &schema["items"], item, found);
    }
    if schema["additionalProperties"].is_object() {
        for (name, value) in value.as_object().into_iter().flatten() {
            check(&joined(path, name), &schema["additionalProperties"], value, found);
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_i64() || value.is_string();
    }
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    }
}
