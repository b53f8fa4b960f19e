//! Which Kubernetes nodes the workers are pinned to.

use kube::{ResourceExt, runtime::reflector::ObjectRef};
use serde_json::Value;
use slipway_api::{NodeSet, NodeSetStatus};
use slipway_plan::nodeset::{
    Worker,
    fit::{Demands, Fit, Node, Taint},
    parse_pins, pin_of, pins_text, plan_pins,
};
use slipway_runtime::view::NodeView;

use crate::context::Context;

/// The pins of one NodeSet, where it wants some.
pub(super) struct Pinning<'a> {
    nodeset: &'a NodeSet,
    /// What the pods demand of nodes; nothing where that cannot be known now.
    demands: Option<Demands>,
    context: &'a Context,
}

impl<'a> Pinning<'a> {
    /// `pod` is any of the NodeSet's, as it would be made now.
    pub(super) fn new(nodeset: &'a NodeSet, pod: Option<&Value>, context: &'a Context) -> Self {
        let demands = pod.filter(|_| nodeset.spec.pin_to_node).and_then(|pod| Demands::parse(&pod["spec"]).ok());
        Self { nodeset, demands, context }
    }

    /// Where a new pod has to go, if it does.
    pub(super) fn node(&self, ordinal: u32) -> Option<String> {
        let demands = self.demands.as_ref()?;
        let pins = parse_pins(self.nodeset.status.as_ref()?.ordinal_to_node.as_ref()?);
        pin_of(&pins, ordinal, |node| self.fit(demands, node)).map(str::to_owned)
    }

    /// Writes the pins into a status that has those of before. While it is not known what the pods demand, they stay.
    pub(super) fn report(&self, status: &mut NodeSetStatus, workers: &[Worker]) {
        if !self.nodeset.spec.pin_to_node {
            status.ordinal_to_node = None;
        } else if let Some(demands) = &self.demands {
            let before = parse_pins(status.ordinal_to_node.as_ref().unwrap_or(&std::collections::BTreeMap::new()));
            status.ordinal_to_node = Some(pins_text(&plan_pins(&before, workers, |node| self.fit(demands, node))));
        }
    }

    /// How a node suits the pods; nothing where it is gone.
    fn fit(&self, demands: &Demands, node: &str) -> Option<Fit> {
        let node = self.context.stores.nodes.get(&ObjectRef::<NodeView>::new(node))?;
        let taint = |taint: &'_ slipway_runtime::view::TaintView| {
            (taint.key.clone(), taint.value.clone().unwrap_or_default(), taint.effect.clone())
        };
        let taints: Vec<_> = node.spec.taints.iter().map(taint).collect();
        let taints = taints.iter().map(|(key, value, effect)| Taint { key, value, effect }).collect();
        Some(demands.fit(&Node { name: &node.name_any(), labels: node.labels(), taints }))
    }
}
