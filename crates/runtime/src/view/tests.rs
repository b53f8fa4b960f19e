use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn pod(status: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "w-0", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"},
            "annotations": {"heavy": "load"},
            "managedFields": [{"manager": "x", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true}],
        },
        "spec": {"containers": [{"name": "slurmd", "image": "i"}]},
        "status": status,
    })
}

fn view(status: &Value) -> PodView {
    serde_json::from_value(pod(status)).unwrap()
}

#[test]
fn a_view_agrees_with_the_full_pod_and_leaves_the_weight() {
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "slurmd", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}]});
    let full: Pod = serde_json::from_value(pod(&status)).unwrap();
    let slim = view(&status);
    assert_eq!(slim.metadata.name, full.metadata.name);
    assert_eq!(slim.metadata.uid, full.metadata.uid);
    assert_eq!(slim.metadata.resource_version, full.metadata.resource_version);
    assert_eq!(slim.metadata.labels, full.metadata.labels);
    assert_eq!(slim.metadata.owner_references, full.metadata.owner_references);
    assert_eq!(Some(slim.status.phase.clone()), full.status.clone().unwrap().phase);
    assert_eq!(slim.status.container_statuses[0].name, full.status.unwrap().container_statuses.unwrap()[0].name);
    assert_eq!((slim.metadata.managed_fields, slim.metadata.annotations), (None, None));
}

#[test]
fn a_pod_without_status_is_starting() {
    let view: PodView = serde_json::from_value(json!({"metadata": {"name": "w-0"}})).unwrap();
    assert!(!view.is_ready() && !view.is_ended() && !view.is_going());
    assert_eq!(view.trouble(), None);
}

#[rstest]
#[case::unschedulable(json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}]}),
    Some("0/2 nodes are available"))]
#[case::pull(json!({"phase": "Pending", "containerStatuses": [{"name": "slurmd", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}]}),
    Some("container slurmd waits: ErrImagePull: not found"))]
#[case::just_starting(json!({"phase": "Pending", "containerStatuses": [{"name": "slurmd", "state": {"waiting": {"reason": "ContainerCreating"}}}]}), None)]
#[case::running(json!({"phase": "Running", "containerStatuses": [{"name": "slurmd", "state": {"running": {}}}]}), None)]
fn trouble_is_told_in_words(#[case] status: Value, #[case] expected: Option<&str>) {
    assert_eq!(view(&status).trouble().as_deref(), expected);
}
