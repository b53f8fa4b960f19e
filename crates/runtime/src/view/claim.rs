//! Claims.

use k8s_openapi::{api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize};

/// A claim, reduced to what the operator reads: its existence and its owners.
#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
#[resource(inherit = PersistentVolumeClaim)]
pub struct ClaimView {
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
}

impl ClaimView {
    pub fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

fn slim<'de, D: Deserializer<'de>>(input: D) -> Result<ObjectMeta, D::Error> {
    super::slim(input, &[])
}
