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
        "spec": {"containers": [{"name": "slurmd", "image": "i"}], "nodeName": "k1"},
        "status": status,
    })
}

fn view(status: &Value) -> PodView {
    serde_json::from_value(pod(status)).unwrap()
}

#[test]
fn a_view_agrees_with_the_full_pod_and_leaves_the_weight() {
    let status = json!({"phase": "Running", "podIP": "10.1.2.3", "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "slurmd", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}]});
    let full: Pod = serde_json::from_value(pod(&status)).unwrap();
    let slim = view(&status);
    assert_eq!(slim.metadata.name, full.metadata.name);
    assert_eq!(slim.metadata.uid, full.metadata.uid);
    assert_eq!(slim.metadata.resource_version, full.metadata.resource_version);
    assert_eq!(slim.metadata.labels, full.metadata.labels);
    assert_eq!(slim.metadata.owner_references, full.metadata.owner_references);
    assert_eq!(slim.node_name(), full.spec.clone().unwrap().node_name.as_deref());
    assert_eq!(slim.status.pod_ip.as_deref(), Some("10.1.2.3"));
    assert_eq!(slim.status.pod_ip, full.status.clone().unwrap().pod_ip);
    assert_eq!(Some(slim.status.phase.clone()), full.status.clone().unwrap().phase);
    assert_eq!(slim.status.container_statuses[0].name, full.status.unwrap().container_statuses.unwrap()[0].name);
    assert_eq!((slim.metadata.managed_fields, slim.metadata.annotations), (None, None));
}

#[test]
fn of_containers_only_what_slurmd_is_told_about_its_node_is_kept() {
    let variable = |name: &str| json!({"name": name, "value": "7"});
    let pod = json!({"metadata": {"name": "w-0"}, "spec": {"containers": [
        {"name": "helper", "args": ["--conf", "no"]},
        {"name": "slurmd", "args": ["-Z", "--conf-server", "x:6817", "--conf", "'CPUs=1'"],
         "env": [variable("POD_CPUS"), variable("PATH"), {"name": "POD_MEMORY"}, {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "y"}}}]},
    ]}});
    let view: PodView = serde_json::from_value(pod).unwrap();
    let [slurmd] = view.spec.containers.as_slice() else { unreachable!("{:?}", view.spec.containers) };
    assert_eq!(slurmd.args, ["--conf", "'CPUs=1'"]);
    let env: Vec<_> = slurmd.env.iter().map(|it| (it.name.as_str(), it.value.as_str())).collect();
    assert_eq!(env, [("POD_CPUS", "7"), ("POD_MEMORY", "")]);
}

#[test]
fn a_pod_without_status_is_starting() {
    let view: PodView = serde_json::from_value(json!({"metadata": {"name": "w-0"}})).unwrap();
    assert!(!view.is_ready() && !view.is_ended() && !view.is_going());
    assert_eq!((view.trouble(), view.node_name(), view.ready_since(), view.gone_by()), (None, None, None, None));
}

#[rstest]
#[case::ready("Running", "True", Some("2026-01-02T03:04:05Z"))]
#[case::not_ready("Running", "False", None)]
#[case::ended("Failed", "True", None)]
fn only_a_ready_pod_has_been_ready_since(#[case] phase: &str, #[case] ready: &str, #[case] since: Option<&str>) {
    let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let pod = view(&json!({"phase": phase, "conditions": [condition]}));
    assert_eq!(pod.ready_since(), since.map(|since| since.parse().unwrap()));
}

#[test]
fn a_pod_that_is_being_deleted_says_when_its_time_is_up() {
    let mut pod = pod(&json!({}));
    pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:35Z".into();
    let pod: PodView = serde_json::from_value(pod).unwrap();
    assert!(pod.is_going());
    assert_eq!(pod.gone_by(), Some("2026-01-02T03:04:35Z".parse().unwrap()));
}

#[test]
fn an_empty_node_name_is_none() {
    let pod: PodView = serde_json::from_value(json!({"metadata": {"name": "w-0"}, "spec": {"nodeName": ""}})).unwrap();
    assert_eq!(pod.node_name(), None);
}

#[rstest]
#[case::unschedulable(json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}]}),
    Some("0/2 nodes are available"))]
#[case::pull(json!({"phase": "Pending", "containerStatuses": [{"name": "slurmd", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}]}),
    Some("container slurmd waits: ErrImagePull: not found"))]
#[case::crash_loop(json!({"containerStatuses": [{"name": "slurmctld", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
    "lastState": {"terminated": {"exitCode": 1, "message":
        "[2026-01-02T03:04:05.006] error: first\n[2026-01-02T03:04:05.007] fatal: No Assoc usage file to recover\n[2026-01-02T03:04:05.008] info: bye\n"}}}]}),
    Some("container slurmctld waits: CrashLoopBackOff, it ended with code 1: fatal: No Assoc usage file to recover"))]
