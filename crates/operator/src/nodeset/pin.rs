//! Which Kubernetes nodes the workers are pinned to.

use kube::{ResourceExt, runtime::reflector::ObjectRef};
use serde_json::Value;
use slipway_api::{NodeSet, NodeSetStatus, ScalingMode};
use slipway_plan::nodeset::{
    Pins, Worker,
    fit::{Demands, Fit, Node, Taint},
    parse_pins, pin_of, pins_text, plan_pins,
};
use slipway_runtime::view::{NodeView, TaintView};

use crate::context::Context;

/// The pins of one NodeSet, where it wants some.
pub(super) struct Pinning<'a> {
    nodeset: &'a NodeSet,
    /// What the pods demand of nodes; nothing where that cannot be known now.
    demands: Option<Demands>,
    /// As its status has them.
    pins: Pins,
    context: &'a Context,
}

impl<'a> Pinning<'a> {
    /// `pod` is any of the NodeSet's, as it would be made now. Where there is one for each Kubernetes node, they are bound to these anyway.
    pub(super) fn new(nodeset: &'a NodeSet, pod: Option<&Value>, context: &'a Context) -> Self {
        let demands = pod.filter(|_| is_wanted(nodeset)).and_then(|pod| Demands::parse(&pod["spec"]).ok());
        let written = nodeset.status.as_ref().and_then(|status| status.ordinal_to_node.as_ref());
        Self { nodeset, demands, pins: written.map(parse_pins).unwrap_or_default(), context }
    }

    /// Where a new pod has to go, if it does.
    pub(super) fn node(&self, ordinal: u32) -> Option<String> {
        let demands = self.demands.as_ref()?;
        pin_of(&self.pins, ordinal, |node| self.fit(demands, node)).map(str::to_owned)
    }

    /// Writes the pins into a status that has those of before. While it is not known what the pods demand, they stay.
    pub(super) fn report(&self, status: &mut NodeSetStatus, workers: &[Worker]) {
        if !is_wanted(self.nodeset) {
            status.ordinal_to_node = None;
        } else if let Some(demands) = &self.demands {
            let before = status.ordinal_to_node.as_ref().map(parse_pins).unwrap_or_default();
            status.ordinal_to_node = Some(pins_text(&plan_pins(&before, workers, |node| self.fit(demands, node))));
        }
    }

    /// How a node suits the pods; nothing where it is gone.
    fn fit(&self, demands: &Demands, node: &str) -> Option<Fit> {
        Some(fit(demands, self.context.stores.nodes.get(&ObjectRef::<NodeView>::new(node))?.as_ref()))
    }
}

fn is_wanted(nodeset: &NodeSet) -> bool {
    nodeset.spec.pin_to_node && nodeset.spec.scaling_mode == ScalingMode::StatefulSet
}

/// How a node suits pods with these demands.
pub(super) fn fit(demands: &Demands, node: &NodeView) -> Fit {
    let taints = node.spec.taints.iter().map(taint).collect();
    demands.fit(&Node { name: &node.name_any(), labels: node.labels(), taints })
}

fn taint(TaintView { key, value, effect }: &TaintView) -> Taint<'_> {
    Taint { key, value: value.as_deref().unwrap_or_default(), effect }
}
