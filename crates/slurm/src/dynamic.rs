//! The `--conf` text of a dynamic node: its description of itself for slurmctld.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    gres::Gres,
    item::{Item, NotItems},
    name::Feature,
    topology::Topology,
};

/// `Key=Value` items of a dynamic node, sorted.
///
/// Features are collected in one item; for any other key the last value wins, as in slurm.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeItems {
    features: BTreeSet<Feature>,
    /// By lowercase key, so that two spellings are one key; the last spelling is kept.
    items: BTreeMap<String, Item>,
}

/// Slurm uses only the last of two spellings, so both are merged into this one.
const FEATURES: &str = "Features";

impl NodeItems {
    pub fn add_feature(&mut self, feature: Feature) {
        self.features.insert(feature);
    }

    pub fn set_topology(&mut self, topology: &Topology) {
        self.set(Item::new("Topology", topology));
    }

    /// Sets the GRES of the node; a `Gres` of the user, parsed later, replaces it.
    pub fn set_gres(&mut self, gres: &Gres) {
        self.set(Item::new("Gres", gres));
    }

    /// Adds items from the user's text.
    ///
    /// Fails on anything but items, on features that no job could request, and on keys with which slurmd would not start.
    pub fn parse(&mut self, text: &str) -> Result<(), NotItems> {
        for item in Item::parse_all(text)? {
            if item.is("NodeName") || item.is("Include") {
                return Err(NotItems::new(format!("has `{item}`, which is no option of a node: take it out")));
            }
            if item.value().contains(' ') {
                return Err(NotItems::new(format!("has `{item}`, whose value has blanks: leave them out")));
            }
            if item.is(FEATURES) || item.is("Feature") {
                let features = Feature::parse_list(item.value()).map_err(|error| NotItems::new(format!("is wrong: {error}")))?;
                self.features.extend(features);
            } else {
                self.set(item);
            }
        }
        Ok(())
    }

    fn set(&mut self, item: Item) {
        self.items.insert(item.key().to_ascii_lowercase(), item);
    }

    /// The items, separated by one blank.
    pub fn text(&self) -> String {
        let mut items: Vec<String> = self.items.values().map(ToString::to_string).collect();
        if !self.features.is_empty() {
            let features = self.features.iter().map(Feature::as_str).collect::<Vec<_>>().join(",");
            items.push(format!("{FEATURES}={features}"));
        }
        items.sort_by_key(|item| item.to_ascii_lowercase());
        items.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing("", "Features=cpu")]
    #[case::sorted("Weight=2 CPUs=4", "CPUs=4 Features=cpu Weight=2")]
    #[case::features_collect("Feature=fast,cpu Features=big", "Features=big,cpu,fast")]
    #[case::last_wins_in_any_spelling("realmemory=1 RealMemory=2", "Features=cpu RealMemory=2")]
    #[case::value_with_equals("Gres=gpu:a=b", "Features=cpu Gres=gpu:a=b")]
    fn items_are_sorted_and_merged(#[case] extra: &str, #[case] expected: &str) {
        let mut items = NodeItems::default();
        items.add_feature(Feature::parse("cpu").unwrap());
        items.parse(extra).unwrap();
        assert_eq!(items.text(), expected);
    }

    #[test]
    fn the_users_topology_counts_more_than_ours() {
        let mut items = NodeItems::default();
        items.set_topology(&Topology::parse("t:ours").unwrap());
        assert_eq!(items.text(), "Topology=t:ours");
        items.parse("topology=t:theirs").unwrap();
        assert_eq!(items.text(), "topology=t:theirs");
    }

    #[rstest]
    #[case("CPUs=4 oops", "has `oops`, which is no `Key=Value`: separate items by blanks")]
    #[case("NodeName=y", "has `NodeName=y`, which is no option of a node: take it out")]
    #[case("Reason=\"a b\"", "has `Reason=\"a b\"`, whose value has blanks: leave them out")]
    #[case(
        "Feature=a&b",
        "is wrong: `a&b` is no feature: character 2 is `&`; use letters, digits, `-`, `_`, `.`, `/`, `:`, `=`, `+`, `@`, `%`"
    )]
    fn what_slurmd_would_not_take_is_named(#[case] extra: &str, #[case] words: &str) {
        assert_eq!(NodeItems::default().parse(extra).unwrap_err().to_string(), words);
    }

    proptest! {
        #[test]
        fn the_text_is_one_word_of_a_shell(extra in r#"[aA1= "'\\#\n,`$]{0,20}"#) {
            let mut items = NodeItems::default();
            if items.parse(&extra).is_ok() {
                prop_assert!(!items.text().contains(['\n', '\'', '"', '\\', '#']), "{}", items.text());
            }
        }
    }
}
