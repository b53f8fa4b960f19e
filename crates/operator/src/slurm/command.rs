//! Commands that a cluster's task sends to Slurm.

pub(super) mod listed;

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use slipway_api::{
    image::SLURM_USER,
    slurm_node::{REASON_PREFIX, is_our_reason},
};
use slipway_plan::nodeset::{Booking, Hold, MAINT, NodeAttribute};
use slipway_slurm::{
    hostlist::Hostlist,
    name::NodeName,
    reason::Reason,
    rest::{
        Client, RestError,
        error::Class,
        list::Hosts,
        model::{Node, NodeState, NodeUpdate, Number, ReservationWrite},
    },
};

use self::listed::Listed;
use super::{hold, question::MAX_HOSTS};

/// Records deleted by one command, so that other commands do not wait for hundreds of calls. The rest follows in the next one.
const MOST_FORGOTTEN: usize = 500;

/// Nodes queried by name before a hold is lifted or a node is set DOWN; all of them if there are no more.
const ASKED_BY_NAME: usize = 3;

/// A command to Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlurmCommand {
    /// Reads the configuration again, with the cause. Only for a checked one: slurmctld reports success and then exits over a bad one.
    Reconfigure(String),
    /// Drains nodes, with the reason without our prefix.
    Drain(Vec<String>, String),
    /// Undrains nodes that are drained. Each node has the reason of the drain to lift: one that was replaced in the meantime stays.
    Undrain(BTreeMap<String, String>),
    /// Resumes nodes that are DOWN. Each node has the reason that is to be lifted.
    Resume(BTreeMap<String, String>),
    /// Sets nodes DOWN whose pods are gone, with the reason without our prefix.
    SetDown(BTreeMap<String, Gone>, String),
    /// Sets the topology or features of nodes.
    SetAttribute(Vec<String>, NodeAttribute),
    /// Writes comments, by node.
    Describe(BTreeMap<String, String>),
    /// Deletes records of nodes whose pods are gone. Each node has the start time of the slurmd that is gone: one that started later is not affected.
    Forget(BTreeMap<String, Option<Timestamp>>),
    /// Creates or changes the reservation with this name; deletes it if `None`.
    Reserve(String, Option<Booking>),
}

/// A slurmd whose pod is gone, as it was when that was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its start time: one that started later is not affected.
    pub started: Option<Timestamp>,
    /// True if slurmctld did not hear from it: one that responds again may run jobs.
    pub is_silent: bool,
}

impl Gone {
    fn is_unchanged(self, node: &Node) -> bool {
        self.started == node.slurmd_start_time.moment() && (!self.is_silent || node.state.has(&NodeState::NotResponding))
    }
}

/// Data in which the effect of a command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Changed nodes.
    ChangedNodes,
    /// All nodes: Slurm does not count the effect as a change.
    AllNodes,
    Reservations,
    /// The configuration, and changed nodes.
    Configuration,
}

impl SlurmCommand {
    /// Data to read after the command.
    pub(super) fn reading(&self) -> Reading {
        match self {
            Self::Reconfigure(_) => Reading::Configuration,
            Self::Reserve(..) => Reading::Reservations,
            Self::Forget(_) => Reading::AllNodes,
            Self::Drain(..) | Self::Undrain(_) | Self::Resume(_) | Self::SetDown(..) | Self::SetAttribute(..) | Self::Describe(_) => {
                Reading::ChangedNodes
            }
        }
    }

    /// True if many of them in a row share one list of nodes, and one reading afterwards.
    pub(super) fn is_one_of_many(&self) -> bool {
        matches!(self, Self::Drain(..) | Self::SetAttribute(..))
    }

