//! Nodes, node sets and partitions: names must exist, be unique and be valid.

use std::collections::BTreeMap;

use super::file::{ConfFile, Entry};
use super::surroundings::Surroundings;
use super::{Findings, Severity};
use crate::hostlist::{HostSet, Hostlist};
use crate::name::{NodeSetName, PartitionName, excerpt};

/// More nodes than any file can mean; a longer list is not expanded.
const MAX_NODES: usize = 1 << 20;

pub(super) fn check(findings: &mut Findings<'_>, file: &ConfFile, around: &Surroundings) {
    let nodes = check_nodes(findings, file, around);
    let nodesets = check_nodesets(findings, file, &nodes, around);
    check_partitions(findings, file, &nodes, &nodesets, around);
}

/// Nodes that the file names, as far as they can be parsed.
pub(super) fn static_nodes(file: &ConfFile) -> HostSet {
    let lists = records(file, "NodeName").filter_map(|entry| Hostlist::parse(&entry.head().value).ok()?.to_set(MAX_NODES).ok());
    lists.fold(HostSet::default(), |all, set| all.union(&set))
}

/// Checks the static nodes and returns each once.
fn check_nodes(findings: &mut Findings<'_>, file: &ConfFile, around: &Surroundings) -> HostSet {
    let mut nodes = HostSet::default();
    for entry in records(file, "NodeName") {
        let name = entry.head().value.as_str();
        if name.eq_ignore_ascii_case("all") {
            findings.add(
                Severity::Fatal,
                entry.line,
                "NodeName",
                "NodeName is `all`, which Slurm keeps for all nodes: choose another name",
            );
            continue;
        }
        let named = Hostlist::parse(name).and_then(|list| list.to_set(MAX_NODES).map(|set| (list, set)));
        let (list, set) = match named {
            Ok(named) => named,
            Err(why) => {
                let severity = if why.is_taken_by_slurm() { Severity::Silent } else { Severity::Fatal };
                findings.add(severity, entry.line, "NodeName", format!("NodeName: {why}"));
                continue;
            }
        };
        let again = nodes.intersection(&set);
        if !again.is_empty() || u128::from(set.len()) < list.count() {
            let which = if again.is_empty() { set.to_string() } else { again.to_string() };
            let message = format!("NodeName has `{}` a second time: name each node once", excerpt(&which));
            findings.add(Severity::Fatal, entry.line, "NodeName", message);
        }
        check_state(findings, entry);
        check_address(findings, entry, around);
        nodes = nodes.union(&set);
    }
    let room = file.last("MaxNodeCount").and_then(|(line, value)| Some((line, value.parse::<u64>().ok()?)));
    match room {
        None if around.dynamic_nodes => {
            let message = "MaxNodeCount is missing, so no worker can join and those that are there vanish: set it";
            findings.add(Severity::Error, 0, "MaxNodeCount", message);
        }
        Some((line, room)) if around.dynamic_nodes && room == 0 => {
            let message = "MaxNodeCount is 0, so no worker can join: set it to the most nodes there will be";
            findings.add(Severity::KillsWorkers, line, "MaxNodeCount", message);
        }
        Some((line, room)) if nodes.len() > room => {
            let message = format!("MaxNodeCount is {room}, and the file names {} nodes: raise it", nodes.len());
            findings.add(Severity::Fatal, line, "MaxNodeCount", message);
        }
        _ => {}
    }
    nodes
}

fn check_state(findings: &mut Findings<'_>, entry: &Entry) {
    const STATES: [&str; 9] = ["CLOUD", "DOWN", "DRAIN", "EXTERNAL", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "IDLE"];
    if let Some(state) = entry.get("State").filter(|state| !STATES.iter().any(|known| known.eq_ignore_ascii_case(state))) {
        let message = format!("State is `{}`, in which no node can start: use CLOUD, DOWN, DRAIN, FUTURE or UNKNOWN", excerpt(state));
        findings.add(Severity::Fatal, entry.line, "State", message);
    }
}

/// Reports a static node whose name does not resolve: slurmctld blocks in the resolver for as long as the network lets it.
fn check_address(findings: &mut Findings<'_>, entry: &Entry, around: &Surroundings) {
    let asleep = entry.get("State").is_some_and(|state| ["CLOUD", "FUTURE"].iter().any(|known| known.eq_ignore_ascii_case(state)));
    let address = entry.get("NodeAddr").or_else(|| entry.get("NodeHostname")).unwrap_or(&entry.head().value);
    if !asleep && !around.resolves(address) {
        let message = format!("slurmctld looks up `{}` when it starts, and it does not resolve: give NodeAddr", excerpt(address));
        findings.add(Severity::Hangs, entry.line, "NodeName", message);
    }
}

