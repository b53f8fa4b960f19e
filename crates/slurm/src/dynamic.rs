//! The `--conf` text of a dynamic node: what slurmd tells slurmctld about itself.

use std::collections::{BTreeMap, BTreeSet};

/// `Key=Value` items of a dynamic node, sorted.
///
/// Features collect in one item; of any other key the last value counts, as in slurm.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeItems {
    features: BTreeSet<String>,
    /// By lower-case key, so that two spellings are one key; the spelling of the last one is kept.
    items: BTreeMap<String, (String, String)>,
}

impl NodeItems {
    /// Adds features, given as Slurm does: separated by commas.
    pub fn add_features(&mut self, list: &str) {
        self.features.extend(list.split(',').map(str::trim).filter(|feature| !feature.is_empty()).map(str::to_owned));
    }

    /// Sets one item.
    pub fn set(&mut self, key: &str, value: &str) {
        match key.to_ascii_lowercase().as_str() {
            "feature" | "features" => self.add_features(value),
            folded => {
                self.items.insert(folded.to_owned(), (key.to_owned(), value.to_owned()));
            }
        }
    }

    /// Adds items from the user's text; the error is the first word that is no `Key=Value`.
    pub fn parse(&mut self, text: &str) -> Result<(), String> {
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some((key, value)) if !key.is_empty() => self.set(key, value),
                _ => return Err(word.to_owned()),
            }
        }
        Ok(())
    }

    /// The items with one blank between them.
    pub fn text(&self) -> String {
        let features = self.features.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        let mut items: Vec<String> = self.items.values().map(|(key, value)| format!("{key}={value}")).collect();
        if !features.is_empty() {
            items.push(format!("Features={features}"));
        }
        items.sort_by_key(|item| item.to_ascii_lowercase());
        items.join(" ")
    }
}

#[cfg(test)]
mod tests {
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
        items.add_features("cpu");
        items.parse(extra).unwrap();
        assert_eq!(items.text(), expected);
    }

    #[rstest]
    #[case("CPUs=4 oops", "oops")]
    #[case("=4", "=4")]
    fn a_word_that_is_no_item_is_named(#[case] extra: &str, #[case] word: &str) {
        assert_eq!(NodeItems::default().parse(extra), Err(word.to_owned()));
    }
}
