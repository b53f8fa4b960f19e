//! slurm.conf: a model of what we decide, and its text.
//!
//! The text is the same, byte for byte, for the same model: its hash restarts slurmctld.

use std::fmt::Write;

/// What the operator decides about a cluster's configuration. Everything else is Slurm's default or the user's [`Self::extra`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmConf {
    pub cluster_name: String,
    /// One per slurmctld, the primary first.
    pub hosts: Vec<ControllerHost>,
    /// The name that clients use for whichever slurmctld is active.
    pub address: String,
    pub nodesets: Vec<NodeSetLine>,
    /// The user's text, verbatim.
    pub extra: String,
}

/// A slurmctld: the hostname it sees itself by, and where others reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerHost {
    pub hostname: String,
    pub address: String,
}

/// A named set of nodes, chosen by a feature of the same name, and the partition on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSetLine {
    pub name: String,
    /// Options of the partition line; no partition when absent.
    pub partition: Option<String>,
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
    pub fn state_save_location(cluster_name: &str, layout: &Layout) -> String {
        format!("{}/{cluster_name}", layout.state_dir)
    }

    /// The file's text.
    pub fn text(&self, layout: &Layout) -> String {
        let Self { cluster_name, hosts, address, nodesets, extra } = self;
        let mut file = Text::default();

        file.section("GENERAL");
        file.set("ClusterName", cluster_name);
        file.set("SlurmUser", layout.slurm_user);
        for ControllerHost { hostname, address } in hosts {
            file.set("SlurmctldHost", format_args!("{hostname}({address})"));
        }
        file.set("SlurmctldPort", layout.slurmctld_port);
        file.set("SlurmctldAddr", address);
        file.set("StateSaveLocation", Self::state_save_location(cluster_name, layout));
        file.set("SlurmdUser", "root");
        file.set("SlurmdPort", layout.slurmd_port);
        file.set("SlurmdSpoolDir", layout.slurmd_spool_dir);
        file.set("MaxNodeCount", MAX_NODE_COUNT);

        file.section("LOGGING");
        file.set("SlurmctldLogFile", layout.slurmctld_log);
        file.set("SlurmSchedLogFile", layout.slurmctld_log);
        file.set("SlurmdLogFile", layout.slurmd_log);

        file.section("PLUGINS & PARAMETERS");
        file.set("AuthType", "auth/slurm");
        file.set("CredType", "cred/slurm");
        file.set("AuthAltTypes", "auth/jwt");
        file.set("AuthAltParameters", format_args!("jwt_key={}", layout.jwt_key));
        file.set("AuthInfo", "use_client_ids");
        file.set("SlurmctldParameters", "enable_configless,reconfig_on_restart");

        file.section("ACCOUNTING");
        file.set("AccountingStorageType", "accounting_storage/none");

        if !nodesets.is_empty() {
            file.section("NODESET & PARTITION");
            for NodeSetLine { name, partition } in nodesets {
                file.line(format_args!("NodeSet={name} Feature={name}"));
                if let Some(options) = partition {
                    file.line(format_args!("PartitionName={name} Nodes={name} {options}").to_string().trim_end());
                }
            }
        }
        if !extra.is_empty() {
            file.section("EXTRA CONFIG");
            file.line(extra.trim_end_matches('\n'));
        }
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

#[derive(Default)]
struct Text(String);

impl Text {
    fn section(&mut self, title: &str) {
        self.line("#");
        self.line(format_args!("### {title} ###"));
    }

    fn set(&mut self, key: &str, value: impl std::fmt::Display) {
        self.line(format_args!("{key}={value}"));
    }

    fn line(&mut self, line: impl std::fmt::Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

#[cfg(test)]
mod tests;
