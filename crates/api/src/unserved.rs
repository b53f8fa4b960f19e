//! Kinds of the public API that this operator does not serve yet. They are accepted, so that manifests apply unchanged, and always reported.

use serde_json::Value;

/// Kinds that are only stored.
const UNSERVED_KINDS: [&str; 3] = ["Accounting", "LoginSet", "Token"];

/// True if the operator acts on objects of this kind.
pub fn is_served(kind: &str) -> bool {
    !UNSERVED_KINDS.contains(&kind)
}

/// The reason why the operator does nothing for an object with this `spec`, or `None` if it acts.
pub fn obstacle_in(kind: &str, spec: &Value) -> Option<String> {
    // Only the address of an external Accounting is used.
    let is_elsewhere = kind == "Accounting" && spec["external"] == true;
    (!is_served(kind) && !is_elsewhere).then(|| {
        format!(
            "{kind} is not served by this release yet: the object is stored and nothing is done about it; keep running it elsewhere until a later release"
        )
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("NodeSet", json!({"pruneSlurmNodeRecords": "NodeNotFound"}), false)]
    #[case("Accounting", json!({}), true)]
    #[case("Accounting", json!({"external": true}), false)]
    #[case("LoginSet", json!({}), true)]
    #[case("RestApi", json!({}), false)]
    fn what_would_be_done_wrongly_is_not_done(#[case] kind: &str, #[case] spec: Value, #[case] is_in_the_way: bool) {
        assert_eq!(obstacle_in(kind, &spec).is_some(), is_in_the_way);
    }
}
