//! The list of nodes by which commands check that nothing has changed since their decision.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use slipway_slurm::{
    name::NodeName,
    rest::{Client, RestError, kept::Kept, model::Node},
};
use tokio::time::Instant;

/// Age up to which a list serves for the next of many commands in a row: with a reason or an attribute of its own, 500 nodes would
/// otherwise mean 500 readings of all nodes.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// The last list, and what was written since.
#[derive(Default)]
pub(crate) struct Listed {
    nodes: Vec<Node>,
    read_at: Option<Instant>,
    /// Nodes written since then: the list may be wrong about them.
    written: HashSet<String>,
}

impl Listed {
    /// Forgets the list, so that the next question reads a new one.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Those of `nodes` that have not changed since the decision.
    pub(super) async fn meant(
        &mut self,
        client: &Client,
        nodes: impl IntoIterator<Item = &String>,
        is_meant: impl Fn(&Node) -> bool + Send + Sync,
    ) -> Result<Vec<NodeName>, RestError> {
        let wanted: BTreeSet<&str> = nodes.into_iter().map(String::as_str).collect();
        let is_good = self.read_at.is_some_and(|at| at.elapsed() < GOOD_FOR) && !wanted.iter().any(|node| self.written.contains(*node));
        if !is_good {
            self.forget();
            let (read_at, mut kept) = (Instant::now(), Kept::default());
            client.nodes(None, |node: Node| kept.push(node)).await?;
            let mut nodes = kept.finish()?;
            nodes.sort_by(|one, other| one.name.cmp(&other.name));
            (self.nodes, self.read_at) = (nodes, Some(read_at));
        }
        self.written.extend(wanted.iter().map(|node| (*node).to_owned()));
        let found = wanted.iter().filter_map(|name| self.nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok());
        let unchanged = found.map(|at| &self.nodes[at]).filter(|node| is_meant(node));
        Ok(unchanged.filter_map(|node| NodeName::parse(&node.name).ok()).collect())
    }
}
