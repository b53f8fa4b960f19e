use rstest::rstest;
use serde_json::json;

use super::*;

fn claim(owners: &Value) -> ClaimView {
    serde_json::from_value(json!({ "metadata": { "name": "data-w-0", "uid": "c", "ownerReferences": owners } })).unwrap()
}

fn nodeset() -> NodeSet {
    let spec = json!({ "controllerRef": { "name": "x" }, "volumeClaimTemplates": [{ "metadata": { "name": "data" } }, { "spec": {} }, { "metadata": 7 }] });
    serde_json::from_value(json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": { "name": "w", "namespace": "n", "uid": "set" }, "spec": spec,
    }))
    .unwrap()
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str, is_controller: bool) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": is_controller })
}

#[rstest]
#[case::unowned(json!([]), Keeper::Unowned)]
#[case::the_node_set(json!([owner("slinky.slurm.net/v1beta1", "NodeSet", "w", "set", true)]), Keeper::NodeSet)]
#[case::the_node_set_without_control(json!([owner("slinky.slurm.net/v1beta1", "NodeSet", "w", "set", false)]), Keeper::NodeSet)]
#[case::one_of_its_name_before(json!([owner("slinky.slurm.net/v1alpha1", "NodeSet", "w", "old", true)]), Keeper::Former)]
#[case::another_node_set(json!([owner("slinky.slurm.net/v1beta1", "NodeSet", "v", "other", true)]), Keeper::Other("NodeSet `v`".into()))]
#[case::its_pod(json!([owner("v1", "Pod", "w-0", "p", true)]), Keeper::Pod("p".into()))]
#[case::another_pod(json!([owner("v1", "Pod", "w-1", "p", true)]), Keeper::Other("Pod `w-1`".into()))]
#[case::somebody_who_does_not_control_it(json!([owner("v1", "ConfigMap", "c", "c", false)]), Keeper::Unowned)]
#[case::somebody_beside_us(json!([owner("v1", "ConfigMap", "c", "c", false), owner("v1", "Pod", "w-0", "p", true)]), Keeper::Pod("p".into()))]
#[case::somebody_else(json!([owner("apps/v1", "StatefulSet", "s", "s", true)]), Keeper::Other("StatefulSet `s`".into()))]
fn who_keeps_a_claim_is_read_from_its_owners(#[case] owners: Value, #[case] expected: Keeper) {
    assert_eq!(keeper(&claim(&owners), &nodeset(), "w-0"), expected);
}

#[test]
fn templates_without_a_name_are_none() {
    assert_eq!(templates(&nodeset()), ["data"]);
}
