//! Stored revisions.

use k8s_openapi::{api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use slipway_api::API_VERSION;

/// A ControllerRevision. The data of foreign ones, which are as many as there are StatefulSets, is dropped.
#[derive(Resource, Clone, Debug, Default, Serialize)]
#[resource(inherit = ControllerRevision)]
pub struct RevisionView {
    pub metadata: ObjectMeta,
    pub revision: i64,
    pub data: Value,
}

impl<'de> Deserialize<'de> for RevisionView {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Whole {
            #[serde(deserialize_with = "slim")]
            metadata: ObjectMeta,
            #[serde(default)]
            revision: i64,
            #[serde(default)]
            data: Value,
        }
        let Whole { metadata, revision, data } = Whole::deserialize(input)?;
        let is_ours = metadata.owner_references.iter().flatten().any(|owner| owner.api_version == API_VERSION);
        Ok(Self { metadata, revision, data: if is_ours { data } else { Value::Null } })
    }
}

fn slim<'de, D: Deserializer<'de>>(input: D) -> Result<ObjectMeta, D::Error> {
    super::slim(input, &[])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_data_of_our_own_is_kept() {
        let revision = |api_version: &str| -> RevisionView {
            let owner = json!({ "apiVersion": api_version, "kind": "K", "name": "n", "uid": "u" });
            serde_json::from_value(json!({ "metadata": { "name": "r", "ownerReferences": [owner] }, "revision": 3, "data": { "spec": 1 } }))
                .unwrap()
        };
        assert_eq!(revision(API_VERSION).data, json!({ "spec": 1 }));
        assert_eq!(revision("apps/v1").data, Value::Null);
        assert_eq!(revision("apps/v1").revision, 3);
    }
}
