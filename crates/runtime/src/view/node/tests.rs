use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "k1", "uid": "u", "resourceVersion": "7", "labels": {"kubernetes.io/hostname": "k1"},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true", "nodeset.slinky.slurm.net/node-cordon-reason": "fan"},
            "managedFields": [{"manager": "x", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {"podCIDR": "10.1.0.0/24", "unschedulable": true, "taints": [
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"},
            {"key": "pool", "value": "gpu", "effect": "NoExecute"},
        ]},
        "status": {
            "capacity": {"cpu": "8"},
            "images": [{"names": ["i"], "sizeBytes": 1}],
            "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z",
                 "reason": "KubeletReady", "message": "kubelet is posting ready status"},
                {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure"},
            ],
        },
    })
}

fn view(node: Value) -> NodeView {
    serde_json::from_value(node).unwrap()
}

#[test]
fn a_view_agrees_with_the_full_node_and_leaves_the_weight() {
    let full: Node = serde_json::from_value(node()).unwrap();
    let NodeView { metadata, spec, status } = view(node());
    let (full_spec, full_status) = (full.spec.unwrap(), full.status.unwrap());
    assert_eq!(metadata.name, full.metadata.name);
    assert_eq!(metadata.uid, full.metadata.uid);
    assert_eq!(metadata.resource_version, full.metadata.resource_version);
    assert_eq!(metadata.labels, full.metadata.labels);
    assert_eq!(metadata.managed_fields, None);
    assert_eq!(metadata.annotations.unwrap().into_keys().collect::<Vec<_>>(), [annotation::NODE_CORDON_REASON]);
    assert_eq!(Some(spec.unschedulable), full_spec.unschedulable);
    for (slim, full) in spec.taints.iter().zip(full_spec.taints.unwrap()) {
        assert_eq!((&slim.key, &slim.value, &slim.effect), (&full.key, &full.value, &full.effect));
    }
    for (slim, full) in status.conditions.iter().zip(full_status.conditions.unwrap()) {
        assert_eq!((&slim.type_, &slim.status, &slim.reason, &slim.message), (&full.type_, &full.status, &full.reason, &full.message));
    }
    assert_eq!((spec.taints.len(), status.conditions.len()), (2, 2));
}

#[test]
fn a_node_that_says_nothing_is_open() {
    let node = view(json!({"metadata": {"name": "k1"}}));
    assert!(!node.spec.unschedulable);
    assert_eq!((node.spec.taints.len(), node.status.conditions.len()), (0, 0));
}

#[test]
fn a_heartbeat_changes_nothing_but_the_version() {
    let before = view(node());
    let mut later = node();
    later["metadata"]["resourceVersion"] = "8".into();
    later["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-02T03:09:05Z".into();
    let mut later = view(later);
    assert_ne!(later, before);
    later.metadata.resource_version.clone_from(&before.metadata.resource_version);
    assert_eq!(later, before);
}

#[rstest]
#[case::true_("Ready", true)]
#[case::false_("DiskPressure", false)]
#[case::not_there("MemoryPressure", false)]
fn a_condition_counts_when_it_is_true(#[case] type_: &str, #[case] expected: bool) {
    assert_eq!(view(node()).true_condition(type_).is_some(), expected);
}
