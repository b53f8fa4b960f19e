//! A node's state in the terms of pod conditions.

use slipway_slurm::rest::model::{NodeState, NodeStates};

/// Base states in order of precedence: the first that a node has counts.
const BASES: [(NodeState, &str); 7] = [
    (NodeState::Allocated, "Allocated"),
    (NodeState::Down, "Down"),
    (NodeState::Error, "Error"),
    (NodeState::Future, "Future"),
    (NodeState::Idle, "Idle"),
    (NodeState::Mixed, "Mixed"),
    (NodeState::Unknown, "Unknown"),
];
const FLAGS: [(NodeState, &str); 8] = [
    (NodeState::Completing, "Completing"),
    (NodeState::Drain, "Drain"),
    (NodeState::Fail, "Fail"),
    (NodeState::Invalid, "Invalid"),
    (NodeState::InvalidReg, "InvalidReg"),
    (NodeState::Maintenance, "Maintenance"),
    (NodeState::NotResponding, "NotResponding"),
    (NodeState::Undrain, "Undrain"),
];

/// The base state, if there is one, and every flag that other products know.
pub fn state_words(state: &NodeStates) -> Vec<&'static str> {
    let has = |(known, _): &&(NodeState, &'static str)| state.has(known);
    let base = BASES.iter().find(has);
    base.into_iter().chain(FLAGS.iter().filter(has)).map(|(_, word)| *word).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use slipway_api::slurm_node::{BASE_STATES, STATE_FLAGS};

    use super::*;

    #[rstest]
    #[case::idle(&[NodeState::Idle], &["Idle"])]
    #[case::draining(&[NodeState::Drain, NodeState::Mixed, NodeState::Completing], &["Mixed", "Completing", "Drain"])]
    #[case::one_base_only(&[NodeState::Idle, NodeState::Down, NodeState::NotResponding], &["Down", "NotResponding"])]
    #[case::what_others_do_not_know(&[NodeState::Idle, NodeState::DynamicNorm, NodeState::Planned], &["Idle"])]
    #[case::nothing(&[], &[])]
    fn a_state_becomes_these_words(#[case] state: &[NodeState], #[case] words: &[&str]) {
        assert_eq!(state_words(&state.iter().cloned().collect()), words);
    }

    #[test]
    fn these_are_the_words_that_others_parse() {
        assert_eq!(BASES.map(|(_, word)| word), BASE_STATES);
        assert_eq!(FLAGS.map(|(_, word)| word), STATE_FLAGS);
    }
}
