//! What can be left for a cluster's task to tell Slurm.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use slipway_api::slurm_node::REASON_PREFIX;
use slipway_plan::nodeset::Hold;
use slipway_slurm::{
    name::NodeName,
    reason::Reason,
    rest::{
        Client, RestError,
        list::Hosts,
        model::{Node, NodeUpdate},
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
    /// Set nodes down whose pods are gone, and why, without our prefix.
    SetDown(Vec<String>, String),
    /// Write comments on nodes, by node.
    Describe(BTreeMap<String, String>),
}

impl Wish {
    pub(super) async fn carry_out(&self, client: &Client) -> Result<(), RestError> {
        match self {
            Self::Reconfigure(_) => client.reconfigure().await,
            Self::Drain(nodes, why) => {
                let reason = Reason::of(&format!("{REASON_PREFIX}{why}"));
                update(client, nodes, &[Hold::Open, Hold::DownByUs, Hold::DrainedByUs], &NodeUpdate::drain(reason.as_str())).await
            }
            Self::Undrain(nodes) => update(client, nodes, &[Hold::DrainedByUs], &NodeUpdate::undrain()).await,
            Self::Resume(nodes) => update(client, nodes, &[Hold::DownByUs], &NodeUpdate::resume()).await,
            Self::SetDown(nodes, why) => {
                let reason = Reason::of(&format!("{REASON_PREFIX}{why}"));
                update(client, nodes, &[Hold::Open, Hold::DrainedByUs], &NodeUpdate::down(reason.as_str())).await
            }
            Self::Describe(comments) => {
                for (node, comment) in comments {
                    let Ok(node) = NodeName::parse(node) else { continue };
                    client.update_node(&node, &NodeUpdate::comment(comment)).await?;
                }
                Ok(())
            }
        }
    }
}

/// One call for all nodes that are still as they were when it was decided, and one to see that: what an administrator said about a node a moment
/// ago is not overwritten.
async fn update(client: &Client, nodes: &[String], expected: &[Hold], update: &NodeUpdate) -> Result<(), RestError> {
    let wanted: BTreeSet<&str> = nodes.iter().map(String::as_str).collect();
    let mut unchanged: Vec<NodeName> = Vec::new();
    let mut take = |node: Node| {
        if wanted.contains(node.name.as_str()) && expected.contains(&hold(&node)) {
            unchanged.extend(NodeName::parse(&node.name).ok());
        }
    };
    client.nodes(None, &mut take).await?;
    match Hosts::of(&unchanged) {
        Some(hosts) => client.update_nodes(&hosts, update).await,
        None => Ok(()),
    }
}

impl fmt::Display for Wish {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reconfigure(why) => write!(out, "reconfigure: {why}"),
            Self::Drain(nodes, why) => write!(out, "drain {}: {why}", nodes.join(",")),
            Self::Undrain(nodes) => write!(out, "undrain {}", nodes.join(",")),
            Self::Resume(nodes) => write!(out, "resume {}", nodes.join(",")),
            Self::SetDown(nodes, why) => write!(out, "set down {}: {why}", nodes.join(",")),
            Self::Describe(comments) => write!(out, "describe {} nodes", comments.len()),
        }
    }
}
