//! What users write: the kinds of `slinky.slurm.net/v1beta1`, and every name, label and annotation that others rely on.
//!
//! No I/O, no client, no clock. Every other crate spells a name, a label or a reason by asking this one.

pub mod annotation;
pub mod child;
pub mod condition;
mod controller;
pub mod crd;
pub mod digest;
pub mod image;
pub mod label;
pub mod name;
mod nodeset;
pub mod owner;
mod raw;
mod reference;
mod restapi;
mod service;
mod template;

pub use controller::{ControllerSpec, ControllerStatus, Persistence, SlurmController};
pub use nodeset::{NodeSet, NodeSetSpec, NodeSetStatus, Partition};
pub use raw::Raw;
pub use reference::{LocalRef, SecretKeyRef};
pub use restapi::{RestApi, RestApiSpec, RestApiStatus};
pub use service::ServiceTemplate;
pub use template::{Metadata, PodTemplate};

/// The API group of every kind.
pub const GROUP: &str = "slinky.slurm.net";
/// The only served version.
pub const VERSION: &str = "v1beta1";
/// `group/version`, as it stands in manifests and owner references.
pub const API_VERSION: &str = "slinky.slurm.net/v1beta1";

/// The field manager of every server-side apply. It must never change: fields of a former manager would stay for ever.
pub const FIELD_MANAGER: &str = "slipway";
