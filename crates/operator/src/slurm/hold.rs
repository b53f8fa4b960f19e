//! Owner of a Slurm node's drain or DOWN state.

use slipway_api::slurm_node::is_our_reason;
use slipway_plan::nodeset::Hold;
use slipway_slurm::rest::model::{Node, NodeState};

/// Owner of a node's drain or DOWN state. Only our prefix in the reason makes it ours, no matter who wrote it.
pub fn hold(node: &Node) -> Hold {
    let (state, is_ours) = (&node.state, is_our_reason(&node.reason));
    if state.has(&NodeState::Drain) {
        return if is_ours { Hold::DrainedByUs } else { Hold::ByOthers };
    }
    if state.has(&NodeState::Down) {
        // A node that does not respond is not back yet.
        let is_back = is_ours && !state.has(&NodeState::NotResponding);
        return if is_back { Hold::DownByUs } else { Hold::ByOthers };
    }
    if state.has(&NodeState::Fail) { Hold::ByOthers } else { Hold::Open }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::idle(&["IDLE"], "", Hold::Open)]
    #[case::busy(&["MIXED"], "", Hold::Open)]
    #[case::scale_in(&["IDLE", "DRAIN"], "slurm-operator: Pod is pending termination for scale-in", Hold::DrainedByUs)]
    #[case::scale_in_of_another_operator(&["MIXED", "DRAIN"], "slurm-operator: Pod (n/w-1) is pending termination for scale-in", Hold::DrainedByUs)]
    #[case::cordon(&["IDLE", "DRAIN"], "slurm-operator: Pod (n/w-1) was cordoned", Hold::DrainedByUs)]
    #[case::admin(&["IDLE", "DRAIN"], "bad disk", Hold::ByOthers)]
    #[case::admin_without_reason(&["IDLE", "DRAIN"], "", Hold::ByOthers)]
    #[case::terminated_and_back(&["DOWN"], "slurm-operator: Pod is terminating", Hold::DownByUs)]
    #[case::terminated_and_away(&["DOWN", "NOT_RESPONDING"], "slurm-operator: Pod is terminating", Hold::ByOthers)]
    #[case::drained_and_terminated(&["IDLE", "DRAIN"], "slurm-operator: Pod is terminating", Hold::DrainedByUs)]
    #[case::down_by_slurm(&["DOWN"], "Not responding", Hold::ByOthers)]
    #[case::failing(&["IDLE", "FAIL"], "", Hold::ByOthers)]
    fn only_what_we_wrote_is_ours(#[case] state: &[&str], #[case] reason: &str, #[case] expected: Hold) {
        let node: Node = serde_json::from_value(json!({ "name": "w-1", "state": state, "reason": reason })).unwrap();
        assert_eq!(hold(&node), expected);
    }
}
