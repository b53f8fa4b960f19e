//! Kubernetes nodes as sites for workers, in DaemonSet mode.

use std::collections::BTreeMap;

use slipway_api::annotation::HOSTNAME_OVERRIDE;

use super::{Worker, fit::Fit};

/// A Kubernetes node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Hostname of the worker there, which is also its name in Slurm.
    pub hostname: String,
    pub fit: Fit,
    /// Reason why no worker can be created although the node would accept one, if any: the hostname is invalid or taken.
    pub refusal: Option<String>,
}

/// All Kubernetes nodes, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    by_node: BTreeMap<String, Site>,
}

impl Site {
    /// True if a worker should run there.
    pub fn is_wanted(&self) -> bool {
        self.fit == Fit::Yes && self.refusal.is_none()
    }

    /// True if an existing worker may stay. A taint against new pods lets it stay, and so does a hostname that two nodes share: it was first.
    pub fn keeps(&self) -> bool {
        matches!(self.fit, Fit::Yes | Fit::Keeps)
    }
}

impl Sites {
    /// Refuses nodes whose hostname belongs to another node or to a pod of another NodeSet: Slurm would mix up the jobs of the two workers.
    ///
    /// `others` maps the hostnames of other NodeSets' workers to their pods. Of two nodes with the same hostname, the one with a worker under that
    /// name keeps it, otherwise the first by name.
    pub fn new(mut by_node: BTreeMap<String, Site>, workers: &[Worker], others: &BTreeMap<String, String>) -> Self {
        let running = workers.iter().filter(|worker| worker.host.is_some());
        let held: BTreeMap<&str, &str> = running.filter_map(|worker| Some((worker.node.as_str(), worker.slot.node()?))).rev().collect();
        let holds = |node: &str, site: &Site| held.get(site.hostname.as_str()) == Some(&node);
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        for (node, site) in by_node.iter().filter(|(_, site)| site.keeps() && site.refusal.is_none()) {
            if holds(node, site) || (site.fit == Fit::Yes && !owners.contains_key(&site.hostname)) {
                owners.insert(site.hostname.clone(), node.clone());
            }
        }
        for (node, site) in by_node.iter_mut().filter(|(_, site)| site.fit == Fit::Yes && site.refusal.is_none()) {
            if holds(node, site) {
                continue;
            }
            let hostname = &site.hostname;
            let way_out = format!("annotate one of the nodes with `{HOSTNAME_OVERRIDE}` and another name");
            let owner = owners.get(hostname).filter(|owner| *owner != node);
            let by_node = owner.map(|owner| format!("its hostname `{hostname}` is also that of node `{owner}`: {way_out}"));
            let by_pod = || {
                let pod = others.get(hostname)?;
                Some(format!(
                    "its hostname `{hostname}` is that of pod `{pod}`, a worker of another NodeSet: let one NodeSet have the node"
                ))
            };
            site.refusal = by_node.or_else(by_pod).map(|why| format!("node `{node}` gets no new worker, as {why}"));
        }
        Self { by_node }
    }

    pub fn get(&self, node: &str) -> Option<&Site> {
        self.by_node.get(node)
    }

    /// Number of nodes that should have a worker.
    pub fn wanted(&self) -> usize {
        self.by_node.values().filter(|site| site.is_wanted()).count()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Site)> {
        self.by_node.iter().map(|(node, site)| (node.as_str(), site))
    }
}
