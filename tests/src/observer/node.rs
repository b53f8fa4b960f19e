//! Changes to drains of others, found by polling Slurm's own table of nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Prefix of every reason that the operator writes.
const OPERATOR: &str = "slurm-operator: ";

/// A node in one poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub name: String,
    pub states: BTreeSet<String>,
    pub reason: String,
}

impl Seen {
    /// True if it is drained, and not by the operator.
    pub fn is_held_by_others(&self) -> bool {
        self.states.contains("DRAIN") && !self.reason.starts_with(OPERATOR)
    }
}

/// Drains by others, and changes to them that the scenario did not make.
#[derive(Debug, Default)]
pub struct Drains {
    /// Reasons by node.
    stand: BTreeMap<String, String>,
    /// Nodes whose drain the scenario itself lifts.
    lifted: BTreeSet<String>,
    altered: BTreeSet<String>,
    last: Vec<Seen>,
}

impl Drains {
    /// Records the whole table.
    pub fn look(&mut self, table: Vec<Seen>) {
        for (name, reason) in &self.stand {
            match table.iter().find(|node| node.name == *name) {
                None => self.altered.insert(format!("node {name}, drained by others with `{reason}`, is not in Slurm's table any more")),
                // Others may give it another reason: Slurm itself does, for example if a disk is full. The operator's own have its prefix.
                Some(node) if !node.is_held_by_others() => self
                    .altered
                    .insert(format!("node {name}, drained by others with `{reason}`, is {:?} with `{}`", node.states, node.reason)),
                Some(_) => false,
            };
        }
        let theirs: BTreeMap<String, String> =
            table.iter().filter(|node| node.is_held_by_others()).map(|node| (node.name.clone(), node.reason.clone())).collect();
        self.lifted.retain(|node| theirs.contains_key(node));
        self.stand = theirs.into_iter().filter(|(node, _)| !self.lifted.contains(node)).collect();
        self.last = table;
    }

    /// Allows the scenario itself to lift the drain of this node; a poll may still see it until then.
    pub fn lift(&mut self, node: &str) {
        self.stand.remove(node);
        self.lifted.insert(node.to_owned());
    }

    pub fn altered(&self) -> Vec<String> {
        self.altered.iter().cloned().collect()
    }

    /// The last table, in Slurm's order.
    pub fn table(&self) -> &[Seen] {
        &self.last
    }
}

/// The nodes in a response of slurmrestd, or `None` if it is an error or not the whole table.
pub fn parse(answer: &Value) -> Option<Vec<Seen>> {
    if answer["errors"].as_array().is_none_or(|errors| !errors.is_empty()) {
        return None;
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let node = |node: &Value| {
        let states = node["state"].as_array()?.iter().filter_map(text).collect();
        Some(Seen { name: text(&node["name"])?, states, reason: text(&node["reason"])? })
    };
    answer["nodes"].as_array()?.iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(states: &[&str], reason: &str) -> Seen {
        Seen { name: "w-0".to_owned(), states: states.iter().map(|state| (*state).to_owned()).collect(), reason: reason.to_owned() }
    }

    /// Number of changes that a sequence of polls of one node shows; an empty poll has no node.
    fn alterations(looks: &[Option<Seen>]) -> usize {
        let mut drains = Drains::default();
        for look in looks {
            drains.look(look.iter().cloned().collect());
        }
        drains.altered().len()
    }

    #[test]
    fn what_the_operator_drained_may_change_as_it_likes() {
        let ours = node(&["IDLE", "DRAIN"], "slurm-operator: scale-in");
        assert_eq!(alterations(&[Some(node(&["IDLE"], "")), Some(ours.clone()), Some(node(&["IDLE"], "")), None]), 0);
        assert_eq!(alterations(&[Some(ours), Some(node(&["IDLE", "DRAIN"], "bad disk"))]), 0, "an administrator takes it over");
    }

    #[test]
    fn a_drain_of_others_stays_with_its_words() {
        let theirs = node(&["MIXED", "DRAIN"], "bad disk");
        assert_eq!(alterations(&[Some(theirs.clone()), Some(node(&["DOWN", "DRAIN"], "bad disk"))]), 0, "the rest of its state is Slurm's");
        assert_eq!(alterations(&[Some(theirs.clone()), Some(node(&["MIXED"], ""))]), 1);
        assert_eq!(alterations(&[Some(theirs.clone()), Some(node(&["MIXED", "DRAIN"], "slurm-operator: cordoned"))]), 1);
        assert_eq!(alterations(&[Some(theirs.clone()), Some(node(&["MIXED", "DRAIN"], "worse disk"))]), 0, "by others, too");
        assert_eq!(alterations(&[Some(theirs), None]), 1);
    }

    #[test]
    fn a_scenario_may_lift_a_drain_that_it_made() {
        let mut drains = Drains::default();
        drains.look(vec![node(&["IDLE", "DRAIN"], "bad disk")]);
        drains.lift("w-0");
        drains.look(vec![node(&["IDLE", "DRAIN"], "bad disk")]);
        drains.look(vec![node(&["IDLE"], "")]);
        assert_eq!(drains.altered(), Vec::<String>::new());
        drains.look(vec![node(&["IDLE", "DRAIN"], "bad disk")]);
        drains.look(vec![node(&["IDLE"], "")]);
        assert_eq!(drains.altered().len(), 1, "another drain is another matter");
    }

    #[test]
    fn an_answer_with_errors_is_no_table() {
        let answer = json!({"errors": [], "nodes": [{"name": "w-0", "state": ["IDLE", "DRAIN"], "reason": "bad disk", "more": 1}]});
        assert_eq!(parse(&answer), Some(vec![node(&["IDLE", "DRAIN"], "bad disk")]));
        assert_eq!(parse(&json!({"errors": [{"error": "no"}], "nodes": []})), None);
    }
}