    pub(super) async fn carry_out(&self, client: &Client, listed: &mut Listed) -> Result<(), RestError> {
        if !self.is_one_of_many() {
            listed.forget();
        }
        match self {
            Self::Reconfigure(_) => client.reconfigure().await,
            Self::Drain(nodes, why) => {
                let is_meant = |node: &Node| matches!(hold(node), Hold::Open | Hold::DownByUs | Hold::DrainedByUs);
                update(client, listed, nodes, is_meant, &NodeUpdate::drain(reason(why).as_str())).await
            }
            Self::Undrain(nodes) => {
                let is_meant = |node: &Node| hold(node) == Hold::DrainedByUs && nodes.get(&node.name) == Some(&node.reason);
                update_surely(client, listed, nodes.keys(), is_meant, &NodeUpdate::undrain()).await
            }
            Self::Resume(nodes) => {
                let is_meant = |node: &Node| is_held_by_us(node) && nodes.get(&node.name) == Some(&node.reason);
                update_surely(client, listed, nodes.keys(), is_meant, &NodeUpdate::resume()).await
            }
            Self::SetDown(nodes, why) => {
                let is_meant = |node: &Node| is_up_and_ours(node) && nodes.get(&node.name).is_some_and(|gone| gone.is_unchanged(node));
                update_surely(client, listed, nodes.keys(), is_meant, &NodeUpdate::down(reason(why).as_str())).await
            }
            Self::SetAttribute(nodes, attribute) => {
                let (is_meant, change): (fn(&Node, &NodeAttribute) -> bool, _) = match attribute {
                    NodeAttribute::Topology(topology) => {
                        (|node, attribute| *attribute != NodeAttribute::Topology(node.topology.clone()), NodeUpdate::topology(topology))
                    }
                    NodeAttribute::Address(address) => (
                        |node, attribute| {
                            node.state.has(&NodeState::NotResponding) && *attribute != NodeAttribute::Address(node.address.clone())
                        },
                        NodeUpdate::address(address),
                    ),
                    NodeAttribute::Features { all, active } => {
                        let change =
                            NodeUpdate { features: Some(all.clone()), active_features: Some(active.clone()), ..NodeUpdate::default() };
                        // Recent changes by others to its features are kept.
                        (|node, attribute| attribute.fits(&node.features, &node.active_features), change)
                    }
                };
                update(client, listed, nodes, |node| is_meant(node, attribute), &change).await
            }
            Self::Describe(comments) => describe(client, comments).await,
            Self::Forget(nodes) => forget(client, listed, nodes).await,
            Self::Reserve(name, booking) => reserve(client, name, booking.as_ref()).await,
        }
    }
}

/// True if only we hold the node and it is back. A node that was DOWN may have come back by itself and still be drained: a resume lifts both.
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

/// Updates all nodes that have not changed since the decision, with one call to check that and one to write: a recent change by an administrator is
/// not overwritten.
async fn update(
    client: &Client,
    listed: &mut Listed,
    nodes: impl IntoIterator<Item = &String>,
    is_meant: impl Fn(&Node) -> bool + Send + Sync,
    update: &NodeUpdate,
) -> Result<(), RestError> {
    match Hosts::of(&listed.meant(client, nodes, is_meant).await?) {
        Some(hosts) => client.update_nodes(&hosts, update).await,
        None => Ok(()),
    }
}

/// Like `update`, for changes that lift a hold or kill jobs. The list may come from a server that lags behind and lack an administrator's recent
/// change, so a few nodes are also queried by name. If one differs, no command is sent, and the next reconcile decides again.
async fn update_surely(
    client: &Client,
    listed: &mut Listed,
    nodes: impl IntoIterator<Item = &String>,
    is_meant: impl Fn(&Node) -> bool + Send + Sync,
    update: &NodeUpdate,
) -> Result<(), RestError> {
    let unchanged = listed.meant(client, nodes, &is_meant).await?;
    for name in unchanged.iter().step_by(unchanged.len().div_ceil(ASKED_BY_NAME).max(1)) {
        if !is_meant(&client.node(name).await?) {
            return Ok(());
        }
    }
    match Hosts::of(&unchanged) {
        Some(hosts) => client.update_nodes(&hosts, update).await,
        None => Ok(()),
    }
}

/// Writes each comment with its own call: Slurm sets one comment for all named nodes. A refusal for one node does not stop the others.
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

/// Deletes unused, empty records with one call each, since Slurm accepts one name at a time. Reserved ones stay: Slurm itself refuses only once the
/// reservation has begun. A refusal for one does not stop the others.
async fn forget(client: &Client, listed: &mut Listed, nodes: &BTreeMap<String, Option<Timestamp>>) -> Result<(), RestError> {
    let is_meant = |node: &Node| is_forgettable(node) && nodes.get(&node.name) == Some(&node.slurmd_start_time.moment());
    let mut gone = listed.meant(client, nodes.keys(), is_meant).await?;
    if gone.is_empty() {
        return Ok(());
    }
    let mut reserved = Vec::new();
    client.reservations(None, |reservation| reserved.push(reservation.node_list)).await?;
    let hosts = |list: &String| Hostlist::parse(list).and_then(|hosts| hosts.to_set(MAX_HOSTS));
    let reserved: Vec<_> = reserved.iter().filter(|list| !list.trim().is_empty()).map(hosts).collect();
    // A list that cannot be parsed may name any of them.
    gone.retain(|node| reserved.iter().all(|hosts| hosts.as_ref().is_ok_and(|hosts| !hosts.contains(node.as_str()))));
    let mut refused = Ok(());
    for node in gone.iter().take(MOST_FORGOTTEN) {
        // The list may come from a server that lags behind.
        match client.node(node).await {
            Ok(now) if is_meant(&now) => {}
            Ok(_) | Err(RestError::NotFound { .. }) => continue,
            Err(error) => return Err(error),
        }
        match client.delete_node(node).await {
            Err(error) if error.class() == Class::External => refused = Err(error),
            told => told?,
        }
    }
    refused
}

