//! How many workers a NodeSet has, and where: by number, or one on each Kubernetes node that suits.

use std::collections::BTreeMap;

use super::{Observed, Sites, Slot, Worker, daemon, scale_in};

/// Where the workers of a NodeSet belong.
#[derive(Clone, Copy, Debug)]
pub enum Layout<'a> {
    /// As many as were asked for, by number.
    Numbered,
    /// One on each Kubernetes node that suits.
    PerNode(&'a Sites),
    /// One on each Kubernetes node that suits, and which those are cannot be told now. Nobody comes and nobody leaves.
    Untold,
}

impl<'a> Observed<'a> {
    /// Whether a worker is of the other mode: it leaves, in turn, and others take its place.
    pub(super) fn is_displaced(&self, worker: &Worker) -> bool {
        matches!(worker.slot, Slot::Ordinal(_)) != matches!(self.layout, Layout::Numbered)
    }

    /// The workers of the present mode.
    pub(super) fn own(&self) -> impl Iterator<Item = &'a Worker> {
        self.workers.iter().filter(|worker| !self.is_displaced(worker))
    }

    /// Those of them that stand for a place where one is wanted, one for each.
    pub(super) fn counted(&self) -> Vec<&'a Worker> {
        match self.layout {
            Layout::Numbered => self.own().collect(),
            Layout::Untold => daemon::keepers(self).into_values().collect(),
            Layout::PerNode(sites) => {
                let is_wanted = |node: &str| sites.get(node).is_some_and(super::Site::is_wanted);
                daemon::keepers(self).into_iter().filter(|(node, _)| is_wanted(node)).map(|(_, worker)| worker).collect()
            }
        }
    }

    /// Those that are too many.
    pub(super) fn excess(&self) -> Vec<&'a Worker> {
        match self.layout {
            Layout::Numbered => {
                let own: Vec<&Worker> = self.own().collect();
                let going = own.iter().filter(|worker| worker.stage == super::Stage::Going).count();
                let surplus = own.len().saturating_sub(self.replicas).saturating_sub(going);
                scale_in::scale_in(own, surplus).collect()
            }
            Layout::PerNode(sites) => daemon::excess(self, sites),
            Layout::Untold => Vec::new(),
        }
    }

    /// Whether the Kubernetes node of a worker gives it another hostname than it has: it is replaced like one from an older template.
    pub(super) fn is_misnamed(&self, worker: &Worker) -> bool {
        let Layout::PerNode(sites) = self.layout else { return false };
        let site = worker.slot.node().and_then(|node| sites.get(node));
        site.is_some_and(|site| site.is_wanted() && site.hostname != worker.node)
    }

    /// Whether a worker is not what would be made in its place now.
    pub(super) fn is_outdated(&self, worker: &Worker) -> bool {
        !worker.is_current || self.is_misnamed(worker)
    }

    /// The workers of this NodeSet that have each name in Slurm.
    pub(super) fn by_hostname(&self) -> BTreeMap<&'a str, &'a Worker> {
        self.workers.iter().map(|worker| (worker.node.as_str(), worker)).collect()
    }
}