#[case::crash_without_a_word(json!({"containerStatuses": [{"name": "slurmctld", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 139}}}]}),
    Some("container slurmctld waits: CrashLoopBackOff, it ended with code 139"))]
#[case::just_starting(json!({"phase": "Pending", "containerStatuses": [{"name": "slurmd", "state": {"waiting": {"reason": "ContainerCreating"}}}]}), None)]
#[case::running(json!({"phase": "Running", "containerStatuses": [{"name": "slurmd", "state": {"running": {}}}]}), None)]
fn trouble_is_told_in_words(#[case] status: Value, #[case] expected: Option<&str>) {
    assert_eq!(view(&status).trouble().as_deref(), expected);
}

#[rstest]
#[case::hung("False", "10:05:00Z", json!({"ready": false, "state": {"running": {"startedAt": "2026-01-02T10:00:01Z"}}}), true)]
#[case::never_ready_since_it_started("False", "10:00:01Z", json!({"ready": false, "state": {"running": {"startedAt": "2026-01-02T10:00:01Z"}}}), false)]
#[case::started_again("False", "10:05:00Z", json!({"ready": false, "state": {"running": {"startedAt": "2026-01-02T10:05:03Z"}}}), false)]
#[case::another_container("False", "10:05:00Z", json!({"ready": true, "state": {"running": {"startedAt": "2026-01-02T10:00:01Z"}}}), false)]
#[case::not_running("False", "10:05:00Z", json!({"ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}), false)]
#[case::ready("True", "10:05:00Z", json!({"ready": true, "state": {"running": {"startedAt": "2026-01-02T10:00:01Z"}}}), false)]
fn a_container_that_was_ready_since_it_started_may_hang(
    #[case] status: &str,
    #[case] since: &str,
    #[case] mut container: Value,
    #[case] is_hung: bool,
) {
    container["name"] = "slurmd".into();
    let condition = json!({"type": "ContainersReady", "status": status, "lastTransitionTime": format!("2026-01-02T{since}")});
    let view = view(&json!({"phase": "Running", "conditions": [condition], "containerStatuses": [container]}));
    assert_eq!(view.is_hung("slurmd"), is_hung);
}

#[rstest]
#[case::fatal_before_error("slurmctld: fatal: a\nslurmctld: error: b", Some("slurmctld: fatal: a"))]
#[case::last_error("error: a\nerror: b\nbye", Some("error: b"))]
#[case::last_line("hello\nbye\n\n", Some("bye"))]
#[case::nothing("\n", None)]
fn the_last_words_are_one_line(#[case] message: &str, #[case] expected: Option<&str>) {
    let ended: TerminatedView = serde_json::from_value(json!({"exitCode": 1, "message": message})).unwrap();
    assert_eq!(ended.last_words.as_deref(), expected);
}

#[test]
fn long_last_words_are_shortened() {
    let ended: TerminatedView = serde_json::from_value(json!({"message": "ß".repeat(500)})).unwrap();
    let words = ended.last_words.unwrap();
    assert!(words.len() <= LONGEST_LAST_WORDS + 3 && words.ends_with("..."), "{words}");
}

#[test]
fn only_annotations_that_are_read_are_kept() {
    let mut pod = pod(&json!({}));
    pod["metadata"]["annotations"]["slipway.dev/config-hash"] = "h".into();
    pod["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z".into();
    pod["metadata"]["labels"]["controller-revision-hash"] = "r".into();
    let PodView { metadata, .. } = serde_json::from_value(pod).unwrap();
    assert_eq!(metadata.annotations.unwrap().into_iter().collect::<Vec<_>>(), [("slipway.dev/config-hash".to_owned(), "h".to_owned())]);
    assert_eq!(metadata.labels.unwrap()["controller-revision-hash"], "r");
    assert!(metadata.creation_timestamp.is_some());
}

#[rstest]
#[case::bound(json!({ "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["k1"] }] }] }), Some("k1"))]
#[case::by_label(json!({ "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "gpu", "operator": "Exists" }] }] }), None)]
#[case::one_of_two(json!({ "nodeSelectorTerms": [
    { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["k1"] }] },
    { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["k2"] }] },
] }), None)]
#[case::anywhere_else(json!({ "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "NotIn", "values": ["k1"] }] }] }), None)]
#[case::nothing(json!(null), None)]
fn a_pod_says_which_node_it_is_for(#[case] required: serde_json::Value, #[case] expected: Option<&str>) {
    let mut pod = pod(&json!({}));
    pod["spec"] = json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } } });
    let mut view: PodView = serde_json::from_value(pod).unwrap();
    assert_eq!(view.target_node(), expected);
    view.spec.node_name = Some("k9".to_owned());
    assert_eq!(view.target_node(), Some("k9"), "where it is counts more");
}
