use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Where a daemon listens that runs outside this Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct External {
    /// Host name or address of the daemon.
    pub host: String,
    /// Port of the daemon.
    #[schemars(schema_with = "schema::integer")]
    pub port: i64,
}
