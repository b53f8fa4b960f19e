//! Matches Kubernetes nodes with a pod, by the rules of the scheduler and the kubelet.
//!
//! Only name, labels and taints of a node count: free capacity is left to the scheduler.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Toleration};
use serde_json::Value;

/// The only node field that a selector can match.
const NAME_FIELD: &str = "metadata.name";

/// A pod's requirements for its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demands {
    node_name: Option<String>,
    labels: BTreeMap<String, String>,
    affinity: Option<NodeSelector>,
    tolerations: Vec<Toleration>,
}

/// The properties of a Kubernetes node that a pod can require.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    pub name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    pub taints: Vec<Taint<'a>>,
}

/// A taint, which keeps pods off a node.
#[derive(Clone, Copy, Debug)]
pub struct Taint<'a> {
    pub key: &'a str,
    pub value: &'a str,
    pub effect: &'a str,
}

/// Match of a node with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The node does not match.
    No,
    /// The node matches, but has a taint that evicts the pod.
    Repels,
    /// The node matches, but has a taint that admits no new pod; an existing one may stay.
    Keeps,
    /// The node matches and admits the pod.
    Yes,
}

impl Fit {
    /// True if the node matches, whatever its taints: they may be temporary.
    pub fn is_wanted(self) -> bool {
        self != Self::No
    }
}

impl Demands {
    /// Reads the requirements from a pod spec. Fails if an API server would reject the spec.
    pub fn parse(spec: &Value) -> Result<Self, serde_json::Error> {
        let required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].clone();
        Ok(Self {
            node_name: serde_json::from_value(spec["nodeName"].clone())?,
            labels: serde_json::from_value::<Option<_>>(spec["nodeSelector"].clone())?.unwrap_or_default(),
            affinity: serde_json::from_value(required)?,
            tolerations: serde_json::from_value::<Option<_>>(spec["tolerations"].clone())?.unwrap_or_default(),
        })
    }

    pub fn fit(&self, node: &Node<'_>) -> Fit {
        let has_name = self.node_name.as_deref().is_none_or(|name| name.is_empty() || name == node.name);
        let has_labels = self.labels.iter().all(|(key, value)| node.labels.get(key) == Some(value));
        // One of the terms must match. An empty list matches no node.
        let is_near = self.affinity.as_ref().is_none_or(|terms| terms.node_selector_terms.iter().any(|term| holds(term, node)));
        if !(has_name && has_labels && is_near) {
            return Fit::No;
        }
        let repels = |effect: &str| {
            let mut taints = node.taints.iter().filter(|taint| taint.effect == effect);
            taints.any(|taint| !self.tolerations.iter().any(|toleration| tolerates(toleration, *taint)))
        };
        match () {
            () if repels("NoExecute") => Fit::Repels,
            () if repels("NoSchedule") => Fit::Keeps,
            () => Fit::Yes,
        }
    }
}

/// True if the node meets every requirement of the term. An empty term matches no node.
fn holds(term: &NodeSelectorTerm, node: &Node<'_>) -> bool {
    let NodeSelectorTerm { match_expressions, match_fields } = term;
    let (labels, fields) = (match_expressions.as_deref().unwrap_or_default(), match_fields.as_deref().unwrap_or_default());
    let has_labels = labels.iter().all(|wanted| agrees(wanted, node.labels.get(&wanted.key).map(String::as_str)));
    let has_fields = fields.iter().all(|wanted| wanted.key == NAME_FIELD && is_name_wanted(wanted, node.name));
    !(labels.is_empty() && fields.is_empty()) && has_labels && has_fields
}

/// True if the node's label, or its absence, meets the requirement. An invalid requirement is never met.
fn agrees(wanted: &NodeSelectorRequirement, label: Option<&str>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let is_listed = || label.is_some_and(|label| values.iter().any(|value| value == label));
    let order = || match values {
        [value] => Some(label?.parse::<i64>().ok()?.cmp(&value.parse::<i64>().ok()?)),
        _ => None,
    };
    match wanted.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !values.is_empty() && !is_listed(),
        "Exists" => values.is_empty() && label.is_some(),
        "DoesNotExist" => values.is_empty() && label.is_none(),
        "Gt" => order().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => order().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

/// True if the name meets the requirement: `In` or `NotIn` with exactly one value.
fn is_name_wanted(wanted: &NodeSelectorRequirement, name: &str) -> bool {
    match (wanted.operator.as_str(), wanted.values.as_deref()) {
        ("In", Some([value])) => value == name,
        ("NotIn", Some([value])) => value != name,
        _ => false,
    }
}

fn tolerates(toleration: &Toleration, taint: Taint<'_>) -> bool {
    let said = |text: &Option<String>| text.clone().unwrap_or_default();
    let (key, effect, value) = (said(&toleration.key), said(&toleration.effect), said(&toleration.value));
    let is_about_it = (effect.is_empty() || effect == taint.effect) && (key.is_empty() || key == taint.key);
    is_about_it
        && match toleration.operator.as_deref().unwrap_or_default() {
            "" | "Equal" => value == taint.value,
            "Exists" => true,
            _ => false,
        }
}

#[cfg(test)]
mod tests;
