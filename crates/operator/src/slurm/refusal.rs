//! Node attributes that Slurm refused.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use slipway_plan::nodeset::{NodeAttribute, Refusal};
use tokio::time::Instant;

/// Time until a retry, as the cause of a refusal may disappear unnoticed.
const TRY_AGAIN: Duration = Duration::from_mins(5);

type ByNode = BTreeMap<String, Vec<(NodeAttribute, String, Instant)>>;

/// Refused attributes by node: at most one topology and one list of features for each.
#[derive(Default)]
pub(super) struct Refusals(Mutex<ByNode>);

impl Refusals {
    pub(super) fn note(&self, nodes: &[String], attribute: &NodeAttribute, why: &str) {
        let now = Instant::now();
        let mut refusals = self.locked();
        for node in nodes {
            let of_node = refusals.entry(node.clone()).or_default();
            of_node.retain(|(other, ..)| std::mem::discriminant(other) != std::mem::discriminant(attribute));
            of_node.push((attribute.clone(), why.to_owned(), now));
        }
    }

    /// Refusals of a node that still count.
    pub(super) fn of(&self, node: &str) -> Vec<Refusal> {
        let refusals = self.locked();
        let of_node = refusals.get(node).into_iter().flatten();
        let counts = of_node.filter(|(.., at)| at.elapsed() < TRY_AGAIN);
        counts
            .map(|(attribute, why, at)| Refusal {
                attribute: attribute.clone(),
                why: why.clone(),
                again_in: TRY_AGAIN.saturating_sub(at.elapsed()),
            })
            .collect()
    }

    /// Clears all refusals: Slurm has another configuration, which may have what was missing.
    pub(super) fn clear(&self) {
        self.locked().clear();
    }

    fn locked(&self) -> MutexGuard<'_, ByNode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(attribute: &str) -> NodeAttribute {
        NodeAttribute::Topology(attribute.to_owned())
    }

    fn attributes(refusals: &Refusals, node: &str) -> Vec<NodeAttribute> {
        refusals.of(node).into_iter().map(|refusal| refusal.attribute).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_counts_until_its_time_is_over_or_another_takes_its_place() {
        let refusals = Refusals::default();
        let features = NodeAttribute::Features { all: vec!["w".to_owned()], active: vec!["w".to_owned()] };
        refusals.note(&["a".to_owned(), "b".to_owned()], &topology("t:s1"), "no such unit");
        refusals.note(&["a".to_owned()], &features, "busy");
        refusals.note(&["a".to_owned()], &topology("t:s2"), "no such unit");
        assert_eq!(attributes(&refusals, "a"), [features, topology("t:s2")]);
        assert_eq!(attributes(&refusals, "b"), [topology("t:s1")]);
        tokio::time::advance(TRY_AGAIN).await;
        assert_eq!(attributes(&refusals, "a"), []);
    }

    #[tokio::test(start_paused = true)]
    async fn another_configuration_is_a_reason_to_try_again() {
        let refusals = Refusals::default();
        refusals.note(&["a".to_owned()], &topology("t:s1"), "no such unit");
        refusals.clear();
        assert_eq!(attributes(&refusals, "a"), []);
    }
}
