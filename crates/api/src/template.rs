use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Raw;

/// Labels and annotations that the user adds to rendered objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Metadata {
    /// Labels to add.
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
    /// Pod spec, merged over the one that the operator generates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Raw>,
}

impl PodTemplate {
    /// The hostname (prefix) that the user wants for the pods, if any.
    pub fn hostname(&self) -> Option<&str> {
        self.spec.as_ref()?.text("hostname")
    }
}
