//! topology.yaml: mistakes that make slurmctld exit, and mistakes that it ignores.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Content, Tree};
use super::{Findings, Severity};
use crate::hostlist::Hostlist;
use crate::name::excerpt;

/// More hosts than one switch can name.
const MAX_NODES: usize = 1 << 20;

/// The kinds of topology; each topology has exactly one.
const KINDS: [&str; 5] = ["tree", "block", "flat", "ring", "torus3d"];

/// Checks the file and returns the names of its topologies.
pub(super) fn check(findings: &mut Findings<'_>, text: &str, is_node: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let tree = match Tree::parse(text) {
        Ok(tree) => tree,
        Err(why) => {
            findings.add(Severity::Fatal, why.line, None, format!("it is no YAML ({}): correct it", excerpt(&why.reason)));
            return BTreeSet::new();
        }
    };
    let remedy = "write a list of at least one, starting with `- topology: name`";
    let Some(topologies) = tree.items().filter(|topologies| !topologies.is_empty()) else {
        let is_map = matches!(tree.content, Content::Map(_));
        let severity = if is_map { Severity::Silent } else { Severity::Fatal };
        findings.add(severity, tree.line.min(text.lines().count()), None, format!("it is no list of topologies: {remedy}"));
        return BTreeSet::new();
    };
    check_defaults(findings, topologies);
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for topology in topologies {
        match topology.get("topology").and_then(Tree::text) {
            None => {
                let message = "a topology has no name, so no partition and no node can name it: give it `topology:`";
                findings.add(Severity::Silent, topology.line, "topology", message);
            }
            Some(name) => {
                if let Some(first) = names.insert(name.clone(), topology.line) {
                    let message = format!("topology `{}` stands in line {first} already: give each a name of its own", excerpt(&name));
                    findings.add(Severity::Silent, topology.line, "topology", message);
                }
            }
        }
        check_kind(findings, topology);
        check_switches(findings, topology, &is_node);
        check_blocks(findings, topology, &is_node);
    }
    names.into_keys().collect()
}

fn check_defaults(findings: &mut Findings<'_>, topologies: &[Tree]) {
    let mut default: Option<usize> = None;
    for topology in topologies {
        let Some(value) = topology.get("cluster_default") else { continue };
        match &value.content {
            Content::Bool(true) => {
                if let Some(first) = default.replace(value.line) {
                    let message = format!("cluster_default is true in line {first} already: keep one");
                    findings.add(Severity::Silent, value.line, "cluster_default", message);
                }
            }
            Content::Bool(false) => {}
            _ => {
                findings.add(
                    Severity::Silent,
                    value.line,
                    "cluster_default",
                    "cluster_default is neither true nor false: write one of them",
                );
            }
        }
    }
    if default.is_none() {
        let line = topologies.first().map_or(0, |topology| topology.line);
        findings.add(Severity::Silent, line, "cluster_default", "no topology is the default: give one `cluster_default: true`");
    }
}

fn check_kind(findings: &mut Findings<'_>, topology: &Tree) {
    let kinds: Vec<&(usize, String, Tree)> = topology.entries().iter().filter(|(_, key, _)| KINDS.contains(&key.as_str())).collect();
    match kinds.as_slice() {
        [] => {
            let message = "a topology does not say of which kind it is: give it tree, block, ring, torus3d or `flat: true`";
            findings.add(Severity::Fatal, topology.line, "topology", message);
        }
        [_] => {}
        [_, (line, second, _), ..] => {
            findings.add(Severity::Fatal, *line, second.as_str(), format!("a topology has `{second}` beside another kind: keep one"));
        }
    }
    unknown_keys(findings, topology, "a topology", &["topology", "cluster_default", "tree", "block", "flat", "ring", "torus3d"]);
}

fn unknown_keys(findings: &mut Findings<'_>, of: &Tree, what: &str, known: &[&str]) {
    for (line, key, _) in of.entries().iter().filter(|(_, key, _)| !known.contains(&key.as_str())) {
        let message = format!("{what} has the key `{}`, which means nothing: take it out", excerpt(key));
        findings.add(Severity::Silent, *line, key.as_str(), message);
    }
}

/// Units by name. Reports units without a name and duplicate names.
fn named<'a>(findings: &mut Findings<'_>, units: &'a [Tree], key: &str) -> BTreeMap<String, &'a Tree> {
    let mut names: BTreeMap<String, &Tree> = BTreeMap::new();
    for unit in units {
        let Some(name) = unit.get(key).and_then(Tree::text).filter(|name| !name.is_empty()) else {
            findings.add(Severity::Fatal, unit.line, key, format!("a {key} has no name: give it `{key}:`"));
            continue;
        };
        if let Some(first) = names.get(&name) {
            let message = format!("{key} `{}` stands in line {} already: give each a name of its own", excerpt(&name), first.line);
            findings.add(Severity::Fatal, unit.line, key, message);
        } else {
            names.insert(name, unit);
        }
    }
    names
}

