//! Membership of nodes in partitions by their features.
//!
//! slurmctld computes it when it reads its configuration, not when a node's features change.

use super::file::{ConfFile, Entry};
use crate::hostlist::{HostSet, Hostlist};

/// Maximum number of hosts in a line; a partition with more is left out.
const MOST_HOSTS: usize = 65_536;

/// The partitions that have nodes by features with a given prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(Vec<Partition>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Partition {
    name: String,
    nodes: Vec<Nodes>,
}

/// One word of `Nodes=`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Nodes {
    All,
    WithFeature(String),
    These(HostSet),
}

impl Members {
    /// Parses slurm.conf and keeps the partitions that have nodes by a feature that starts with `prefix`. Never fails: [`super::check`] finds the
    /// mistakes in the file, and a partition that cannot be parsed is left out.
    pub fn read(slurm_conf: &str, prefix: &str) -> Self {
        let file = ConfFile::parse(slurm_conf);
        let node_sets: Vec<&Entry> = file.all("NodeSet").collect();
        let (mut partitions, mut default) = (Vec::new(), None);
        for entry in file.all("PartitionName") {
            let name = entry.head().value.as_str();
            let written = entry.get("Nodes").or(default);
            if name.eq_ignore_ascii_case("DEFAULT") {
                default = written;
                continue;
            }
            // Hidden partitions are not listed in a node's record.
            let is_hidden = entry.get("Hidden").is_some_and(|hidden| hidden.eq_ignore_ascii_case("yes"));
            let Some(nodes) = written.filter(|_| !is_hidden).and_then(|written| nodes(written, &node_sets)) else { continue };
            if nodes.iter().any(|nodes| matches!(nodes, Nodes::WithFeature(feature) if feature.starts_with(prefix))) {
                partitions.push(Partition { name: name.to_owned(), nodes });
            }
        }
        Self(partitions)
    }

    /// True if a node with these features belongs to other partitions than those it is in.
    pub fn would_move(&self, node: &str, features: &[String], partitions: &[String]) -> bool {
        let has = |nodes: &Nodes| match nodes {
            Nodes::All => true,
            Nodes::WithFeature(feature) => features.contains(feature),
            Nodes::These(hosts) => hosts.contains(node),
        };
        self.0.iter().any(|partition| partition.nodes.iter().any(has) != partitions.contains(&partition.name))
    }
}

/// Node sets and hosts of a `Nodes=` value, or `None` if it cannot be parsed.
fn nodes(text: &str, node_sets: &[&Entry]) -> Option<Vec<Nodes>> {
    let mut found = Vec::new();
    let mut hosts = Vec::new();
    for word in words(text) {
        let mut of_name = node_sets.iter().filter(|entry| entry.head().value == word).peekable();
        match () {
            () if word.eq_ignore_ascii_case("ALL") => found.push(Nodes::All),
            () if of_name.peek().is_some() => {
                for entry in of_name {
                    found.extend(entry.get("Feature").map(|feature| Nodes::WithFeature(feature.to_owned())));
                    hosts.extend(entry.get("Nodes"));
                }
            }
            () => hosts.push(word),
        }
    }
    for text in hosts {
        found.push(if text.eq_ignore_ascii_case("ALL") {
            Nodes::All
        } else {
            Nodes::These(Hostlist::parse(text).ok()?.to_set(MOST_HOSTS).ok()?)
        });
    }
    Some(found)
}

/// Splits at commas and blanks outside brackets.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let cut = move |character: char| {
        match character {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (character == ',' || character.is_ascii_whitespace())
    };
    text.split(cut).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const CONF: &str = "\
NodeSet=worker Feature=worker
NodeSet=fast Feature=k8s/gpu
NodeSet=fast Nodes=old[1-2]
NodeSet=near Feature=k8s/zone=a
PartitionName=worker Nodes=worker
PartitionName=fast Nodes=fast Default=YES
PartitionName=mixed Nodes=near,x[1,3]
PartitionName=every Nodes=near,ALL
PartitionName=secret Nodes=near Hidden=YES
PartitionName=broken Nodes=near,x[1-
PartitionName=DEFAULT Nodes=near
PartitionName=late State=UP
";

    fn list(text: &str) -> Vec<String> {
        text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[rstest]
    #[case::without_any("w-0", "worker", "worker,every", false)]
    #[case::got_one("w-0", "worker,k8s/gpu", "worker,every", true)]
    #[case::got_one_and_was_moved("w-0", "worker,k8s/gpu", "worker,every,fast", false)]
    #[case::lost_one("w-0", "worker", "worker,every,fast", true)]
    #[case::is_named("old2", "", "fast,every", false)]
    #[case::is_named_beside("x3", "", "mixed,every", false)]
    #[case::by_a_value("w-0", "k8s/zone=a", "mixed,every,late", false)]
    #[case::by_another_value("w-0", "k8s/zone=b", "mixed,every,late", true)]
    #[case::the_default_counts("w-0", "k8s/zone=a", "mixed,every", true)]
    #[case::partitions_without_our_features_are_not_judged("w-0", "worker", "every", false)]
    #[case::features_of_no_line("w-0", "k8s/other", "every", false)]
    fn a_node_moves_when_its_features_say_so(#[case] node: &str, #[case] features: &str, #[case] partitions: &str, #[case] moves: bool) {
        assert_eq!(Members::read(CONF, "k8s/").would_move(node, &list(features), &list(partitions)), moves);
    }

    #[test]
    fn without_a_line_nobody_moves() {
        let members = Members::read("NodeSet=worker Feature=worker\nPartitionName=worker Nodes=worker\n", "k8s/");
        assert!(!members.would_move("w-0", &list("k8s/gpu"), &[]));
    }
}
