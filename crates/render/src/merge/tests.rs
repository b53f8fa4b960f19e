use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

mod fields;
mod page;

fn raw(value: &Value) -> Raw {
    Raw(value.as_object().cloned().unwrap())
}

fn merged(base: &Value, user: &Value) -> Value {
    pod_spec(base.clone(), Some(&raw(user)))
}

#[rstest]
#[case::false_wins(json!({"securityContext": {"privileged": true, "runAsUser": 0}}), json!({"securityContext": {"privileged": false}}),
    json!({"securityContext": {"privileged": false, "runAsUser": 0}}))]
#[case::zero_wins(json!({"terminationGracePeriodSeconds": 30}), json!({"terminationGracePeriodSeconds": 0}), json!({"terminationGracePeriodSeconds": 0}))]
#[case::empty_text_wins(json!({"workingDir": "/x"}), json!({"workingDir": ""}), json!({"workingDir": ""}))]
#[case::map_entries_are_added(json!({"nodeSelector": {"a": "1"}}), json!({"nodeSelector": {"b": "2"}}), json!({"nodeSelector": {"a": "1", "b": "2"}}))]
#[case::null_says_nothing(json!({"lifecycle": {"preStop": {}}}), json!({"lifecycle": null, "affinity": null}), json!({"lifecycle": {"preStop": {}}}))]
#[case::null_inside_says_nothing(json!({"livenessProbe": {"httpGet": {"path": "/livez"}}}),
    json!({"livenessProbe": {"exec": null, "periodSeconds": null}}), json!({"livenessProbe": {"httpGet": {"path": "/livez"}}}))]
#[case::null_in_a_new_object_is_left_out(json!({}), json!({"image": {"digest": null, "tag": "1"}, "list": [null, 1]}), json!({"image": {"tag": "1"}, "list": [1]}))]
#[case::empty_object_says_nothing(json!({"resources": {"limits": {"cpu": 1}}}), json!({"resources": {"limits": {}}, "affinity": {}, "securityContext": {"capabilities": {}}}),
    json!({"resources": {"limits": {"cpu": 1}}}))]
#[case::empty_object_can_mean_a_lot(json!({}), json!({"volumes": [{"name": "a", "emptyDir": {}}], "inventedIn2031": {}}),
    json!({"volumes": [{"name": "a", "emptyDir": {}}], "inventedIn2031": {}}))]
#[case::empty_merging_list_adds_nothing(json!({"tolerations": [{"key": "ours"}], "args": ["-Z"]}),
    json!({"tolerations": [], "args": [], "env": [], "volumes": [], "volumeMounts": [], "initContainers": [], "imagePullSecrets": []}),
    json!({"tolerations": [{"key": "ours"}], "args": ["-Z"]}))]
#[case::empty_whole_list_wins(json!({"capabilities": {"add": ["BPF"]}}), json!({"capabilities": {"add": []}}), json!({"capabilities": {"add": []}}))]
#[case::unknown_fields_survive(json!({"name": "a"}), json!({"inventedIn2031": {"deep": [1, {"er": []}]}}),
    json!({"name": "a", "inventedIn2031": {"deep": [1, {"er": []}]}}))]
#[case::other_type_is_the_users(json!({"a": [1], "b": {"c": 1}, "d": 1}), json!({"a": {"x": 1}, "b": "text", "d": [2]}), json!({"a": {"x": 1}, "b": "text", "d": [2]}))]
#[case::delete_a_field(json!({"lifecycle": {"preStop": {}}, "name": "a"}), json!({"lifecycle": {"$patch": "delete"}}), json!({"name": "a"}))]
#[case::delete_what_is_not_there(json!({"name": "a"}), json!({"lifecycle": {"$patch": "delete"}, "env": [{"name": "A", "$patch": "delete"}]}), json!({"name": "a"}))]
#[case::delete_an_item(json!({"env": [{"name": "A"}, {"name": "B"}]}), json!({"env": [{"name": "A", "$patch": "delete"}]}), json!({"env": [{"name": "B"}]}))]
#[case::delete_of_a_union(json!({"tolerations": [{"key": "ours"}]}), json!({"tolerations": [{"key": "ours", "$patch": "delete"}]}), json!({"tolerations": []}))]
#[case::replace_an_object(json!({"securityContext": {"runAsUser": 401, "fsGroup": 401}}), json!({"securityContext": {"$patch": "replace", "runAsUser": 0}}),
    json!({"securityContext": {"runAsUser": 0}}))]
