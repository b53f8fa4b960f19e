//! Secrets as hashes: values are dropped while they are read.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize};
use slipway_api::digest;

/// A Secret without its values.
#[derive(Resource, Clone, Debug, Serialize, Deserialize)]
#[resource(inherit = Secret)]
pub(crate) struct SecretDigest {
    pub(crate) metadata: ObjectMeta,
    #[serde(default, rename = "data", deserialize_with = "forget_values")]
    pub(crate) content: Content,
}

/// Hashes of a Secret's values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    /// Hash of each value that is not empty, by key.
    pub(crate) values: BTreeMap<String, String>,
    /// Hash over all values.
    pub(crate) hash: String,
}

fn forget_values<'de, D: Deserializer<'de>>(input: D) -> Result<Content, D::Error> {
    let data: BTreeMap<String, ByteString> = Option::deserialize(input)?.unwrap_or_default();
    let values: BTreeMap<String, Vec<u8>> = data.into_iter().map(|(key, value)| (key, value.0)).collect();
    let hash = digest::of_map(&values);
    let of_one = |(key, value): (String, Vec<u8>)| (key.clone(), digest::of_map(&BTreeMap::from([(key, value)])));
    Ok(Content { values: values.into_iter().filter(|(_, value)| !value.is_empty()).map(of_one).collect(), hash })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_value_survives_reading() {
        // `hunter2` in base64
        let secret: SecretDigest =
            serde_json::from_value(json!({"metadata": {"name": "s"}, "data": {"k": "aHVudGVyMg==", "empty": ""}})).unwrap();
        assert_eq!(secret.content.values.keys().collect::<Vec<_>>(), ["k"]);
        assert_eq!(secret.content.hash, digest::of_map(&BTreeMap::from([("k".to_owned(), "hunter2")])));
        let printed = format!("{secret:?}{}", serde_json::to_string(&secret).unwrap());
        assert!(!printed.contains("hunter2") && !printed.contains("aHVudGVyMg"), "{printed}");
    }

    #[test]
    fn a_secret_may_be_empty() {
        let secret: SecretDigest = serde_json::from_value(json!({"metadata": {}, "data": null})).unwrap();
        assert_eq!(secret.content, Content::default());
    }
}
