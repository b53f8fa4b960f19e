//! Labels and annotations of rendered objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};
use slipway_api::{Metadata, annotation, label::Component};

/// Labels and annotations; later additions win.
#[derive(Clone, Default)]
pub(crate) struct Marks {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Marks {
    /// Labels and annotations that a child inherits from its resource.
    pub(crate) fn inherited(resource: &ObjectMeta) -> Self {
        let mut annotations = resource.annotations.clone().unwrap_or_default();
        annotations.retain(|key, _| !annotation::OF_TOOLS.iter().any(|prefix| key.starts_with(prefix)));
        Self { labels: resource.labels.clone().unwrap_or_default(), annotations }
    }

    /// Adds the user's labels and annotations of a template.
    pub(crate) fn with(mut self, user: Option<&Metadata>) -> Self {
        if let Some(Metadata { labels, annotations }) = user {
            self.labels.extend(labels.clone().unwrap_or_default());
            self.annotations.extend(annotations.clone().unwrap_or_default());
        }
        self
    }

    /// Adds the labels of a component.
    pub(crate) fn of(mut self, component: Component, instance: &str) -> Self {
        self.labels.extend(component.labels(instance).map(|(key, value)| (key.to_owned(), value)));
        self
    }

    pub(crate) fn label(mut self, key: &str, value: impl Into<String>) -> Self {
        self.labels.insert(key.to_owned(), value.into());
        self
    }

    pub(crate) fn annotation(mut self, key: &str, value: impl Into<String>) -> Self {
        self.annotations.insert(key.to_owned(), value.into());
        self
    }

    pub(crate) fn annotation_value(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// `metadata` of a pod template.
    pub(crate) fn of_template(&self) -> Value {
        json!({ "labels": self.labels, "annotations": self.annotations })
    }

    /// `metadata` of an object with owners.
    pub(crate) fn of_object(&self, owners: &[OwnerReference]) -> Value {
        json!({ "labels": self.labels, "annotations": self.annotations, "ownerReferences": owners })
    }
}

/// Labels as a JSON object.
pub(crate) fn selector<const N: usize>(labels: [(&'static str, String); N]) -> Value {
    labels.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect()
}
