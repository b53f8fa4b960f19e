use futures::stream;
use kube::runtime::{reflector::store::Writer, watcher::Event};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn node(name: &str, version: &str) -> Value {
    json!({
        "metadata": { "name": name, "uid": name, "resourceVersion": version, "labels": { "zone": "a" } },
        "spec": { "taints": [] },
        "status": { "conditions": [
            { "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:04:05Z", "message": "fine" },
            { "type": "Hot", "status": "False", "reason": "Cool", "message": "20 C" },
        ] },
    })
}

fn view(node: &Value) -> NodeView {
    serde_json::from_value(node.clone()).unwrap()
}

fn cache<K>(objects: Vec<Value>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + 'static,
{
    let mut writer: Writer<K> = Writer::default();
    for object in objects {
        writer.apply_watcher_event(&Event::Apply(serde_json::from_value(object).unwrap()));
    }
    writer.as_reader()
}

fn pod(nodeset: &str, number: u32, host: &str) -> Value {
    let owner = json!({ "apiVersion": API_VERSION, "kind": "NodeSet", "name": nodeset, "uid": nodeset, "controller": true });
    json!({ "metadata": { "name": format!("{nodeset}-{number}"), "namespace": "n", "ownerReferences": [owner] }, "spec": { "nodeName": host } })
}

fn nodeset(name: &str, mode: &str) -> Value {
    let spec = json!({ "controllerRef": { "name": "c" }, "scalingMode": mode });
    json!({ "apiVersion": API_VERSION, "kind": "NodeSet", "metadata": { "name": name, "namespace": "n" }, "spec": spec })
}

/// NodeSets that these events enqueue, after a first list with the nodes `k1` and `k2`.
async fn woken(events: Vec<Event<NodeView>>) -> Vec<String> {
    let pods = cache(vec![
        pod("one", 0, "k1"),
        pod("one", 1, "k1"),
        pod("two", 0, "k2"),
        json!({ "metadata": { "name": "x", "namespace": "n" } }),
    ]);
    let nodesets = cache(vec![nodeset("one", "StatefulSet"), nodeset("two", "StatefulSet"), nodeset("everywhere", "DaemonSet")]);
    let mut watch = NodeWatch::new(["Hot".to_owned()].into(), &Health::default(), &Metrics::new().0);
    let wakes = watch.route(&nodesets, &pods);
    let first = [Event::Init, Event::InitApply(view(&node("k1", "1"))), Event::InitApply(view(&node("k2", "1"))), Event::InitDone];
    watch.hub.run(stream::iter(first.into_iter().chain(events).map(Ok))).await;
    let mut names: Vec<_> = wakes.map(|nodeset| nodeset.name).collect().await;
    names.sort_unstable();
    names.dedup();
    names
}

#[tokio::test]
async fn the_first_list_wakes_nobody() {
    assert_eq!(woken(Vec::new()).await, Vec::<String>::new());
}

#[rstest]
#[case::sign_of_life("/status/conditions/0/lastHeartbeatTime", json!("2026-01-02T03:09:05Z"), false)]
#[case::version_alone("/metadata/resourceVersion", json!("2"), false)]
#[case::words_of_a_condition_that_is_not_propagated("/status/conditions/0/message", json!("still fine"), false)]
#[case::what_is_not_read("/metadata/annotations", json!({ "theirs": "x" }), false)]
#[case::status_of_any_condition("/status/conditions/0/status", json!("Unknown"), true)]
#[case::words_of_a_propagated_condition("/status/conditions/1/message", json!("21 C"), true)]
#[case::cordon("/spec/unschedulable", json!(true), true)]
#[case::taint("/spec/taints", json!([{ "key": "k", "effect": "NoExecute" }]), true)]
#[case::label("/metadata/labels/zone", json!("b"), true)]
#[case::reason("/metadata/annotations", json!({ "nodeset.slinky.slurm.net/node-cordon-reason": "fan" }), true)]
#[case::another_node_of_the_name("/metadata/uid", json!("other"), true)]
#[case::deletion("/metadata/deletionTimestamp", json!("2026-01-02T03:09:05Z"), true)]
#[tokio::test]
async fn only_what_decisions_rest_on_wakes(#[case] field: &str, #[case] value: Value, #[case] wakes: bool) {
    let mut changed = node("k1", "2");
    let (parent, key) = field.rsplit_once('/').unwrap();
    changed.pointer_mut(parent).unwrap()[key] = value;
    let expected: &[&str] = if wakes { &["everywhere", "one"] } else { &[] };
    assert_eq!(woken(vec![Event::Apply(view(&changed))]).await, expected);
}

#[tokio::test]
async fn a_node_that_comes_or_goes_is_told() {
    assert_eq!(woken(vec![Event::Apply(view(&node("k3", "2")))]).await, ["everywhere"]);
    assert_eq!(woken(vec![Event::Delete(view(&node("k2", "1")))]).await, ["everywhere", "two"]);
}

#[tokio::test]
async fn after_a_gap_only_what_changed_is_told() {
    let mut cordoned = node("k2", "9");
    cordoned["spec"]["unschedulable"] = true.into();
    let again = vec![Event::Init, Event::InitApply(view(&node("k1", "8"))), Event::InitApply(view(&cordoned)), Event::InitDone];
    assert_eq!(woken(again).await, ["everywhere", "two"]);
    assert_eq!(woken(vec![Event::Init, Event::InitApply(view(&node("k2", "1"))), Event::InitDone]).await, ["everywhere", "one"]);
}
