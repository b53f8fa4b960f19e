//! Fields unknown to Kubernetes, in the objects that are passed on as they are.
//!
//! Nothing checks those objects before they reach the child, and that is too late: an API server drops an unknown field from a pod and rejects a
//! whole workload. A field that is newer than our library looks the same, so this only ever warns.

use std::sync::LazyLock;

use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaim, PodSpec, ServiceSpec};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::Kind;

/// Kubernetes release whose fields are known.
const RELEASE: &str = "Kubernetes 1.35";
/// Maximum edit distance between a misspelled field and the suggested one.
const LIKELY: usize = 2;

static CONTAINER: LazyLock<Value> = LazyLock::new(schema::<Container>);
static POD: LazyLock<Value> = LazyLock::new(schema::<PodSpec>);
static SERVICE: LazyLock<Value> = LazyLock::new(schema::<ServiceSpec>);
static CLAIM: LazyLock<Value> = LazyLock::new(schema::<PersistentVolumeClaim>);

/// One sentence for each field of `spec` that is unknown to Kubernetes.
pub(super) fn unknown_fields(kind: Kind, spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for field in kind.containers() {
        walk(&spec[field], &CONTAINER, &CONTAINER, &format!("spec.{field}"), &mut found);
    }
    walk(&spec["template"]["spec"], &POD, &POD, "spec.template.spec", &mut found);
    if kind.has_service() {
        walk(&spec["service"]["spec"], &SERVICE, &SERVICE, "spec.service.spec", &mut found);
    }
    if kind == Kind::NodeSet {
        for (index, claim) in spec["volumeClaimTemplates"].as_array().into_iter().flatten().enumerate() {
            walk(claim, &CLAIM, &CLAIM, &format!("spec.volumeClaimTemplates[{index}]"), &mut found);
        }
    }
    found
}

fn walk(value: &Value, schema: &Value, root: &Value, path: &str, found: &mut Vec<String>) {
    let schema = resolve(schema, root);
    match value {
        Value::Object(fields) => {
            let Some(known) = schema["properties"].as_object() else {
                if let others @ Value::Object(_) = &schema["additionalProperties"] {
                    fields.iter().for_each(|(key, inner)| walk(inner, others, root, &format!("{path}.{key}"), found));
                }
                return;
            };
            // `$patch` removes or replaces things, as `docs/merging.md` describes.
            for (field, inner) in fields.iter().filter(|(field, _)| *field != "$patch") {
                match known.get(field) {
                    Some(inner_schema) => walk(inner, inner_schema, root, &format!("{path}.{field}"), found),
                    None => found.push(sentence(path, field, known.keys())),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &schema["items"], root, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
        Some(pointer) => root.pointer(pointer).unwrap_or(&Value::Null),
        None => schema,
    }
}

fn sentence<'a>(path: &str, field: &str, known: impl Iterator<Item = &'a String>) -> String {
    let nearest = known.map(|name| (strsim::damerau_levenshtein(&field.to_lowercase(), &name.to_lowercase()), name)).min();
    match nearest.filter(|(distance, _)| *distance <= LIKELY) {
        Some((_, name)) => format!("{path}.{field}: {RELEASE} has no such field: did you mean `{name}`?"),
        None => format!("{path}.{field}: {RELEASE} has no such field: it is passed on as it is"),
    }
}

fn schema<T: JsonSchema>() -> Value {
    SchemaGenerator::default().into_root_schema_for::<T>().into()
}
