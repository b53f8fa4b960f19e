//! Fields that have no effect if there is one worker for each Kubernetes node.

use serde_json::Value;

use super::Kind;

/// One sentence about the fields that are set, or `None`. A schema default does not count as set.
pub(super) fn without_effect(kind: Kind, spec: &Value) -> Option<String> {
    if kind != Kind::NodeSet || spec["scalingMode"] != "DaemonSet" {
        return None;
    }
    let is_set = [
        ("spec.replicas", spec["replicas"].as_i64().is_some_and(|replicas| replicas != 1)),
        ("spec.ordinalPadding", spec["ordinalPadding"].as_i64().is_some_and(|digits| digits != 0)),
        ("spec.pinToNode", spec["pinToNode"] == true),
    ];
    let fields: Vec<&str> = is_set.into_iter().filter(|(_, is_set)| *is_set).map(|(field, _)| field).collect();
    let is_or_are = if fields.len() == 1 { "has" } else { "have" };
    (!fields.is_empty()).then(|| {
        format!(
            "{} {is_or_are} no effect with scalingMode DaemonSet, nor has the scale subresource: there is one worker on each Kubernetes node that suits; \
             choose nodes by spec.template.spec.nodeSelector or affinity",
            fields.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::nothing(json!({ "scalingMode": "DaemonSet" }), None)]
    #[case::what_the_schema_fills_in(json!({ "scalingMode": "DaemonSet", "replicas": 1, "ordinalPadding": 0, "pinToNode": false }), None)]
    #[case::scaled(json!({ "scalingMode": "DaemonSet", "replicas": 3 }), Some("spec.replicas has no effect"))]
    #[case::several(json!({ "scalingMode": "DaemonSet", "ordinalPadding": 3, "pinToNode": true }), Some("spec.ordinalPadding, spec.pinToNode have no effect"))]
    #[case::numbered(json!({ "scalingMode": "StatefulSet", "replicas": 3, "pinToNode": true }), None)]
    fn what_does_not_count_is_said(#[case] spec: Value, #[case] words: Option<&str>) {
        let found = without_effect(Kind::NodeSet, &spec);
        assert!(found.is_some() == words.is_some() && found.as_ref().is_none_or(|found| found.starts_with(words.unwrap())), "{found:?}");
    }
}
