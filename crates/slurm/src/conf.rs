//! slurm.conf: a model of the operator's settings, and its text.
//!
//! The same model gives the same text, byte for byte: a changed hash restarts slurmctld.

mod external;
mod extra;

use std::{
    collections::BTreeSet,
    fmt::{Display, Write},
};

use crate::{
    item::{Item, NotItems},
    name::{ClusterName, FileName, HostName, NodeSetName, NotAName, PartitionName},
};

pub use external::ExternalConf;
pub use extra::NotExtra;

/// The operator's settings for a cluster. Everything else is Slurm's default or the user's [`Self::extra`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmConf {
    pub cluster_name: ClusterName,
    /// One per slurmctld, the primary first.
    pub hosts: Vec<ControllerHost>,
    /// The single name that clients use instead of those of [`Self::hosts`], if there is one.
    pub address: Option<HostName>,
    /// True if tokens are also verified with a JSON Web Key Set.
    pub has_jwks: bool,
    /// True if slurmctld serves metrics to Prometheus.
    pub has_metrics: bool,
    pub accounting: Option<AccountingHost>,
    pub scripts: Scripts,
    pub nodesets: Vec<NodeSetLine>,
    /// The user's text, verbatim.
    pub extra: String,
}

/// The text of a slurm.conf, and the effects of the user's part on ours, one sentence each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub text: String,
    pub notes: Vec<String>,
}

/// Address of slurmdbd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountingHost {
    pub host: HostName,
    pub port: u16,
}

/// Prolog and epilog scripts by file name: those that slurmd runs and those that slurmctld runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scripts {
    pub prolog: BTreeSet<FileName>,
    pub epilog: BTreeSet<FileName>,
    pub prolog_slurmctld: BTreeSet<FileName>,
    pub epilog_slurmctld: BTreeSet<FileName>,
}

/// A slurmctld: its own hostname, and the address that others use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerHost {
    pub hostname: HostName,
    pub address: HostName,
}

/// A Slurm node set, selected by a feature of the same name, and its partition.
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

    /// Adds the partition of the same name; fails if that name has another meaning in Slurm.
    pub fn with_partition(self, options: PartitionOptions) -> Result<Self, NotAName> {
        let Self { name, .. } = self;
        let partition = PartitionName::parse(name.as_str())?;
        if name.as_str().eq_ignore_ascii_case("all") {
            let problem = "`Nodes=all` is every node of the cluster";
            return Err(NotAName::new("name for a partition of its own nodes", name.as_str(), problem, "choose another"));
        }
        Ok(Self { name, partition: Some((partition, options)) })
    }

    /// The same with a partition that takes no new jobs, while its existing jobs continue. Its nodes stay in it: without them, or without the node
    /// set, slurmctld would exit on a user's line that names either.
    #[must_use]
    pub fn closed(self) -> Self {
        let close = |(name, PartitionOptions(options)): (PartitionName, PartitionOptions)| {
            let kept = options.into_iter().filter(|option| !option.is("State"));
            (name, PartitionOptions(kept.chain([Item::new("State", &"DRAIN")]).collect()))
        };
        Self { name: self.name, partition: self.partition.map(close) }
    }
}

/// The user's part of a partition line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionOptions(Vec<Item>);

impl PartitionOptions {
    /// Parses items; drops a trailing comment, as Slurm does.
    ///
    /// Fails on anything but items, on a second line, and on keys that would make slurmctld exit.
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
    /// Directory of the configuration in slurmctld's pod.
    pub config_dir: &'static str,
    /// File names of keys in it.
    pub jwt_key: &'static str,
    pub jwks: &'static str,
}

/// Size of the node table. slurmctld allocates it at startup, and dynamic nodes need room in it.
const MAX_NODE_COUNT: u32 = 1024;

impl SlurmConf {
    /// Directory of slurmctld's state.
    pub fn state_save_location(cluster_name: &ClusterName, layout: &Layout) -> String {
        format!("{}/{cluster_name}", layout.state_dir)
    }

    /// Writes the file. Fails if the user's text would remove something that slurmctld cannot run without.
    pub fn write(&self, layout: &Layout) -> Result<Written, NotExtra> {
        let mut file = self.ours(layout);
        let extra = extra::Extra::read(&self.extra, &file.0)?;
        file.verbatim(&self.extra);
        extra.write_merged(&mut file);
        Ok(Written { text: file.0, notes: extra.notes })
    }

