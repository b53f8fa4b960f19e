//! Drain reasons for Slurm, from cordons and conditions of Kubernetes nodes.

use kube::ResourceExt;
use slipway_api::{annotation, slurm_node::REASON_PREFIX};
use slipway_runtime::view::{NodeConditionView, NodeView};
use slipway_slurm::reason::Reason;

/// Maximum length: Slurm's listings repeat the reason for every node.
const LONGEST: usize = 256;

/// Drain reason without our prefix, or `None` if the node is neither cordoned nor has one of the `propagated` conditions. `pod` is the worker there,
/// as `namespace/name`.
///
/// Slurm must return this text unchanged: otherwise the difference would be written again forever.
pub(super) fn cordon(node: &NodeView, pod: &str, propagated: &[String]) -> Option<String> {
    let is_cordoned = node.spec.unschedulable;
    let by_person = || node.annotations().get(annotation::NODE_CORDON_REASON).and_then(|words| line(words)).filter(|_| is_cordoned);
    let by_conditions = || {
        // In the order of the flag: the order on the node may change.
        let true_ = propagated.iter().filter_map(|type_| node.true_condition(type_));
        line(&true_.map(in_words).collect::<Vec<_>>().join("; "))
    };
    let by_default = || is_cordoned.then(|| format!("Node ({}) was cordoned, Pod ({pod}) must be cordoned", node.name_any()));
    by_person().or_else(by_conditions).or_else(by_default).as_deref().map(as_slurm_keeps_it)
}

fn in_words(condition: &NodeConditionView) -> String {
    let NodeConditionView { type_, reason, message, .. } = condition;
    let reason = reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or(type_);
    match message.as_deref().filter(|message| !message.is_empty()) {
        Some(message) => format!("({reason}: {message})"),
        None => format!("({reason})"),
    }
}

/// One line of bounded length, or `None` if nothing visible is left.
fn line(text: &str) -> Option<String> {
    let plain = text.chars().filter_map(|character| match character {
        '\t' | '\r' | '\n' => Some(' '),
        '\u{2028}' | '\u{2029}' => None,
        other => (!other.is_control()).then_some(other),
    });
    let plain: String = plain.collect();
    let cut: String = plain.trim().chars().take(LONGEST).collect();
    let cut = cut.trim_end();
    (!cut.is_empty()).then(|| cut.to_owned())
}

/// The text as Slurm returns it.
fn as_slurm_keeps_it(words: &str) -> String {
    let reason = Reason::of(&format!("{REASON_PREFIX}{words}"));
    reason.as_str().strip_prefix(REASON_PREFIX).unwrap_or(words).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn node(unschedulable: bool, reason: Option<&str>, conditions: &Value) -> NodeView {
        let mut node = json!({
            "metadata": { "name": "k1" }, "spec": { "unschedulable": unschedulable }, "status": { "conditions": conditions },
        });
        if let Some(reason) = reason {
            node["metadata"]["annotations"] = json!({ annotation::NODE_CORDON_REASON: reason });
        }
        serde_json::from_value(node).unwrap()
    }

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({ "type": type_, "status": status, "reason": reason, "message": message })
    }

    fn words(node: &NodeView) -> Option<String> {
        cordon(node, "slurm/w-0", &["GpuBroken".to_owned(), "Hot".to_owned()])
    }

    #[rstest]
    #[case::open(false, None, None)]
    #[case::open_with_a_reason(false, Some("fan"), None)]
    #[case::cordoned(true, None, Some("Node (k1) was cordoned, Pod (slurm/w-0) must be cordoned"))]
    #[case::with_a_reason(true, Some("fan 3 failed"), Some("fan 3 failed"))]
    #[case::empty_reason(true, Some(""), Some("Node (k1) was cordoned, Pod (slurm/w-0) must be cordoned"))]
    #[case::blank_reason(true, Some(" \n\u{7} "), Some("Node (k1) was cordoned, Pod (slurm/w-0) must be cordoned"))]
    #[case::lines_and_tabs(true, Some(" fan\r\n3\tfailed\u{1b}\n"), Some("fan  3 failed"))]
    #[case::quotes(true, Some("it's \"hot\""), Some("it`s `hot`"))]
    fn a_cordon_is_told_with_the_words_that_a_person_gave(
        #[case] cordoned: bool,
        #[case] reason: Option<&str>,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(words(&node(cordoned, reason, &json!([]))).as_deref(), expected);
    }

    #[rstest]
    #[case::false_(json!([condition("GpuBroken", "False", "Fine", "all well")]), None)]
    #[case::unknown(json!([condition("GpuBroken", "Unknown", "Lost", "")]), None)]
    #[case::not_propagated(json!([condition("Ready", "True", "KubeletReady", "ready")]), None)]
    #[case::one(json!([condition("GpuBroken", "True", "Xid79", "fell off the bus")]), Some("(Xid79: fell off the bus)"))]
    #[case::two_in_the_order_of_the_flag(json!([condition("Hot", "True", "T", "90 C"), condition("GpuBroken", "True", "X", "gone")]), Some("(X: gone); (T: 90 C)"))]
    #[case::no_words(json!([condition("Hot", "True", "", "")]), Some("(Hot)"))]
    #[case::several_lines(json!([condition("Hot", "True", "T", "90 C\nat the \"top\"")]), Some("(T: 90 C at the `top`)"))]
    fn a_propagated_condition_counts_with_and_without_a_cordon(#[case] conditions: Value, #[case] expected: Option<&str>) {
        assert_eq!(words(&node(false, None, &conditions)).as_deref(), expected);
        let otherwise = "Node (k1) was cordoned, Pod (slurm/w-0) must be cordoned";
        assert_eq!(words(&node(true, None, &conditions)).as_deref(), Some(expected.unwrap_or(otherwise)));
        assert_eq!(words(&node(true, Some("fan"), &conditions)).as_deref(), Some("fan"));
        assert_eq!(words(&node(false, Some("fan"), &conditions)).as_deref(), expected);
    }

    #[rstest]
    #[case::reason(node(true, Some(&"ß".repeat(300)), &json!([])))]
    #[case::conditions(node(true, None, &json!([condition("Hot", "True", "T", &"ß".repeat(300))])))]
    fn long_words_are_cut_between_two_letters(#[case] node: NodeView) {
        assert_eq!(words(&node).unwrap().chars().count(), LONGEST);
    }

    /// Text with problematic characters.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![any::<String>(), "[ \\t\\r\\n\\x00-\\x1f'\"\u{2028}\u{2029}a-cß]{0,600}"]
    }

    proptest! {
        #[test]
        fn slurm_keeps_the_words_as_they_are(
            reason in proptest::option::of(text()), why in text(), message in text(), name in "[a-z0-9.-]{1,253}", pod in "[a-z0-9/.-]{1,253}",
            is_cordoned: bool, is_hot: bool,
        ) {
            let status = if is_hot { "True" } else { "False" };
            let mut node = node(is_cordoned, reason.as_deref(), &json!([condition("Hot", status, &why, &message)]));
            node.metadata.name = Some(name);
            let words = cordon(&node, &pod, &["Hot".to_owned()]);
            prop_assert_eq!(words.is_some(), is_cordoned || is_hot);
            if let Some(words) = words {
                let whole = format!("{REASON_PREFIX}{words}");
                let kept = Reason::of(&whole);
                prop_assert_eq!(kept.as_str(), whole.as_str());
                prop_assert_eq!(words.trim(), words.as_str());
                prop_assert!(!words.is_empty());
            }
        }
    }
}
