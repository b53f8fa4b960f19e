//! topology.yaml: only as much of its structure as can end slurmctld.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::Surroundings;
use super::{Findings, Severity};
use crate::hostlist::Hostlist;
use crate::name::excerpt;

/// More hosts than one switch can name.
const MAX_NODES: usize = 1 << 20;

/// Checks the file and returns the names of its topologies.
pub(super) fn check(findings: &mut Findings<'_>, text: &str, around: &Surroundings) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let value: Value = match serde_saphyr::from_str(text) {
        Ok(value) => value,
        Err(why) => {
            let words = why.to_string();
            let first = words.lines().next().unwrap_or_default();
            findings.add(Severity::Fatal, 0, format!("it is no YAML ({}): correct it", excerpt(first)));
            return names;
        }
    };
    let Some(topologies) = value.as_array().filter(|topologies| !topologies.is_empty()) else {
        findings.add(Severity::Fatal, 0, "it is not a list of topologies: write at least one, starting with `- topology: name`");
        return names;
    };
    for topology in topologies {
        match topology["topology"].as_str() {
            None => {
                findings.add(Severity::Silent, 0, "a topology has no name, so no partition and no node can name it: give it `topology:`");
            }
            Some(name) if !names.insert(name.to_owned()) => {
                findings.add(Severity::Silent, 0, format!("topology `{}` stands there twice: give each a name of its own", excerpt(name)));
            }
            Some(_) => {}
        }
        let known = ["topology", "cluster_default", "tree", "block", "flat", "ring", "torus3d"];
        for key in topology.as_object().into_iter().flat_map(|keys| keys.keys()).filter(|key| !known.contains(&key.as_str())) {
            findings.add(Severity::Silent, 0, format!("a topology has the key `{}`, which means nothing: take it out", excerpt(key)));
        }
        check_switches(findings, &topology["tree"]["switches"], around);
    }
    names
}

fn check_switches(findings: &mut Findings<'_>, switches: &Value, around: &Surroundings) {
    let switches = switches.as_array().map(Vec::as_slice).unwrap_or_default();
    let names: BTreeSet<&str> = switches.iter().filter_map(|switch| switch["switch"].as_str()).collect();
    for switch in switches {
        let name = switch["switch"].as_str().unwrap_or_default();
        for child in hosts(&switch["children"]).iter().filter(|child| !names.contains(child.as_str())) {
            let message = format!("switch `{}` has the child `{}`, which is no switch of it: define it", excerpt(name), excerpt(child));
            findings.add(Severity::Fatal, 0, message);
        }
        for node in hosts(&switch["nodes"]).iter().filter(|node| !around.nodes.contains(node)) {
            let message = format!(
                "switch `{}` names the node `{}`, which is not there: let nodes join by their own topology",
                excerpt(name),
                excerpt(node)
            );
            findings.add(Severity::Error, 0, message);
        }
    }
}

fn hosts(list: &Value) -> Vec<String> {
    let list = list.as_str().unwrap_or_default();
    let set = Hostlist::parse(list).and_then(|hosts| hosts.to_set(MAX_NODES));
    set.map(|set| set.names().collect()).unwrap_or_default()
}
