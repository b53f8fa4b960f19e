//! Whether a Kubernetes node suits a pod, as the scheduler and the kubelet judge it.
//!
//! Only what a node is and says of itself counts: whether there is room on it is the scheduler's to find out.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Toleration};
use serde_json::Value;

/// The one field of a node that can be asked for.
const NAME_FIELD: &str = "metadata.name";

/// What a pod demands of its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demands {
    node_name: Option<String>,
    labels: BTreeMap<String, String>,
    affinity: Option<NodeSelector>,
    tolerations: Vec<Toleration>,
}

/// A Kubernetes node, as far as a pod can demand something of it.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    pub name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    pub taints: Vec<Taint<'a>>,
}

/// What keeps pods off a node.
#[derive(Clone, Copy, Debug)]
pub struct Taint<'a> {
    pub key: &'a str,
    pub value: &'a str,
    pub effect: &'a str,
}

/// How a node suits a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It is another than the pod wants.
    No,
    /// It is one that the pod wants, and has a taint that lets no such pod be there.
    Repels,
    /// It is one that the pod wants, and has a taint that lets no such pod come; one that is there may stay.
    Keeps,
    /// It is one that the pod wants, and takes it.
    Yes,
}

impl Fit {
    /// Whether the node is one that the pod wants, whatever its taints say: they may pass.
    pub fn is_wanted(self) -> bool {
        self != Self::No
    }
}

impl Demands {
    /// Reads them from the spec of a pod. Fails where the spec is none that an API server would take.
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
        // One of the terms must hold; where there is none, none holds.
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

/// All that a term asks for must hold. One that asks for nothing never does.
fn holds(term: &NodeSelectorTerm, node: &Node<'_>) -> bool {
    let NodeSelectorTerm { match_expressions, match_fields } = term;
    let (labels, fields) = (match_expressions.as_deref().unwrap_or_default(), match_fields.as_deref().unwrap_or_default());
    let has_labels = labels.iter().all(|wanted| agrees(wanted, node.labels.get(&wanted.key).map(String::as_str)));
    let has_fields = fields.iter().all(|wanted| wanted.key == NAME_FIELD && is_name_wanted(wanted, node.name));
    !(labels.is_empty() && fields.is_empty()) && has_labels && has_fields
}

/// Whether a label, if the node has it, is as wanted. A demand that makes no sense is never met.
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

/// A name can only be asked for, or asked away, one at a time.
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
