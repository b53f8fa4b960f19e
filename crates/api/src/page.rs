//! Reference pages, generated from the definitions: users read the doc comments there.

use std::fmt::Write;

use serde_json::Value;

use crate::{API_VERSION, crd, unserved::is_served};

/// A page in Markdown.
pub struct Page {
    /// File name.
    pub name: String,
    pub text: String,
}

/// Manifests shown on the pages, in the order of [`crd::definitions`].
const EXAMPLES: [&str; 6] = [
    include_str!("page/controller.yaml"),
    include_str!("page/nodeset.yaml"),
    include_str!("page/loginset.yaml"),
    include_str!("page/restapi.yaml"),
    include_str!("page/accounting.yaml"),
    include_str!("page/token.yaml"),
];

/// Manifests with the fields that [`EXAMPLES`] does not show.
const MORE: &str = include_str!("page/more.yaml");

/// One page for each kind, and an index.
pub fn pages() -> Result<Vec<Page>, serde_saphyr::Error> {
    let (definitions, manifests) = (crd::definitions(), examples()?);
    let mut pages = vec![Page { name: "README.md".to_owned(), text: index(&definitions) }];
    for (definition, example) in definitions.iter().zip(EXAMPLES) {
        let of_kind: Vec<_> = manifests.iter().filter(|manifest| manifest["kind"] == kind(definition)).collect();
        pages.push(Page { name: file_name(definition), text: page(definition, example, &of_kind) });
    }
    Ok(pages)
}

/// Every manifest that the pages take examples from.
pub fn examples() -> Result<Vec<Value>, serde_saphyr::Error> {
    let mut manifests: Vec<Value> = EXAMPLES.iter().map(|text| serde_saphyr::from_str(text)).collect::<Result<_, _>>()?;
    manifests.extend(serde_saphyr::from_multiple::<Value>(MORE)?);
    Ok(manifests)
}

fn kind(definition: &Value) -> &str {
    definition["spec"]["names"]["kind"].as_str().unwrap_or_default()
}

fn file_name(definition: &Value) -> String {
    format!("{}.md", kind(definition).to_lowercase())
}

fn schema(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

fn index(definitions: &[Value]) -> String {
    let mut text = format!("# Reference\n\nThe kinds of `{API_VERSION}`.\n\n| kind | what it is | served |\n|---|---|---|\n");
    for definition in definitions {
        let served = if is_served(kind(definition)) { "yes" } else { "not yet" };
        let what = description(schema(definition));
        line(&mut text, &format!("| [{}]({}) | {what} | {served} |", kind(definition), file_name(definition)));
    }
    text
}

fn page(definition: &Value, example: &str, manifests: &[&Value]) -> String {
    let (kind, schema) = (kind(definition), schema(definition));
    let mut text = format!("# {kind}\n\n{}\n", description(schema));
    if !is_served(kind) {
        line(&mut text, &format!("\n**Not served by this release yet:** a {kind} is stored, and nothing is done about it."));
    }
    let names = &definition["spec"]["names"];
    let short: Vec<_> = names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str).map(code).collect();
    line(&mut text, &format!("\n`kubectl get {}.{}`; short names {}.", plural(names), crate::GROUP, short.join(", ")));
    line(&mut text, &format!("\n## Example\n\n```yaml\n{example}```"));

    for (part, title) in [("spec", "Spec"), ("status", "Status")] {
        line(&mut text, &format!("\n## {title}\n\n| field | type | default | meaning | example |\n|---|---|---|---|---|"));
        let values: Vec<_> = manifests.iter().map(|manifest| &manifest[part]).collect();
        rows(part, &schema["properties"][part], &values, &mut text);
    }
    line(&mut text, "\n## What the API server refuses\n");
    rules(schema, &mut text);
    text
}

fn plural(names: &Value) -> &str {
    names["plural"].as_str().unwrap_or_default()
}

/// Adds a row for every field below `schema`, with the first of `values` that fits into a cell.
fn rows(path: &str, schema: &Value, values: &[&Value], text: &mut String) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let values: Vec<_> = values.iter().map(|values| &values[name]).filter(|value| !value.is_null()).collect();
        let kind = if required.contains(&Value::from(name.as_str())) { format!("{}, required", type_of(field)) } else { type_of(field) };
        let default = field.get("default").map(|default| code(&default.to_string())).unwrap_or_default();
        let example = values.iter().find_map(|value| shown(value)).unwrap_or_default();
        let row = [code(&path), kind, default, description(field), example];
        line(text, &format!("| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | ")));
        rows(&path, field, &values, text);
        let items: Vec<_> = values.iter().map(|value| &value[0]).collect();
        rows(&format!("{path}[]"), &field["items"], &items, text);
    }
}

/// The type in plain words.
fn type_of(field: &Value) -> String {
    if let Some(choices) = field["enum"].as_array() {
        return choices.iter().filter_map(Value::as_str).map(code).collect::<Vec<_>>().join(" or ");
    }
    if field["x-kubernetes-int-or-string"] == true {
        return "number or text".to_owned();
    }
    match field["type"].as_str() {
        Some("string") if field["format"] == "date-time" => "time".to_owned(),
        Some("string") => "text".to_owned(),
        Some("integer") => "number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => format!("list: {}", type_of(&field["items"])),
        Some("object") if field["additionalProperties"].is_object() => format!("map to {}", type_of(&field["additionalProperties"])),
        Some("object") if field["x-kubernetes-preserve-unknown-fields"] == true => "object, any field".to_owned(),
        _ => "object".to_owned(),
    }
}

/// The description on one line: doc comments are wrapped, table cells are not.
fn description(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A value for a table cell, or `None` if it is empty or too long; of a text, the first line.
fn shown(value: &Value) -> Option<String> {
    const MOST: usize = 70;
    let text = value.as_str().map_or_else(|| value.to_string(), |text| text.lines().next().unwrap_or_default().to_owned());
    (!text.is_empty() && text.len() <= MOST).then(|| code(&text))
}

/// Adds the messages of every rule, the object's own first.
fn rules(schema: &Value, text: &mut String) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        line(text, &format!("- {}", rule["message"].as_str().unwrap_or_default()));
    }
    for field in schema["properties"].as_object().into_iter().flatten().map(|(_, field)| field) {
        rules(field, text);
    }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn line(text: &mut String, content: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{content}");
}
