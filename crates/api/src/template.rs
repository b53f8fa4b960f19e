use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Raw, rule};

/// Labels and annotations that the user adds to rendered objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Metadata {
    /// Labels to add. Those that the operator finds its objects by keep its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations to add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// The user's share of a pod template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct PodTemplate {
    /// Labels and annotations of the workload and its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// A Kubernetes PodSpec, merged over the one that the operator generates: what you write wins, lists merge by their keys, and fields that
    /// the operator does not know are passed on. `docs/merging.md` has the rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Raw>,
}

impl PodTemplate {
    /// The hostname (prefix) that the user wants for the pods, if any.
    pub fn hostname(&self) -> Option<&str> {
        self.spec.as_ref()?.text("hostname")
    }
}

/// The schema of a template whose hostname is a prefix: CEL sees only fields that the schema names.
pub(crate) fn with_hostname_prefix(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = PodTemplate::json_schema(generator);
    if let Some(spec) = schema.pointer_mut("/properties/spec") {
        spec["properties"] = json!({ "hostname": {
            "type": "string",
            "description": "Beginning of the nodes' host names, to which the number of the node is added; also the name of their partition, without `-` at its ends.",
            "x-kubernetes-validations": [rule::hostname_is_a_prefix()],
        }});
    }
    schema
}