/// Checks the node sets and returns their names with their lines.
fn check_nodesets<'a>(findings: &mut Findings<'_>, file: &'a ConfFile, nodes: &HostSet, around: &Surroundings) -> BTreeMap<&'a str, usize> {
    let mut known = BTreeMap::new();
    for entry in records(file, "NodeSet") {
        let name = entry.head().value.as_str();
        let line = entry.line;
        if nodes.contains(name) || around.nodes.contains(name) {
            let message = format!("NodeSet `{}` has the name of a node: choose another", excerpt(name));
            findings.add(Severity::Fatal, line, "NodeSet", message);
        }
        if let Err(why) = NodeSetName::parse(name) {
            findings.add(Severity::Silent, line, "NodeSet", format!("NodeSet {why}"));
        } else if name.eq_ignore_ascii_case("all") {
            findings.add(Severity::Silent, line, "NodeSet", "NodeSet `all` is never used, as Nodes=ALL is every node: choose another name");
        }
        if entry.get("Feature").is_none() && entry.get("Nodes").is_none() {
            findings.add(Severity::Silent, line, "NodeSet", format!("NodeSet `{}` is empty: give it Feature or Nodes", excerpt(name)));
        }
        if let Some(first) = known.get(name) {
            let message = format!("NodeSet `{}` stands in line {first} already, and the first one counts: take one out", excerpt(name));
            findings.add(Severity::Silent, line, "NodeSet", message);
        } else {
            known.insert(name, line);
        }
    }
    known
}

fn check_partitions(
    findings: &mut Findings<'_>,
    file: &ConfFile,
    nodes: &HostSet,
    nodesets: &BTreeMap<&str, usize>,
    around: &Surroundings,
) {
    let is_defined = |partition: &str| file.all("PartitionName").any(|entry| entry.head().value.split(',').any(|name| name == partition));
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut default: Option<(&str, usize)> = None;
    let mut default_elsewhere = false;
    for entry in file.all("PartitionName") {
        let name = entry.head().value.as_str();
        let line = entry.line;
        let is_default =
            entry.get("Default").is_some_and(|value| ["yes", "true", "up", "1"].contains(&value.to_ascii_lowercase().as_str()));
        if name.eq_ignore_ascii_case("default") {
            default_elsewhere |= is_default;
            continue;
        }
        if name.contains(',') {
            let message = format!("PartitionName `{}` is several partitions in one line: write a line for each", excerpt(name));
            findings.add(Severity::Silent, line, "PartitionName", message);
        } else if let Err(why) = PartitionName::parse(name) {
            findings.add(Severity::Silent, line, "PartitionName", format!("PartitionName {why}"));
        }
        if let Some(first) = known.insert(name, line) {
            let message = format!("PartitionName `{}` stands in line {first} already: take one out", excerpt(name));
            findings.add(Severity::Fatal, line, "PartitionName", message);
        }
        match entry.get("Nodes") {
            None => {
                let message = format!("partition `{}` has no Nodes: name its nodes or node sets", excerpt(name));
                findings.add(Severity::Silent, line, "Nodes", message);
            }
            Some(list) => check_members(findings, line, name, list, |host| {
                nodesets.contains_key(host) || nodes.contains(host) || around.nodes.contains(host)
            }),
        }
        if let (Some((other, _)), true) = (default, is_default) {
            let message = format!(
                "partition `{}` is a second default after `{}`, and the last one counts: take one out",
                excerpt(name),
                excerpt(other)
            );
            findings.add(Severity::Silent, line, "Default", message);
        }
        if is_default {
            default = Some((name, line));
        }
        for group in entry.get("AllowGroups").into_iter().flat_map(|groups| groups.split(',')) {
            if !group.eq_ignore_ascii_case("all") && around.groups.as_ref().is_some_and(|groups| !groups.contains(group)) {
                let message = format!("AllowGroups has `{}`, and slurmctld knows no such group: it admits no user", excerpt(group));
                findings.add(Severity::Error, line, "AllowGroups", message);
            }
        }
    }
    for gone in around.partitions.iter().filter(|partition| !is_defined(partition)) {
        let message =
            format!("partition `{}` is gone, and its jobs end with it: keep it, with State=DRAIN, until they are done", excerpt(gone));
        findings.add(Severity::EndsJobs, 0, "PartitionName", message);
    }
    if default.is_none() && !default_elsewhere {
        let message = "no partition is the default, so a job that names none is refused: give one Default=YES";
        findings.add(Severity::Error, 0, "PartitionName", message);
    }
}

fn check_members(findings: &mut Findings<'_>, line: usize, partition: &str, list: &str, is_known: impl Fn(&str) -> bool) {
    if list.eq_ignore_ascii_case("all") || list.is_empty() {
        return;
    }
    let hosts = match Hostlist::parse(list).and_then(|hosts| hosts.to_set(MAX_NODES)) {
        Ok(hosts) => hosts,
        Err(why) => {
            findings.add(Severity::Fatal, line, "Nodes", format!("Nodes of partition `{}`: {why}", excerpt(partition)));
            return;
        }
    };
    let unknown: HostSet = hosts.names().filter(|host| !is_known(host)).collect::<Vec<_>>().iter().map(String::as_str).collect();
    if !unknown.is_empty() {
        let shown = excerpt(&unknown.to_string());
        let message = format!(
            "partition `{}` names `{shown}`, which is neither a node nor a NodeSet of this file: define it first",
            excerpt(partition)
        );
        findings.add(Severity::Fatal, line, "Nodes", message);
    }
}

/// Lines of this kind, except those that only set defaults.
fn records<'a>(file: &'a ConfFile, key: &'static str) -> impl Iterator<Item = &'a Entry> {
    file.all(key).filter(move |entry| !entry.head().value.eq_ignore_ascii_case("default") || key == "NodeSet")
}
