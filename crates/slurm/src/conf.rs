//! slurm.conf: a model of what we decide, and its text.
//!
//! The text is the same, byte for byte, for the same model: its hash restarts slurmctld.

use std::fmt::{Display, Write};

use crate::{
    item::{Item, NotItems},
    name::{ClusterName, HostName, NodeSetName, NotAName, PartitionName},
};

/// What the operator decides about a cluster's configuration. Everything else is Slurm's default or the user's [`Self::extra`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmConf {
    pub cluster_name: ClusterName,
    /// One per slurmctld, the primary first.
    pub hosts: Vec<ControllerHost>,
    /// The name that clients use for whichever slurmctld is active.
    pub address: HostName,
    pub nodesets: Vec<NodeSetLine>,
    /// The user's text, verbatim.
    pub extra: String,
}

/// A slurmctld: the hostname it sees itself by, and where others reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerHost {
    pub hostname: HostName,
    pub address: HostName,
}

/// A named set of nodes, chosen by a feature of the same name, and the partition on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSetLine {
    name: NodeSetName,
    partition: Option<(PartitionName, PartitionOptions)>,
}

impl NodeSetLine {
    /// A node set without a partition.
    pub fn new(name: NodeSetName) -> Self {
        Self { name, partition: None }
    }

    /// Adds the partition of the same name; fails where Slurm would take that name for something else.
    pub fn with_partition(self, options: PartitionOptions) -> Result<Self, NotAName> {
        let Self { name, .. } = self;
        let partition = PartitionName::parse(name.as_str())?;
        if name.as_str().eq_ignore_ascii_case("all") {
            let problem = "`Nodes=all` is every node of the cluster";
            return Err(NotAName::new("name for a partition of its own nodes", name.as_str(), problem, "choose another"));
        }
        Ok(Self { name, partition: Some((partition, options)) })
    }
}

/// The user's share of a partition line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionOptions(Vec<Item>);

impl PartitionOptions {
    /// Reads items; a comment behind them is dropped, as Slurm does.
    ///
    /// Fails on what is no item, on a second line, and on keys that would end slurmctld here.
    pub fn parse(text: &str) -> Result<Self, NotItems> {
        if text.trim_end().contains(['\n', '\r']) {
            return Err(NotItems::new("has more than one line: write all items on one"));
        }
        let items = Item::parse_all(text.split('#').next().unwrap_or_default())?;
        match items.iter().find(|item| item.is("PartitionName") || item.is("Include")) {
            Some(item) => Err(NotItems::new(format!("has `{item}`, which is no option of a partition: take it out"))),
            None => Ok(Self(items)),
        }
    }
}

/// Ports, users and paths that the images and the configuration must agree on.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub slurm_user: &'static str,
    pub slurmctld_port: i32,
    pub slurmd_port: i32,
    pub state_dir: &'static str,
    pub slurmd_spool_dir: &'static str,
    pub slurmctld_log: &'static str,
    pub slurmd_log: &'static str,
    pub jwt_key: &'static str,
}

/// Dynamic nodes need room in the node table that slurmctld allots when it starts.
const MAX_NODE_COUNT: u32 = 1024;

impl SlurmConf {
    /// Where slurmctld keeps its state.
    pub fn state_save_location(cluster_name: &ClusterName, layout: &Layout) -> String {
        format!("{}/{cluster_name}", layout.state_dir)
    }

    /// The file's text.
    pub fn text(&self, layout: &Layout) -> String {
        let Self { cluster_name, hosts, address, nodesets, extra } = self;
        let mut file = Text::default();

        file.section("GENERAL");
        file.set("ClusterName", &[cluster_name]);
        file.set("SlurmUser", &[&layout.slurm_user]);
        for ControllerHost { hostname, address } in hosts {
            file.set("SlurmctldHost", &[hostname, &"(", address, &")"]);
        }
        file.set("SlurmctldPort", &[&layout.slurmctld_port]);
        file.set("SlurmctldAddr", &[address]);
        file.set("StateSaveLocation", &[&layout.state_dir, &"/", cluster_name]);
        file.set("SlurmdUser", &[&"root"]);
        file.set("SlurmdPort", &[&layout.slurmd_port]);
        file.set("SlurmdSpoolDir", &[&layout.slurmd_spool_dir]);
        file.set("MaxNodeCount", &[&MAX_NODE_COUNT]);

        file.section("LOGGING");
        file.set("SlurmctldLogFile", &[&layout.slurmctld_log]);
        file.set("SlurmSchedLogFile", &[&layout.slurmctld_log]);
        file.set("SlurmdLogFile", &[&layout.slurmd_log]);

        file.section("PLUGINS & PARAMETERS");
        file.set("AuthType", &[&"auth/slurm"]);
        file.set("CredType", &[&"cred/slurm"]);
        file.set("AuthAltTypes", &[&"auth/jwt"]);
        file.set("AuthAltParameters", &[&"jwt_key=", &layout.jwt_key]);
        file.set("AuthInfo", &[&"use_client_ids"]);
        file.set("SlurmctldParameters", &[&"enable_configless,reconfig_on_restart"]);

        file.section("ACCOUNTING");
        file.set("AccountingStorageType", &[&"accounting_storage/none"]);

        if !nodesets.is_empty() {
            file.section("NODESET & PARTITION");
            for NodeSetLine { name, partition } in nodesets {
                file.line(&[&"NodeSet=", name, &" Feature=", name]);
                if let Some((partition, PartitionOptions(options))) = partition {
                    let mut parts: Vec<&dyn OneLine> = vec![&"PartitionName=", partition, &" Nodes=", name];
                    for option in options {
                        parts.extend::<[&dyn OneLine; 2]>([&" ", option]);
                    }
                    file.line(&parts);
                }
            }
        }
        file.verbatim(extra);
        file.0
    }
}

/// Names of the partitions that a slurm.conf defines.
///
/// Dropping one ends its jobs, so whoever replaces a configuration compares this list first.
pub fn partitions(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| {
            let (key, rest) = line.trim_start().split_once('=')?;
            key.trim_end().eq_ignore_ascii_case("PartitionName").then(|| rest.split_whitespace().next())?
        })
        .filter(|name| !name.eq_ignore_ascii_case("DEFAULT"))
        .collect()
}

/// What may become part of a line: nothing that could hold a line break.
trait OneLine: Display {}
impl OneLine for &'static str {}
impl OneLine for i32 {}
impl OneLine for u32 {}
impl OneLine for ClusterName {}
impl OneLine for HostName {}
impl OneLine for NodeSetName {}
impl OneLine for PartitionName {}
impl OneLine for Item {}

#[derive(Default)]
struct Text(String);

impl Text {
    fn section(&mut self, title: &'static str) {
        self.line(&[&"#"]);
        self.line(&[&"### ", &title, &" ###"]);
    }

    fn set(&mut self, key: &'static str, value: &[&dyn OneLine]) {
        self.0.push_str(key);
        self.0.push('=');
        self.line(value);
    }

    fn line(&mut self, parts: &[&dyn OneLine]) {
        for part in parts {
            // Writing to a String cannot fail.
            let _ = write!(self.0, "{part}");
        }
        self.0.push('\n');
    }

    /// The one way in for text that was not parsed: what the user wrote for this file.
    fn verbatim(&mut self, extra: &str) {
        if !extra.is_empty() {
            self.section("EXTRA CONFIG");
            self.0.push_str(extra.trim_end_matches('\n'));
            self.0.push('\n');
        }
    }
}

#[cfg(test)]
mod tests;
