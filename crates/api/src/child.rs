//! Objects that the operator creates for a resource, as raw JSON with a key.

use std::fmt;

use serde_json::Value;

use crate::{annotation, digest};

/// Kinds of children that are applied (worker pods are created and deleted, never applied).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChildKind {
    ConfigMap,
    Service,
    StatefulSet,
    Deployment,
    PodDisruptionBudget,
    ServiceMonitor,
}

impl ChildKind {
    /// Child kinds that every cluster serves and that are watched. ServiceMonitor is not among them: its kind comes with the Prometheus operator.
    pub const ALL: [Self; 5] = [Self::ConfigMap, Self::Service, Self::StatefulSet, Self::Deployment, Self::PodDisruptionBudget];

    /// API group; empty for the core group.
    pub fn group(self) -> &'static str {
        match self {
            Self::ConfigMap | Self::Service => "",
            Self::StatefulSet | Self::Deployment => "apps",
            Self::PodDisruptionBudget => "policy",
            Self::ServiceMonitor => "monitoring.coreos.com",
        }
    }

    /// `apiVersion` in manifests.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::ConfigMap | Self::Service => "v1",
            Self::StatefulSet | Self::Deployment => "apps/v1",
            Self::PodDisruptionBudget => "policy/v1",
            Self::ServiceMonitor => "monitoring.coreos.com/v1",
        }
    }

    /// `kind` in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Service => "Service",
            Self::StatefulSet => "StatefulSet",
            Self::Deployment => "Deployment",
            Self::PodDisruptionBudget => "PodDisruptionBudget",
            Self::ServiceMonitor => "ServiceMonitor",
        }
    }

    /// Plural name in URLs and roles.
    pub fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Service => "services",
            Self::StatefulSet => "statefulsets",
            Self::Deployment => "deployments",
            Self::PodDisruptionBudget => "poddisruptionbudgets",
            Self::ServiceMonitor => "servicemonitors",
        }
    }
}

/// Name of the CustomResourceDefinition of ServiceMonitors.
pub const SERVICE_MONITOR_DEFINITION: &str = "servicemonitors.monitoring.coreos.com";

/// Identity of a child.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildKey {
    pub kind: ChildKind,
    pub namespace: String,
    pub name: String,
}

impl ChildKey {
    pub fn new(kind: ChildKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl fmt::Display for ChildKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} `{}/{}`", self.kind.as_str(), self.namespace, self.name)
    }
}

/// Desired state of a child.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    pub key: ChildKey,
    pub body: Value,
}

impl Child {
    /// Completes `body` (metadata and content) with its identity and with [`annotation::RENDERED_HASH`].
    pub fn new(kind: ChildKind, namespace: &str, name: &str, mut body: Value) -> Self {
        body["apiVersion"] = kind.api_version().into();
        body["kind"] = kind.as_str().into();
        body["metadata"]["name"] = name.into();
        body["metadata"]["namespace"] = namespace.into();
        let hash = digest::of_json(&body);
        body["metadata"]["annotations"][annotation::RENDERED_HASH] = hash.into();
        Self { key: ChildKey::new(kind, namespace, name), body }
    }
}
