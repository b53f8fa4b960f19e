//! Location of a node in the network.

use std::fmt;

use crate::name::{NotAName, TopologyUnit};

/// A node's location in one or more topologies, such as `topo-switch:s2,topo-block:b2`.
///
/// Each location is a topology's name and, separated by colons, the path to the unit; a missing leaf is created under the unit before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology(Vec<Vec<TopologyUnit>>);

impl Topology {
    /// Fails with a sentence on text outside the grammar.
    pub fn parse(text: &str) -> Result<Self, NotAName> {
        let places = text.split(',').map(|place| place.split(':').map(TopologyUnit::parse).collect::<Result<Vec<_>, _>>());
        let places = places.collect::<Result<Vec<_>, _>>().map_err(|unit| {
            NotAName::new("topology", text, unit.to_string(), "write `topology:unit`, several of them with commas between")
        })?;
        Ok(Self(places))
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, place) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            let units: Vec<&str> = place.iter().map(TopologyUnit::as_str).collect();
            write!(out, "{separator}{}", units.join(":"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("topo-switch:s2,topo-block:b2")]
    #[case("tree1")]
    #[case("tree1:root:s9")]
    fn what_slurm_takes_is_a_topology(#[case] text: &str) {
        assert_eq!(Topology::parse(text).unwrap().to_string(), text);
    }

    #[rstest]
    #[case::empty("")]
    #[case::empty_place("a:b,")]
    #[case::empty_unit("a::b")]
    #[case::blank("a:b, c:d")]
    #[case::another_item("a:b Feature=x")]
    #[case::line("a:b\nInclude x")]
    #[case::quote("a:'b'")]
    fn anything_else_is_not(#[case] text: &str) {
        let words = Topology::parse(text).unwrap_err().to_string();
        assert!(words.contains("write `topology:unit`") && !words.contains('\n'), "{words}");
    }

    proptest! {
        #[test]
        fn what_is_accepted_comes_back_and_is_one_word(text in r#"[ab1:,\-_. \n"'#=\\]{0,12}"#) {
            if let Ok(topology) = Topology::parse(&text) {
                prop_assert_eq!(topology.to_string(), text.clone());
                prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:,".contains(&byte)));
            }
        }
    }
}
