//! Fields of the public API that this operator does not serve yet. They are accepted, so that manifests apply unchanged, and never passed
//! over in silence.

use serde_json::Value;

/// A field that is set, and that nothing is done about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// What is missing, where, and what to do.
    pub words: String,
    /// Whether acting on the rest of the spec would be wrong: other nodes, other names or a second slurmctld beside the one outside.
    pub is_in_the_way: bool,
}

/// When a field counts as set.
#[derive(Clone, Copy)]
enum Set {
    True,
    To(&'static str),
}

struct Gap {
    kind: &'static str,
    field: &'static str,
    set: Set,
    words: &'static str,
    is_in_the_way: bool,
}

const fn gap(kind: &'static str, field: &'static str, set: Set, words: &'static str) -> Gap {
    Gap { kind, field, set, words, is_in_the_way: false }
}

const fn obstacle(kind: &'static str, field: &'static str, set: Set, words: &'static str) -> Gap {
    Gap { kind, field, set, words, is_in_the_way: true }
}

/// Every gap. A line goes when its field is served.
const GAPS: [Gap; 3] = [
    obstacle("NodeSet", "scalingMode", Set::To("DaemonSet"), "nothing is done, because numbered nodes are not what you asked for"),
    gap("NodeSet", "ssh.enabled", Set::True, "nodes run no sshd"),
    gap("NodeSet", "pruneSlurmNodeRecords", Set::To("NodeNotFound"), "records of nodes stay in Slurm"),
];

/// Kinds that are stored and nothing else.
const UNSERVED_KINDS: [&str; 3] = ["Accounting", "LoginSet", "Token"];

/// Whether anything is done for objects of this kind.
pub fn is_served(kind: &str) -> bool {
    !UNSERVED_KINDS.contains(&kind)
}

/// The fields of a kind that are not served, with the value that asks for it, and what that means.
pub(crate) fn gaps(kind: &str) -> impl Iterator<Item = (String, &'static str)> {
    let asked = |gap: &Gap| match gap.set {
        Set::True => format!("{}: true", gap.field),
        Set::To(choice) => format!("{}: {choice}", gap.field),
    };
    GAPS.iter().filter(move |gap| gap.kind == kind).map(move |gap| (asked(gap), gap.words))
}

/// Everything that is set in the `spec` of an object of this kind and not served.
pub fn unserved(kind: &str, spec: &Value) -> Vec<Unserved> {
    // Of what runs elsewhere only the address counts.
    let is_elsewhere = kind == "Accounting" && spec["external"] == true;
    if !is_served(kind) && !is_elsewhere {
        let words = format!(
            "{kind} is not served by this release yet: the object is stored and nothing is done about it; keep running it elsewhere until a later release"
        );
        return vec![Unserved { words, is_in_the_way: true }];
    }
    GAPS.iter()
        .filter(|gap| gap.kind == kind && is_set(spec, gap))
        .map(|gap| Unserved {
            words: format!("spec.{} is not served by this release yet: {}; take it out to go without", gap.field, gap.words),
            is_in_the_way: gap.is_in_the_way,
        })
        .collect()
}

/// What keeps the operator from doing anything for an object, if anything does.
pub fn obstacle_in(kind: &str, spec: &Value) -> Option<String> {
    unserved(kind, spec).into_iter().find(|unserved| unserved.is_in_the_way).map(|unserved| unserved.words)
}

fn is_set(spec: &Value, gap: &Gap) -> bool {
    let value = spec.pointer(&format!("/{}", gap.field.replace('.', "/"))).unwrap_or(&Value::Null);
    match gap.set {
        Set::True => value.as_bool() == Some(true),
        Set::To(choice) => value.as_str() == Some(choice),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::crd;

    #[rstest]
    #[case::nothing("Controller", json!({"external": true, "ha": {"enabled": true}, "prologScriptRefs": [{"name": "p"}]}), &[])]
    #[case::daemon("NodeSet", json!({"scalingMode": "DaemonSet"}), &["scalingMode"])]
    #[case::defaults("NodeSet", json!({"scalingMode": "StatefulSet", "pruneSlurmNodeRecords": "Never", "updateStrategy": {"type": "RollingUpdate"}}), &[])]
    #[case::served("NodeSet", json!({"ordinalPadding": 3, "pinToNode": true, "minReadySeconds": 5, "volumeClaimTemplates": [{}]}), &[])]
    #[case::two("NodeSet", json!({"ssh": {"enabled": true}, "pruneSlurmNodeRecords": "NodeNotFound"}), &["ssh.enabled", "pruneSlurmNodeRecords"])]
    #[case::elsewhere("Accounting", json!({"external": true}), &[])]
    fn what_is_set_and_not_served_is_named(#[case] kind: &str, #[case] spec: Value, #[case] fields: &[&str]) {
        let words: Vec<_> = unserved(kind, &spec).into_iter().map(|unserved| unserved.words).collect();
        assert_eq!(words.len(), fields.len(), "{words:?}");
        for (words, field) in words.iter().zip(fields) {
            assert!(words.starts_with(&format!("spec.{field} is not served")), "{words}");
        }
    }

    #[rstest]
    #[case("NodeSet", json!({"ssh": {"enabled": true}}), false)]
    #[case("Accounting", json!({}), true)]
    #[case("Accounting", json!({"external": true}), false)]
    #[case("NodeSet", json!({"scalingMode": "DaemonSet"}), true)]
    #[case("LoginSet", json!({}), true)]
    #[case("RestApi", json!({}), false)]
    fn what_would_be_done_wrongly_is_not_done(#[case] kind: &str, #[case] spec: Value, #[case] is_in_the_way: bool) {
        assert_eq!(obstacle_in(kind, &spec).is_some(), is_in_the_way);
    }

    #[test]
    fn every_gap_is_a_field_of_its_kind() {
        for gap in &GAPS {
            let definition = crd::definitions().into_iter().find(|definition| definition["spec"]["names"]["kind"] == gap.kind).unwrap();
            let path =
                format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/{}", gap.field.replace('.', "/properties/"));
            assert!(definition.pointer(&path).is_some(), "{} has no field {}", gap.kind, gap.field);
        }
    }
}
