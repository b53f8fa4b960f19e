//! Pure functions that render a resource and its references as Kubernetes objects.
//!
//! Same input, same bytes: no clock, no randomness, no I/O. Objects are raw JSON, because users may set fields that our structs do not know.

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

/// A spec from which no object can be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    /// Path of the field, such as `spec.slurmctld.image`.
    pub field: String,
    /// Problem and remedy.
    pub problem: String,
}

impl Invalid {
    fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }

    /// The field contains, or leads to, an invalid name.
    fn name(field: &str, error: &impl std::error::Error) -> Self {
        Self::new(field, format!("is wrong: {error}"))
    }
}

/// Namespace and name of a resource; the API server sets both on every stored object.
fn identity(metadata: &ObjectMeta) -> (&str, &str) {
    (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

/// The image of a daemon's container. Fails if it is empty: no pod can be rendered without it.
fn image<'a>(container: Option<&'a Raw>, field: &str) -> Result<&'a str, Invalid> {
    container
        .and_then(|container| container.text("image"))
        .ok_or_else(|| Invalid::new(&format!("{field}.image"), "is empty: name the container image to run"))
}