    /// Everything before the user's text.
    fn ours(&self, layout: &Layout) -> Text {
        let Self { cluster_name, hosts, address, has_jwks, has_metrics, accounting, scripts, nodesets, extra: _ } = self;
        let mut file = Text::default();

        file.section("GENERAL");
        file.set("ClusterName", &[cluster_name]);
        file.set("SlurmUser", &[&layout.slurm_user]);
        for ControllerHost { hostname, address } in hosts {
            file.set("SlurmctldHost", &[hostname, &"(", address, &")"]);
        }
        file.set("SlurmctldPort", &[&layout.slurmctld_port]);
        if let Some(address) = address {
            file.set("SlurmctldAddr", &[address]);
        }
        file.set("StateSaveLocation", &[&layout.state_dir, &"/", cluster_name]);
        file.set("SlurmdUser", &[&"root"]);
        file.set("SlurmdPort", &[&layout.slurmd_port]);
        file.set("SlurmdSpoolDir", &[&layout.slurmd_spool_dir]);
        file.set("MaxNodeCount", &[&MAX_NODE_COUNT]);
        file.addresses([accounting.as_ref().map(|accounting| &accounting.host)]);

        file.section("LOGGING");
        file.set("SlurmctldLogFile", &[&layout.slurmctld_log]);
        file.set("SlurmSchedLogFile", &[&layout.slurmctld_log]);
        file.set("SlurmdLogFile", &[&layout.slurmd_log]);

        file.plugins();
        let mut keys: Vec<&dyn OneLine> = vec![&"jwt_key=", &layout.config_dir, &"/", &layout.jwt_key];
        if *has_jwks {
            keys.extend::<[&dyn OneLine; 4]>([&",jwks=", &layout.config_dir, &"/", &layout.jwks]);
        }
        file.set("AuthAltParameters", &keys);
        file.set("AuthInfo", &[&"use_client_ids"]);
        file.set("SlurmctldParameters", &[&"enable_configless,reconfig_on_restart"]);
        if *has_metrics {
            file.set("MetricsType", &[&"metrics/openmetrics"]);
        }

        file.accounting(accounting.as_ref());
        file.scripts(scripts, layout);
        file.nodesets(nodesets);
        file
    }
}

/// Names of the partitions that a slurm.conf defines.
///
/// Removing one kills its jobs, so compare this list before replacing a configuration.
pub fn partitions(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| {
            let (key, rest) = line.trim_start().split_once('=')?;
            key.trim_end().eq_ignore_ascii_case("PartitionName").then(|| rest.split_whitespace().next())?
        })
        .filter(|name| !name.eq_ignore_ascii_case("DEFAULT"))
        .collect()
}

/// Types that may become part of a line: none can hold a line break.
trait OneLine: Display {}
impl OneLine for &'static str {}
impl OneLine for i32 {}
impl OneLine for u32 {}
impl OneLine for u16 {}
impl OneLine for ClusterName {}
impl OneLine for HostName {}
impl OneLine for FileName {}
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

    /// Enables IPv6 if one of these hosts is an IPv6 address: Slurm's default is IPv4 only.
    fn addresses<const N: usize>(&mut self, hosts: [Option<&HostName>; N]) {
        if hosts.into_iter().flatten().any(HostName::is_ipv6) {
            self.set("CommunicationParameters", &[&"EnableIPv6"]);
        }
    }

    /// Sets the authentication of daemons and users.
    fn plugins(&mut self) {
        self.section("PLUGINS & PARAMETERS");
        self.set("AuthType", &[&"auth/slurm"]);
        self.set("CredType", &[&"cred/slurm"]);
        self.set("AuthAltTypes", &[&"auth/jwt"]);
    }

    fn accounting(&mut self, accounting: Option<&AccountingHost>) {
        self.section("ACCOUNTING");
        let Some(AccountingHost { host, port }) = accounting else {
            return self.set("AccountingStorageType", &[&"accounting_storage/none"]);
        };
        self.set("AccountingStorageType", &[&"accounting_storage/slurmdbd"]);
        self.set("AccountingStorageHost", &[host]);
        self.set("AccountingStoragePort", &[port]);
    }

    /// Sets the scripts. Those of slurmd have bare names, because slurmd receives them with its configuration and stores them elsewhere.
    fn scripts(&mut self, scripts: &Scripts, layout: &Layout) {
        let Scripts { prolog, epilog, prolog_slurmctld, epilog_slurmctld } = scripts;
        if !prolog_slurmctld.is_empty() || !epilog_slurmctld.is_empty() {
            self.section("SLURMCTLD PROLOG & EPILOG");
        }
        for (key, files) in [("PrologSlurmctld", prolog_slurmctld), ("EpilogSlurmctld", epilog_slurmctld)] {
            for file in files {
                self.set(key, &[&layout.config_dir, &"/", file]);
            }
        }
        if !prolog.is_empty() || !epilog.is_empty() {
            self.section("PROLOG & EPILOG");
        }
        for (key, files) in [("Prolog", prolog), ("Epilog", epilog)] {
            for file in files {
                self.set(key, &[file]);
            }
        }
    }

    fn nodesets(&mut self, nodesets: &[NodeSetLine]) {
        if !nodesets.is_empty() {
            self.section("NODESET & PARTITION");
        }
        for NodeSetLine { name, partition } in nodesets {
            self.line(&[&"NodeSet=", name, &" Feature=", name]);
            if let Some((partition, PartitionOptions(options))) = partition {
                let mut parts: Vec<&dyn OneLine> = vec![&"PartitionName=", partition, &" Nodes=", name];
                for option in options {
                    parts.extend::<[&dyn OneLine; 2]>([&" ", option]);
                }
                self.line(&parts);
            }
        }
    }

    /// Writes checked options: nothing in them ends a line or a quote.
    fn options(&mut self, key: &'static str, options: &str) {
        let quote: &'static str = if options.contains(' ') || options.is_empty() { "\"" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{key}={quote}{options}{quote}");
    }

    /// Writes the user's text for this file. Only this function accepts text that was not parsed.
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
