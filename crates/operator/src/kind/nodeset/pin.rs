//! Pins of workers to Kubernetes nodes.

use kube::{ResourceExt, runtime::reflector::ObjectRef};
use serde_json::Value;
use slipway_api::{NodeSet, NodeSetStatus, ScalingMode};
use slipway_plan::nodeset::{
    Pins, Worker,
    fit::{Demands, Fit, Node, Taint},
    parse_pins, pin_of, pins_text, plan_pins,
};
use slipway_runtime::view::{NodeView, TaintView};

use crate::world::context::Context;

/// Pins of one NodeSet, if it uses them.
pub(super) struct Pinning<'a> {
    nodeset: &'a NodeSet,
    /// Demands of the pods on nodes, or `None` if not known now.
    demands: Option<Demands>,
    /// Pins in the status.
    pins: Pins,
    context: &'a Context,
}

impl<'a> Pinning<'a> {
    /// `pod` is any pod of the NodeSet, as it would be created now. In DaemonSet mode pods are bound to their nodes anyway.
    pub(super) fn new(nodeset: &'a NodeSet, pod: Option<&Value>, context: &'a Context) -> Self {
        let demands = pod.filter(|_| is_wanted(nodeset)).and_then(|pod| Demands::parse(&pod["spec"]).ok());
        let written = nodeset.status.as_ref().and_then(|status| status.ordinal_to_node.as_ref());
        Self { nodeset, demands, pins: written.map(parse_pins).unwrap_or_default(), context }
    }

    /// The node that a new pod is pinned to, if any.
    pub(super) fn node(&self, ordinal: u32) -> Option<String> {
        let demands = self.demands.as_ref()?;
        pin_of(&self.pins, ordinal, |node| self.fit(demands, node)).map(str::to_owned)
    }

    /// Updates the pins in the status. They stay unchanged while the pods' demands are not known.
    pub(super) fn report(&self, status: &mut NodeSetStatus, workers: &[Worker]) {
        if !is_wanted(self.nodeset) {
            status.ordinal_to_node = None;
        } else if let Some(demands) = &self.demands {
            let before = status.ordinal_to_node.as_ref().map(parse_pins).unwrap_or_default();
            status.ordinal_to_node = Some(pins_text(&plan_pins(&before, workers, |node| self.fit(demands, node))));
        }
    }

    /// Fit of a node for the pods, or `None` if the node is gone.
    fn fit(&self, demands: &Demands, node: &str) -> Option<Fit> {
        Some(fit(demands, self.context.stores.nodes.get(&ObjectRef::<NodeView>::new(node))?.as_ref()))
    }
}

fn is_wanted(nodeset: &NodeSet) -> bool {
    nodeset.spec.pin_to_node && nodeset.spec.scaling_mode == ScalingMode::StatefulSet
}

/// Fit of a node for pods with these demands.
pub(super) fn fit(demands: &Demands, node: &NodeView) -> Fit {
    let taints = node.spec.taints.iter().map(taint).collect();
    demands.fit(&Node { name: &node.name_any(), labels: node.labels(), taints })
}

fn taint(TaintView { key, value, effect }: &TaintView) -> Taint<'_> {
    Taint { key, value: value.as_deref().unwrap_or_default(), effect }
}
