use rstest::rstest;
use serde_json::json;

use super::*;

fn raw(value: &Value) -> Raw {
    Raw(value.as_object().cloned().unwrap())
}

#[rstest]
#[case::false_wins(json!({"securityContext": {"privileged": true, "runAsUser": 0}}), json!({"securityContext": {"privileged": false}}),
    json!({"securityContext": {"privileged": false, "runAsUser": 0}}))]
#[case::empty_list_wins(json!({"capabilities": {"add": ["BPF"]}}), json!({"capabilities": {"add": []}}), json!({"capabilities": {"add": []}}))]
#[case::null_removes(json!({"lifecycle": {"preStop": {}}, "name": "a"}), json!({"lifecycle": null}), json!({"name": "a"}))]
#[case::args_are_appended(json!({"args": ["-Z"]}), json!({"args": ["-v"]}), json!({"args": ["-Z", "-v"]}))]
#[case::env_by_name_whole(json!({"env": [{"name": "A", "valueFrom": {"x": 1}}, {"name": "B", "value": "1"}]}),
    json!({"env": [{"name": "A", "value": "2"}, {"name": "C", "value": "3"}]}),
    json!({"env": [{"name": "A", "value": "2"}, {"name": "B", "value": "1"}, {"name": "C", "value": "3"}]}))]
#[case::mounts_by_path(json!({"volumeMounts": [{"name": "etc", "mountPath": "/etc/slurm", "readOnly": true}]}),
    json!({"volumeMounts": [{"name": "home", "mountPath": "/home"}, {"mountPath": "/etc/slurm", "subPath": "x"}]}),
    json!({"volumeMounts": [{"name": "etc", "mountPath": "/etc/slurm", "readOnly": true, "subPath": "x"}, {"name": "home", "mountPath": "/home"}]}))]
#[case::probe_keeps_its_action(json!({"livenessProbe": {"httpGet": {"path": "/livez"}, "periodSeconds": 10}}), json!({"livenessProbe": {"periodSeconds": 5}}),
    json!({"livenessProbe": {"httpGet": {"path": "/livez"}, "periodSeconds": 5}}))]
#[case::probe_has_one_action(json!({"livenessProbe": {"httpGet": {"path": "/livez"}, "periodSeconds": 10}}), json!({"livenessProbe": {"exec": {"command": ["true"]}}}),
    json!({"livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 10}}))]
#[case::unknown_fields_survive(json!({"name": "a"}), json!({"inventedIn2031": {"deep": [1]}}), json!({"name": "a", "inventedIn2031": {"deep": [1]}}))]
fn containers_merge(#[case] base: Value, #[case] user: Value, #[case] expected: Value) {
    assert_eq!(container(base, Some(&raw(&user))), expected);
}

#[rstest]
#[case::our_toleration_stays(json!({"tolerations": [{"key": "ours"}]}), json!({"tolerations": [{"key": "theirs"}, {"key": "ours"}]}),
    json!({"tolerations": [{"key": "ours"}, {"key": "theirs"}]}))]
#[case::volume_is_replaced_whole(json!({"volumes": [{"name": "statesave", "emptyDir": {}}]}), json!({"volumes": [{"name": "statesave", "hostPath": {"path": "/x"}}]}),
    json!({"volumes": [{"name": "statesave", "hostPath": {"path": "/x"}}]}))]
#[case::our_anti_affinity_stays(
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}}}),
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "b"}]}}}),
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}, {"topologyKey": "b"}]}}}))]
#[case::container_added(json!({"containers": [{"name": "slurmd"}]}), json!({"containers": [{"name": "extra", "image": "x"}]}),
    json!({"containers": [{"name": "slurmd"}, {"name": "extra", "image": "x"}]}))]
#[case::node_affinity_is_the_users(json!({}), json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [1]}}}}),
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [1]}}}}))]
fn pod_specs_merge(#[case] base: Value, #[case] user: Value, #[case] expected: Value) {
    assert_eq!(pod_spec(base, Some(&raw(&user))), expected);
}

#[test]
fn without_user_fields_nothing_changes() {
    let base = json!({"args": ["a"], "env": [{"name": "A"}]});
    assert_eq!(container(base.clone(), None), base);
    assert_eq!(container(base.clone(), Some(&Raw::default())), base);
}
