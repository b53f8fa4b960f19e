//! Pure: a resource and what it refers to become Kubernetes objects.
//!
//! Same input, same bytes: no clock, no randomness, nothing read. Objects are raw JSON, because users may put fields into them that no
//! struct of ours knows.

pub mod controller;
#[cfg(test)]
mod fixture;
pub mod merge;
mod metadata;
pub mod monitor;
pub mod nodeset;
mod probe;
pub mod restapi;
mod service;
mod sidecar;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use slipway_api::Raw;

/// A spec that no object can be made from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    /// Path of the field, such as `spec.slurmctld.image`.
    pub field: String,
    /// What is wrong with it and what to do.
    pub problem: String,
}

impl Invalid {
    fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }

    /// The field holds, or leads to, a name that cannot be.
    fn name(field: &str, error: &impl std::error::Error) -> Self {
        Self::new(field, format!("is wrong: {error}"))
    }
}

/// Namespace and name of a resource; the API server gives every stored one both.
fn identity(metadata: &ObjectMeta) -> (&str, &str) {
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

/// The image of a daemon's container, without which no pod can be made.
fn image<'a>(container: Option<&'a Raw>, field: &str) -> Result<&'a str, Invalid> {
    container
        .and_then(|container| container.text("image"))
        .ok_or_else(|| Invalid::new(&format!("{field}.image"), "is empty: name the container image to run"))
}
