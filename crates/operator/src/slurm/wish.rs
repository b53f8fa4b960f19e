//! What can be left for a cluster's task to tell Slurm.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use jiff::Timestamp;
use slipway_api::slurm_node::REASON_PREFIX;
use slipway_plan::nodeset::Hold;
use slipway_slurm::{
    name::NodeName,
    reason::Reason,
    rest::{
        Client, RestError,
        error::Class,
        list::Hosts,
        model::{Node, NodeState, NodeUpdate},
    },
};

use super::hold;

/// Something to tell Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Read the configuration once more, and why. Only for one that was checked: slurmctld says that all is well and then ends itself over a bad one.
    Reconfigure(String),
    /// Let no new job come to these nodes, and why, without our prefix.
    Drain(Vec<String>, String),
    /// Let jobs come again to nodes that are drained.
    Undrain(Vec<String>),
    /// Let jobs come again to nodes that are down.
    Resume(Vec<String>),
    /// Set nodes down whose pods are gone, and why, without our prefix. With each node, since when the slurmd that is gone had run: one that started
    /// later is not meant.
    SetDown(BTreeMap<String, Option<Timestamp>>, String),
    /// Write comments on nodes, by node.
    Describe(BTreeMap<String, String>),
}

impl Wish {
    pub(super) async fn carry_out(&self, client: &Client) -> Result<(), RestError> {
        match self {
            Self::Reconfigure(_) => client.reconfigure().await,
            Self::Drain(nodes, why) => {
                let is_meant = |node: &Node| matches!(hold(node), Hold::Open | Hold::DownByUs | Hold::DrainedByUs);
                update(client, nodes, is_meant, &NodeUpdate::drain(reason(why).as_str())).await
            }
            Self::Undrain(nodes) => update(client, nodes, |node| hold(node) == Hold::DrainedByUs, &NodeUpdate::undrain()).await,
            Self::Resume(nodes) => update(client, nodes, is_held_by_us, &NodeUpdate::resume()).await,
            Self::SetDown(nodes, why) => {
                let is_meant = |node: &Node| is_up_and_ours(node) && nodes.get(&node.name) == Some(&node.slurmd_start_time.moment());
                update(client, nodes.keys(), is_meant, &NodeUpdate::down(reason(why).as_str())).await
            }
            Self::Describe(comments) => describe(client, comments).await,
        }
    }
}

/// Whether only we keep jobs from it, and it is back. One that was down a moment ago may have come back by itself, and be drained still: a resume
/// lifts either.
fn is_held_by_us(node: &Node) -> bool {
    match hold(node) {
        Hold::DownByUs => true,
        Hold::DrainedByUs => !node.state.has(&NodeState::Down) || !node.state.has(&NodeState::NotResponding),
        Hold::Open | Hold::ByOthers | Hold::Unknown => false,
    }
}

fn is_up_and_ours(node: &Node) -> bool {
    matches!(hold(node), Hold::Open | Hold::DrainedByUs) && !node.state.has(&NodeState::Down)
}

fn reason(why: &str) -> Reason {
    Reason::of(&format!("{REASON_PREFIX}{why}"))
}

/// One call for all nodes that are still as they were when it was decided, and one to see that: what an administrator said about a node a moment
/// ago is not overwritten.
async fn update(
    client: &Client,
    nodes: impl IntoIterator<Item = &String>,
    is_meant: impl Fn(&Node) -> bool + Send + Sync,
    update: &NodeUpdate,
) -> Result<(), RestError> {
    let wanted: BTreeSet<&str> = nodes.into_iter().map(String::as_str).collect();
    let mut unchanged: Vec<NodeName> = Vec::new();
    let mut take = |node: Node| {
        if wanted.contains(node.name.as_str()) && is_meant(&node) {
            unchanged.extend(NodeName::parse(&node.name).ok());
        }
    };
    client.nodes(None, &mut take).await?;
    match Hosts::of(&unchanged) {
        Some(hosts) => client.update_nodes(&hosts, update).await,
        None => Ok(()),
    }
}

/// A call for each node: Slurm takes one comment for all that are named. What it refuses for one does not keep the others from theirs.
async fn describe(client: &Client, comments: &BTreeMap<String, String>) -> Result<(), RestError> {
    let mut refused = Ok(());
    for (node, comment) in comments {
        let Ok(node) = NodeName::parse(node) else { continue };
        match client.update_node(&node, &NodeUpdate::comment(comment)).await {
            Err(error) if error.class() == Class::External => refused = Err(error),
            told => told?,
        }
    }
    refused
}

impl fmt::Display for Wish {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reconfigure(why) => write!(out, "reconfigure: {why}"),
            Self::Drain(nodes, why) => write!(out, "drain {}: {why}", nodes.join(",")),
            Self::Undrain(nodes) => write!(out, "undrain {}", nodes.join(",")),
            Self::Resume(nodes) => write!(out, "resume {}", nodes.join(",")),
            Self::SetDown(nodes, why) => write!(out, "set down {}: {why}", nodes.keys().cloned().collect::<Vec<_>>().join(",")),
            Self::Describe(comments) => write!(out, "describe {} nodes", comments.len()),
        }
    }
}

#[cfg(test)]
mod tests;
