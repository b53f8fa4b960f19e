//! Text that the operator writes on Slurm nodes, and on worker pods about them. Other products parse it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Prefix of every reason that the operator writes on a Slurm node; it does not touch a drain with another reason.
pub const REASON_PREFIX: &str = "slurm-operator: ";
/// After the prefix, on a node that is drained because its NodeSet is scaled in. The same for all, so that many are drained in one call.
pub const SCALE_IN: &str = "Pod is pending termination for scale-in";
/// After the prefix, on a node that is drained because its pod is to be replaced by one from the current template.
pub const UPDATE: &str = "Pod is pending termination for update";
/// After the prefix, on a node that is drained because its NodeSet is being deleted.
pub const DELETED: &str = "NodeSet is being deleted";
/// After the prefix, on a node that its pod's preStop hook set DOWN.
pub const POD_TERMINATING: &str = "Pod is terminating";
/// After the prefix, on a node that was set DOWN because its pod is gone and its preStop hook did not run.
pub const POD_GONE: &str = "Pod is gone";
/// Prefix of the features that come from the Kubernetes node; the operator does not touch others.
pub const FEATURE_PREFIX: &str = "k8s/";

/// Prefix of the pod conditions that report a Slurm node's state.
pub const CONDITION_PREFIX: &str = "SlurmNodeState";
/// A reserved prefix.
pub const RESERVED_CONDITION_PREFIX: &str = "NodeSetState";
/// Base states; the first that a node has is used.
pub const BASE_STATES: [&str; 7] = ["Allocated", "Down", "Error", "Future", "Idle", "Mixed", "Unknown"];
/// State flags; a node can have several.
pub const STATE_FLAGS: [&str; 8] = ["Completing", "Drain", "Fail", "Invalid", "InvalidReg", "Maintenance", "NotResponding", "Undrain"];

/// Pod condition of a worker that takes no new job and has none; `Drain` alone is also set while jobs are running.
pub const DRAINED_CONDITION: &str = "SlurmDrained";
/// Value of [`crate::annotation::POD_DEADLINE`] if a job has no time limit: the latest time that can be written.
pub const NO_DEADLINE: &str = "9999-12-31T23:59:59Z";

/// True if a pod condition of this type reports a Slurm node's state.
pub fn is_our_condition(type_: &str) -> bool {
    type_ == DRAINED_CONDITION || type_.starts_with(CONDITION_PREFIX)
}

/// True if the operator wrote this reason.
pub fn is_our_reason(reason: &str) -> bool {
    reason.starts_with(REASON_PREFIX)
}

/// The link from a Slurm node to its pod, kept in the node's comment as JSON with this order of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodInfo {
    pub namespace: String,
    pub pod_name: String,
    /// The Kubernetes node.
    pub node: String,
    /// Older operators wrote neither this field nor the next.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_set_name: String,
    #[serde(default, rename = "nodeSetUID", skip_serializing_if = "String::is_empty")]
    pub node_set_uid: String,
}

impl PodInfo {
    /// The link in a comment, or `None` if the comment is someone else's.
    pub fn parse(comment: &str) -> Option<Self> {
        serde_json::from_str(comment).ok()
    }
}

impl fmt::Display for PodInfo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn info(node_set_name: &str, node_set_uid: &str) -> PodInfo {
        PodInfo {
            namespace: "slurm".into(),
            pod_name: "w-0".into(),
            node: "k1".into(),
            node_set_name: node_set_name.into(),
            node_set_uid: node_set_uid.into(),
        }
    }

    #[rstest]
    #[case::whole(info("w", "u-1"), r#"{"namespace":"slurm","podName":"w-0","node":"k1","nodeSetName":"w","nodeSetUID":"u-1"}"#)]
    #[case::older(info("", ""), r#"{"namespace":"slurm","podName":"w-0","node":"k1"}"#)]
    fn a_comment_is_written_and_read_as_others_do(#[case] info: PodInfo, #[case] comment: &str) {
        assert_eq!(info.to_string(), comment);
        assert_eq!(PodInfo::parse(comment), Some(info));
    }

    #[rstest]
    #[case::nothing("")]
    #[case::words("rack 3, ask Lena")]
    #[case::other_json(r#"{"rack":3}"#)]
    #[case::no_object("[]")]
    fn a_persons_comment_is_not_ours(#[case] comment: &str) {
        assert_eq!(PodInfo::parse(comment), None);
    }

    #[rstest]
    #[case("slurm-operator: scale-in", true)]
    #[case("slurm-operator:scale-in", false)]
    #[case("fan failed", false)]
    fn a_reason_is_ours_by_its_prefix(#[case] reason: &str, #[case] is_ours: bool) {
        assert_eq!(is_our_reason(reason), is_ours);
    }

    #[rstest]
    #[case("SlurmNodeStateIdle", true)]
    #[case(DRAINED_CONDITION, true)]
    #[case("SlurmDrainedByOthers", false)]
    #[case("Ready", false)]
    fn a_condition_is_ours_by_its_type(#[case] type_: &str, #[case] is_ours: bool) {
        assert_eq!(is_our_condition(type_), is_ours);
    }

    proptest! {
        #[test]
        fn any_link_comes_back_from_one_line(namespace in any::<String>(), pod_name in any::<String>(), node in any::<String>(), set in any::<String>()) {
            let info = PodInfo { namespace, pod_name, node, node_set_name: set, node_set_uid: String::new() };
            let comment = info.to_string();
            prop_assert!(!comment.contains('\n'));
            prop_assert_eq!(PodInfo::parse(&comment), Some(info));
        }

        #[test]
        fn what_is_read_from_any_comment_can_be_written_again(comment in prop_oneof![any::<String>(), r#"\{"namespace":"[a"\\\\]{0,3}","podName":"","node":""\}"#]) {
            if let Some(info) = PodInfo::parse(&comment) {
                prop_assert_eq!(PodInfo::parse(&info.to_string()), Some(info));
            }
        }
    }
}