#[case::replace_a_list(json!({"tolerations": [{"key": "ours"}]}), json!({"tolerations": [{"$patch": "replace"}, {"key": "theirs"}]}),
    json!({"tolerations": [{"key": "theirs"}]}))]
fn values_merge(#[case] base: Value, #[case] user: Value, #[case] expected: Value) {
    assert_eq!(merged(&base, &user), expected);
}

#[rstest]
#[case::settings_keep_the_action(json!({"periodSeconds": 5}), json!({"httpGet": {"path": "/livez", "port": "x"}, "periodSeconds": 5, "failureThreshold": 6}))]
#[case::same_action_merges(json!({"httpGet": {"port": 80}}), json!({"httpGet": {"path": "/livez", "port": 80}, "periodSeconds": 10, "failureThreshold": 6}))]
#[case::other_action_replaces(json!({"exec": {"command": ["true"]}}), json!({"exec": {"command": ["true"]}, "periodSeconds": 10, "failureThreshold": 6}))]
#[case::newest_action(json!({"grpc": {"port": 1}, "httpGet": null}), json!({"grpc": {"port": 1}, "periodSeconds": 10, "failureThreshold": 6}))]
#[case::empty(json!({}), json!({"httpGet": {"path": "/livez", "port": "x"}, "periodSeconds": 10, "failureThreshold": 6}))]
fn a_probe_has_one_action(#[case] user: Value, #[case] expected: Value) {
    let ours = json!({"httpGet": {"path": "/livez", "port": "x"}, "periodSeconds": 10, "failureThreshold": 6});
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(merged(&json!({ probe: ours }), &json!({ probe: user })), json!({ probe: expected }));
    }
    let hook = json!({"preStop": {"exec": {"command": ["a"]}}});
    assert_eq!(
        merged(&json!({"lifecycle": hook}), &json!({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}})),
        json!({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}})
    );
}

/// One row for each list of a container or a pod spec that is not simply replaced. The user's items are one that matches an item of ours and a new
/// one.
#[rstest]
#[case("containers", json!([{"name": "a", "image": "i", "tty": true}]), json!([{"name": "b"}, {"name": "a", "image": "j"}]),
    json!([{"name": "a", "image": "j", "tty": true}, {"name": "b"}]))]
#[case("initContainers", json!([{"name": "a", "image": "i"}]), json!([{"name": "b"}, {"name": "a", "tty": true}]),
    json!([{"name": "a", "image": "i", "tty": true}, {"name": "b"}]))]
#[case("ephemeralContainers", json!([{"name": "a", "image": "i"}]), json!([{"name": "b"}, {"name": "a", "tty": true}]),
    json!([{"name": "a", "image": "i", "tty": true}, {"name": "b"}]))]
#[case("claims", json!([{"name": "a"}]), json!([{"name": "a", "request": "r"}, {"name": "b"}]), json!([{"name": "a", "request": "r"}, {"name": "b"}]))]
#[case("imagePullSecrets", json!([{"name": "a"}]), json!([{"name": "a"}, {"name": "b"}]), json!([{"name": "a"}, {"name": "b"}]))]
#[case("schedulingGates", json!([{"name": "a"}]), json!([{"name": "a"}, {"name": "b"}]), json!([{"name": "a"}, {"name": "b"}]))]
#[case("ports", json!([{"name": "x", "containerPort": 1, "protocol": "TCP"}]), json!([{"containerPort": 1, "hostPort": 9}, {"containerPort": 1, "protocol": "UDP"}]),
    json!([{"name": "x", "containerPort": 1, "protocol": "TCP", "hostPort": 9}, {"containerPort": 1, "protocol": "UDP"}]))]
