use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A Kubernetes object that the user writes and we pass on: a container, a pod spec, a service spec.
///
/// It stays raw JSON, because decoding it into a typed struct would silently drop every field that is newer than the struct.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(pub Map<String, Value>);

impl Raw {
    /// A string field at the top of the object, when it is there and not empty.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}

impl From<Raw> for Value {
    fn from(raw: Raw) -> Self {
        Self::Object(raw.0)
    }
}

impl JsonSchema for Raw {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Raw".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
    }
}
