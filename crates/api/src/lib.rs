//! The public API: the kinds of `slinky.slurm.net/v1beta1`, and every name, label and annotation that others rely on.
//!
//! No I/O, no client, no clock. Every other crate takes its names, labels and reasons from this one.

mod accounting;
pub mod annotation;
pub mod child;
mod claim;
pub mod condition;
mod controller;
pub mod crd;
pub mod device;
pub mod digest;
pub mod env;
pub mod event;
mod external;
pub mod image;
pub mod label;
mod loginset;
mod metrics;
pub mod name;
mod nodeset;
pub mod owner;
pub mod page;
pub mod quantity;
mod raw;
mod reference;
mod restapi;
mod rule;
mod schema;
mod service;
pub mod slurm_node;
mod template;
mod token;
pub mod unserved;
mod update;
pub mod volume;

pub use accounting::{Accounting, AccountingSpec, AccountingStatus, Storage};
pub use controller::{ControllerSpec, ControllerStatus, HighAvailability, Persistence, SlurmController};
pub use external::External;
pub use loginset::{LoginSet, LoginSetSpec, LoginSetStatus, RollingPods, Strategy};
pub use metrics::{Endpoint, Metrics, ServiceMonitor};
pub use nodeset::{ClaimRetention, NodeSet, NodeSetSpec, NodeSetStatus, Partition, PruneRecords, Retention, ScalingMode, Ssh};
pub use raw::Raw;
pub use reference::{ConfigMapKeyRef, LocalRef, SecretKeyRef};
pub use restapi::{RestApi, RestApiSpec, RestApiStatus};
pub use service::ServiceTemplate;
pub use template::{Metadata, PodTemplate};
pub use token::{Token, TokenSpec, TokenStatus};
pub use update::{RollingNodes, ScheduledUpdate, UpdateKind, UpdateStrategy};

/// The API group of every kind.
pub const GROUP: &str = "slinky.slurm.net";
/// The only served version.
pub const VERSION: &str = "v1beta1";
/// `group/version`, as written in manifests and owner references.
pub const API_VERSION: &str = "slinky.slurm.net/v1beta1";

/// The field manager of every server-side apply. It must never change: fields of a former manager would stay forever.
pub const FIELD_MANAGER: &str = "slipway";
