use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Metadata, Raw};

/// The user's share of a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct ServiceTemplate {
    /// Labels and annotations of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// Service spec to start from; the operator adds its port and its selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Raw>,
    /// Port of the Service; the daemon's own port when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Node port for that port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i32>,
}