/// True if a record is unused, has no job, and no one else drained it. A node that waits to be powered up never had a pod.
fn is_forgettable(node: &Node) -> bool {
    const OTHERS: &[NodeState] = &[NodeState::Future, NodeState::External, NodeState::Cloud, NodeState::PoweredDown, NodeState::PoweringUp];
    let is_empty = node.state.is_clear() && !node.state.is_busy() && node.alloc_cpus == 0 && !node.state.has_any(OTHERS);
    // A slurmctld killed before it saved a termination restores the previous state, and sets the node DOWN only after SlurmdTimeout.
    let is_out_of_use = match () {
        () if node.state.has(&NodeState::Drain) => is_our_reason(&node.reason),
        () => node.state.has_any(&[NodeState::Down, NodeState::NotResponding]),
    };
    is_empty && is_out_of_use
}

/// Creates, changes or deletes a reservation if it has not changed since the decision. One that is not, or no longer, of our kind is left alone. The
/// next reading shows it.
async fn reserve(client: &Client, name: &str, booking: Option<&Booking>) -> Result<(), RestError> {
    let there = match client.reservation(name).await {
        Ok(reservation) => Some(reservation.flags.iter().any(|flag| flag == MAINT)),
        Err(RestError::NotFound { .. }) => None,
        Err(error) => return Err(error),
    };
    match booking {
        Some(booking) if there == (!booking.is_new).then_some(true) => client.write_reservation(&written(name, booking)).await,
        None if there == Some(true) => match client.delete_reservation(name).await {
            Err(RestError::NotFound { .. }) => Ok(()),
            told => told,
        },
        _ => Ok(()),
    }
}

/// Request that writes a reservation. Only Slurm's own user may use a new one. Later changes send no users, so those that an administrator adds stay.
fn written(name: &str, booking: &Booking) -> ReservationWrite {
    let Booking { is_new, start, minutes, nodes, flags } = booking;
    ReservationWrite {
        name: name.to_owned(),
        start_time: start.map(Number::from),
        duration: u64::try_from(*minutes).ok().map(Number::Set),
        node_list: nodes.iter().cloned().collect(),
        users: if *is_new { vec![SLURM_USER.to_owned()] } else { Vec::new() },
        flags: flags.iter().cloned().collect(),
        ..ReservationWrite::default()
    }
}

impl fmt::Display for SlurmCommand {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reconfigure(why) => write!(out, "reconfigure: {why}"),
            Self::Drain(nodes, why) => write!(out, "drain {}: {why}", nodes.join(",")),
            Self::Undrain(nodes) => write!(out, "undrain {}", nodes.keys().cloned().collect::<Vec<_>>().join(",")),
            Self::Resume(nodes) => write!(out, "resume {}", nodes.keys().cloned().collect::<Vec<_>>().join(",")),
            Self::SetDown(nodes, why) => write!(out, "set down {}: {why}", nodes.keys().cloned().collect::<Vec<_>>().join(",")),
            Self::SetAttribute(nodes, attribute) => write!(out, "update {}: {attribute}", nodes.join(",")),
            Self::Describe(comments) => write!(out, "describe {} nodes", comments.len()),
            Self::Forget(nodes) => write!(out, "forget {}", nodes.keys().cloned().collect::<Vec<_>>().join(",")),
            Self::Reserve(name, Some(booking)) => {
                let nodes: Vec<&str> = booking.nodes.iter().map(String::as_str).collect();
                write!(out, "reserve {} in `{name}` for {} minutes", nodes.join(","), booking.minutes)
            }
            Self::Reserve(name, None) => write!(out, "unreserve `{name}`"),
        }
    }
}

#[cfg(test)]
mod tests;