#[case("volumeMounts", json!([{"name": "etc", "mountPath": "/etc", "readOnly": true}]), json!([{"name": "home", "mountPath": "/home"}, {"mountPath": "/etc", "subPath": "x"}]),
    json!([{"name": "etc", "mountPath": "/etc", "readOnly": true, "subPath": "x"}, {"name": "home", "mountPath": "/home"}]))]
#[case("volumeDevices", json!([{"name": "a", "devicePath": "/dev/a"}]), json!([{"name": "z", "devicePath": "/dev/a"}, {"name": "b", "devicePath": "/dev/b"}]),
    json!([{"name": "z", "devicePath": "/dev/a"}, {"name": "b", "devicePath": "/dev/b"}]))]
#[case("hostAliases", json!([{"ip": "1", "hostnames": ["a"]}]), json!([{"ip": "1", "hostnames": ["b"]}, {"ip": "2", "hostnames": ["c"]}]),
    json!([{"ip": "1", "hostnames": ["b"]}, {"ip": "2", "hostnames": ["c"]}]))]
#[case("topologySpreadConstraints", json!([{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}]),
    json!([{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 2}, {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]),
    json!([{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 2}, {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]))]
#[case("volumes", json!([{"name": "a", "emptyDir": {"medium": "Memory"}}, {"name": "b", "emptyDir": {}}, {"name": "d", "emptyDir": {}}]),
    json!([{"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "b", "hostPath": {"path": "/x"}}, {"name": "c", "emptyDir": {}}, {"name": "d", "emptyDir": null}]),
    json!([{"name": "a", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}, {"name": "b", "hostPath": {"path": "/x"}}, {"name": "d", "emptyDir": {}}, {"name": "c", "emptyDir": {}}]))]
#[case("resourceClaims", json!([{"name": "a", "resourceClaimName": "x"}]), json!([{"name": "a", "resourceClaimTemplateName": "y"}, {"name": "b"}]),
    json!([{"name": "a", "resourceClaimTemplateName": "y"}, {"name": "b"}]))]
#[case("env", json!([{"name": "A", "valueFrom": {"x": 1}}, {"name": "B", "value": "1"}]), json!([{"name": "A", "value": ""}, {"name": "C", "value": "3"}]),
    json!([{"name": "A", "value": ""}, {"name": "B", "value": "1"}, {"name": "C", "value": "3"}]))]
#[case("tolerations", json!([{"key": "ours"}]), json!([{"key": "theirs"}, {"key": "ours", "value": null}]), json!([{"key": "ours"}, {"key": "theirs"}]))]
#[case("searches", json!(["ours"]), json!(["theirs", "ours"]), json!(["ours", "theirs"]))]
#[case("requiredDuringSchedulingIgnoredDuringExecution", json!([{"topologyKey": "a"}]), json!([{"topologyKey": "b"}, {"topologyKey": "a"}]),
    json!([{"topologyKey": "a"}, {"topologyKey": "b"}]))]
#[case("preferredDuringSchedulingIgnoredDuringExecution", json!([{"weight": 1}]), json!([{"weight": 2}]), json!([{"weight": 1}, {"weight": 2}]))]
#[case("args", json!(["-Z", "--conf-server"]), json!(["-v", "-Z"]), json!(["-Z", "--conf-server", "-v", "-Z"]))]
#[case("command", json!(["ours"]), json!(["theirs"]), json!(["theirs"]))]
#[case("add", json!(["BPF"]), json!(["SYS_ADMIN"]), json!(["SYS_ADMIN"]))]
#[case("sysctls", json!([{"name": "a", "value": "1"}]), json!([{"name": "b", "value": "2"}]), json!([{"name": "b", "value": "2"}]))]
fn lists_merge(#[case] field: &str, #[case] ours: Value, #[case] user: Value, #[case] expected: Value) {
    let (base, user) = (json!({ "deep": { field: ours } }), json!({ "deep": { field: user } }));
    assert_eq!(merged(&base, &user)["deep"][field], expected);
    assert_eq!(container(base, Some(&raw(&user)))["deep"][field], expected, "containers and pods have the same rules");
}