fn check_switches(findings: &mut Findings<'_>, topology: &Tree, is_node: impl Fn(&str) -> bool) {
    let Some(tree) = topology.get("tree") else { return };
    let switches = tree.get("switches").and_then(Tree::items).unwrap_or_default();
    let names = named(findings, switches, "switch");
    for switch in switches {
        unknown_keys(findings, switch, "a switch", &["switch", "children", "nodes"]);
        check_nodes(findings, switch, "switch", &is_node);
        for (line, child) in hosts(switch, "children") {
            let name = switch.get("switch").and_then(Tree::text).unwrap_or_default();
            if child == name || !names.contains_key(&child) {
                let message =
                    format!("switch `{}` has the child `{}`, which is no other switch: define it", excerpt(&name), excerpt(&child));
                findings.add(Severity::Fatal, line, "children", message);
            }
        }
    }
    if let Some(name) = ring(&names) {
        let line = names.get(name).map_or(0, |switch| switch.line);
        let message = format!("switch `{}` is, over others, a child of itself: make it a tree", excerpt(name));
        findings.add(Severity::Fatal, line, "children", message);
    }
}

/// A switch on or above a cycle of switches, or `None` if there is no cycle. Leaves are removed until none is left; cycles and the switches above
/// them remain.
fn ring<'a>(switches: &'a BTreeMap<String, &Tree>) -> Option<&'a str> {
    let mut left: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, switch) in switches {
        let children = hosts(switch, "children").into_iter().map(|(_, child)| child);
        left.insert(name, children.filter(|child| child != name && switches.contains_key(child)).collect());
    }
    loop {
        let known: BTreeSet<String> = left.keys().map(|name| (*name).to_owned()).collect();
        left.retain(|_, children| children.iter().any(|child| known.contains(child)));
        if left.len() == known.len() {
            return left.keys().next().copied();
        }
    }
}

fn check_blocks(findings: &mut Findings<'_>, topology: &Tree, is_node: impl Fn(&str) -> bool) {
    let Some(block) = topology.get("block") else { return };
    unknown_keys(findings, block, "block", &["block_sizes", "blocks"]);
    let blocks = block.get("blocks").and_then(Tree::items).unwrap_or_default();
    if blocks.is_empty() {
        findings.add(Severity::Fatal, block.line, "blocks", "a topology of blocks has none: give it `blocks:`");
        return;
    }
    named(findings, blocks, "block");
    for unit in blocks {
        unknown_keys(findings, unit, "a block", &["block", "nodes"]);
        check_nodes(findings, unit, "block", &is_node);
    }
    let remedy = "write `block_sizes: [4]`, each size twice, four times, eight times ... the one before it";
    let sizes = block.get("block_sizes");
    let Some((sizes, items)) = sizes.map(|sizes| (sizes, sizes.items().unwrap_or_default())) else {
        // Without it Slurm uses the number of nodes in the blocks.
        if blocks.iter().all(|unit| hosts(unit, "nodes").is_empty()) {
            findings.add(Severity::Fatal, block.line, "block_sizes", format!("block_sizes is missing, and no block has nodes: {remedy}"));
        }
        return;
    };
    if sizes.items().is_none() {
        findings.add(Severity::Silent, sizes.line, "block_sizes", format!("block_sizes is no list: {remedy}"));
    } else if items.is_empty() {
        findings.add(Severity::Fatal, sizes.line, "block_sizes", format!("block_sizes is empty: {remedy}"));
    }
    let mut base: Option<i64> = None;
    let mut last = 0;
    for item in items {
        let size = if let Content::Number(size) = item.content { Some(size).filter(|size| *size > 0) } else { None };
        let multiple = size.and_then(|size| {
            let base = *base.get_or_insert(size);
            (size >= last && size % base == 0 && u64::try_from(size / base).is_ok_and(u64::is_power_of_two)).then_some(size)
        });
        if let Some(size) = multiple {
            last = size;
        } else {
            let shown = item.text().unwrap_or_default();
            findings.add(Severity::Fatal, item.line, "block_sizes", format!("block_sizes has `{}`: {remedy}", excerpt(&shown)));
        }
    }
}

fn check_nodes(findings: &mut Findings<'_>, unit: &Tree, kind: &str, is_node: impl Fn(&str) -> bool) {
    let name = unit.get(kind).and_then(Tree::text).unwrap_or_default();
    for (line, node) in hosts(unit, "nodes").into_iter().filter(|(_, node)| !is_node(node)) {
        let message = format!(
            "{kind} `{}` names the node `{}`, which is not there: let nodes join by their own topology",
            excerpt(&name),
            excerpt(&node)
        );
        findings.add(Severity::Error, line, "nodes", message);
    }
}

/// Host names of a host list, each with the line of the list.
fn hosts(unit: &Tree, key: &str) -> Vec<(usize, String)> {
    let Some(value) = unit.get(key) else { return Vec::new() };
    let set = Hostlist::parse(&value.text().unwrap_or_default()).and_then(|hosts| hosts.to_set(MAX_NODES));
    set.map(|set| set.names().map(|name| (value.line, name)).collect()).unwrap_or_default()
}
