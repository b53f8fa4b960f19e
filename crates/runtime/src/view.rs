//! Reduced views of objects that exist by the thousands.
//!
//! A full pod costs a hundred kilobytes of memory, most of it in fields that are never read here. A view keeps what is read. It is read-only: writing
//! a view back would erase the rest.

mod claim;
mod node;
mod pod;
mod revision;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};

pub use claim::ClaimView;
pub use node::{NodeConditionView, NodeSpecView, NodeStatusView, NodeView, TaintView};
pub use pod::{
    CommandView, ContainerStateView, ContainerView, EnvView, PodConditionView, PodSpecView, PodStatusView, PodView, TerminatedView,
    WaitingView,
};
pub use revision::RevisionView;

/// Deserializes the few metadata fields that are used and the annotations in `read`; drops the heavy ones (`managedFields`, most annotations).
fn slim<'de, D: Deserializer<'de>>(input: D, read: &[&str]) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Slim {
        name: Option<String>,
        generate_name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        labels: Option<BTreeMap<String, String>>,
        annotations: Option<BTreeMap<String, String>>,
        owner_references: Option<Vec<OwnerReference>>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
    }
    let Slim {
        name,
        generate_name,
        namespace,
        uid,
        resource_version,
        labels,
        annotations,
        owner_references,
        creation_timestamp,
        deletion_timestamp,
    } = Slim::deserialize(input)?;
    let annotations = annotations.map(|all| all.into_iter().filter(|(key, _)| read.contains(&key.as_str())).collect());
    Ok(ObjectMeta {
        name,
        generate_name,
        namespace,
        uid,
        resource_version,
        labels,
        annotations: annotations.filter(|kept: &BTreeMap<_, _>| !kept.is_empty()),
        owner_references,
        creation_timestamp,
        deletion_timestamp,
        ..ObjectMeta::default()
    })
}