#[rstest]
#[case::joined(json!("-vvv"), json!("--conf-server slurm-controller.slurm:6817 -vvv"))]
#[case::theirs_already(json!("--conf-server slurm-controller.slurm:6817 -vvv"), json!("--conf-server slurm-controller.slurm:6817 -vvv"))]
#[case::nothing_more(json!(null), json!("--conf-server slurm-controller.slurm:6817"))]
fn options_of_sackd_keep_the_address_of_slurmctld(#[case] theirs: Value, #[case] expected: Value) {
    let base = json!({"env": [{"name": "SACKD_OPTIONS", "value": "--conf-server slurm-controller.slurm:6817"}]});
    let user = json!({"env": if theirs.is_null() { json!([]) } else { json!([{"name": "SACKD_OPTIONS", "value": theirs}]) }});
    assert_eq!(merged(&base, &user), json!({"env": [{"name": "SACKD_OPTIONS", "value": expected}]}));
}

/// Everything that the public charts send if their user sets nothing.
#[test]
fn what_charts_send_by_default_changes_nothing() {
    let base = json!({
        "securityContext": {"runAsUser": 401},
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}},
        "tolerations": [{"key": "nodeset.slinky.slurm.net/worker"}],
        "initContainers": [{"name": "logfile", "image": "i"}],
        "containers": [{"name": "slurmd", "image": "i", "args": ["-Z"], "env": [{"name": "POD_CPUS", "value": "0"}], "volumeMounts": [{"mountPath": "/etc/slurm"}]}],
        "volumes": [{"name": "slurm-etc", "projected": {}}],
    });
    let container = json!({"args": [], "env": [], "resources": {}, "volumeMounts": [], "securityContext": {}, "command": null});
    let pod = json!({"resources": {}, "initContainers": [], "affinity": {}, "tolerations": [], "volumes": [], "imagePullSecrets": [], "priorityClassName": null});
    assert_eq!(merged(&base, &pod), base);
    assert_eq!(super::container(base["containers"][0].clone(), Some(&raw(&container))), base["containers"][0]);
    assert_eq!(merged(&json!({}), &pod), json!({}), "nor is anything added");
}

/// Objects that users could write: fields of every rule, and any value.
fn fields(depth: u32) -> BoxedStrategy<Value> {
    let scalar = prop_oneof![Just(json!(null)), Just(json!(false)), (0..2).prop_map(|number| json!(number)), "[ab]?".prop_map(Value::from)];
    let scalars = prop::collection::vec("[abc]", 0..3).prop_map(Value::from).boxed();
    let field = prop::sample::select(vec![
        "name",
        "env",
        "volumes",
        "tolerations",
        "command",
        "containers",
        "ports",
        "resources",
        "httpGet",
        "exec",
        "sub",
        "searches",
        "$patch",
    ]);
    let value = if depth == 0 {
        prop_oneof![scalar, scalars].boxed()
    } else {
        let inner = fields(depth - 1);
        prop_oneof![scalar, scalars, inner.clone(), prop::collection::vec(inner, 0..3).prop_map(Value::from)].boxed()
    };
    let patched = |(field, value): (&str, Value)| match field {
        "$patch" => (field.to_owned(), json!(if value.is_null() { "delete" } else { "replace" })),
        _ => (field.to_owned(), value),
    };
    prop::collection::vec((field, value).prop_map(patched), 0..5).prop_map(|pairs| pairs.into_iter().collect()).boxed()
}

proptest! {
    #[test]
    fn merging_nothing_changes_nothing(base in fields(2)) {
        prop_assert_eq!(&pod_spec(base.clone(), None), &base);
        prop_assert_eq!(&merged(&base, &json!({})), &base);
    }

    #[test]
    fn merging_twice_is_merging_once(base in fields(2), user in fields(2)) {
        let base = merged(&json!({}), &base);
        let once = merged(&base, &user);
        prop_assert_eq!(merged(&once, &user), once);
    }

    #[test]
    fn no_null_and_no_directive_gets_into_a_pod(base in fields(2), user in fields(2)) {
        let base = merged(&json!({}), &base);
        let text = merged(&base, &user).to_string();
        prop_assert!(!text.contains("null") && !text.contains("$patch"), "{}", text);
    }
}
