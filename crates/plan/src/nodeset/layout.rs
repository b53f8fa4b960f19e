//! Number and placement of a NodeSet's workers: by ordinal, or one on each matching Kubernetes node.

use std::collections::BTreeMap;

use super::{Observed, Sites, Slot, Worker, daemon, scale_in};

/// Placement of a NodeSet's workers.
#[derive(Clone, Copy, Debug)]
pub enum Layout<'a> {
    /// The requested number of workers, by ordinal.
    Numbered,
    /// One on each matching Kubernetes node.
    PerNode(&'a Sites),
    /// One on each matching Kubernetes node, but the matching nodes are unknown now. No worker is created or deleted.
    Untold,
}

impl<'a> Observed<'a> {
    /// True if a worker is of the other mode: it is deleted in turn and replaced.
    pub(super) fn is_displaced(&self, worker: &Worker) -> bool {
        matches!(worker.slot, Slot::Ordinal(_)) != matches!(self.policy.layout, Layout::Numbered)
    }

    /// The workers of the current mode.
    pub(super) fn own(&self) -> impl Iterator<Item = &'a Worker> {
        self.workers.iter().filter(|worker| !self.is_displaced(worker))
    }

    /// The workers of the current mode that fill a wanted slot, one for each slot.
    pub(super) fn counted(&self) -> Vec<&'a Worker> {
        match self.policy.layout {
            Layout::Numbered => self.own().collect(),
            Layout::Untold => daemon::keepers(self).into_values().collect(),
            Layout::PerNode(sites) => {
                let is_wanted = |node: &str| sites.get(node).is_some_and(super::Site::is_wanted);
                daemon::keepers(self).into_iter().filter(|(node, _)| is_wanted(node)).map(|(_, worker)| worker).collect()
            }
        }
    }

    /// The surplus workers.
    pub(super) fn excess(&self) -> Vec<&'a Worker> {
        match self.policy.layout {
            Layout::Numbered => {
                let own: Vec<&Worker> = self.own().collect();
                let going = own.iter().filter(|worker| worker.stage == super::Stage::Going).count();
                let surplus = own.len().saturating_sub(self.policy.replicas).saturating_sub(going);
                scale_in::scale_in(own, surplus).collect()
            }
            Layout::PerNode(sites) => daemon::excess(self, sites),
            Layout::Untold => Vec::new(),
        }
    }

    /// True if the worker's Kubernetes node now gives it another hostname: it is replaced like one from an older template.
    pub(super) fn is_misnamed(&self, worker: &Worker) -> bool {
        let Layout::PerNode(sites) = self.policy.layout else { return false };
        let site = worker.slot.node().and_then(|node| sites.get(node));
        site.is_some_and(|site| site.is_wanted() && site.hostname != worker.node)
    }

    /// True if a worker differs from the one that would be created in its slot now.
    pub(super) fn is_outdated(&self, worker: &Worker) -> bool {
        !worker.is_current || self.is_misnamed(worker)
    }

    /// The workers of this NodeSet, by their name in Slurm.
    pub(super) fn by_hostname(&self) -> BTreeMap<&'a str, &'a Worker> {
        self.workers.iter().map(|worker| (worker.node.as_str(), worker)).collect()
    }
}
