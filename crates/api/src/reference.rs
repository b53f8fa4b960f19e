use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, extend("x-kubernetes-map-type" = "atomic"))]
pub struct LocalRef {
    /// Name of the object.
    #[serde(default)]
    pub name: String,
}

/// Names one key of a Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretKeyRef {
    /// Key in the Secret's data.
    pub key: String,
    /// Name of the Secret.
    #[serde(default)]
    pub name: String,
    /// Whether the Secret or the key may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// Names one key of a ConfigMap in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, extend("x-kubernetes-map-type" = "atomic"))]
pub struct ConfigMapKeyRef {
    /// Key in the ConfigMap's data.
    pub key: String,
    /// Name of the ConfigMap.
    #[serde(default)]
    pub name: String,
    /// Whether the ConfigMap or the key may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}
