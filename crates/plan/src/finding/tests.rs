use rstest::rstest;
use serde_json::json;
use slipway_api::device::{Device, Devices, GPU};

use super::*;
use crate::nodeset::gres::Amount;

/// Findings, except the one about an object that is not served yet: it has a test of its own.
fn words(kind: Kind, spec: &Value, references: &References) -> Vec<(Weight, String)> {
    let unserved = obstacle_in(kind.as_str(), spec);
    findings(kind, &json!({ "spec": spec }), references)
        .into_iter()
        .filter(|finding| unserved.as_ref() != Some(&finding.words))
        .map(|finding| (finding.weight, finding.words))
        .collect()
}

#[test]
fn what_is_not_served_yet_is_a_warning() {
    let found = findings(Kind::LoginSet, &json!({ "spec": {} }), &References::default());
    assert!(matches!(&found[..], [Finding { weight: Weight::Warning, words }] if words.starts_with("LoginSet is not served")), "{found:?}");
}

#[rstest]
#[case::readable(Kind::NodeSet, json!({ "slipway.dev/drain-deadline": "30m", "slipway.dev/force-delete": "true" }), 0)]
#[case::unreadable(Kind::NodeSet, json!({ "slipway.dev/drain-deadline": "30", "slipway.dev/force-delete": "True" }), 2)]
#[case::of_another_kind(Kind::LoginSet, json!({ "slipway.dev/drain-deadline": "30" }), 0)]
fn an_annotation_that_permits_nothing_is_a_warning(#[case] kind: Kind, #[case] annotations: Value, #[case] expected: usize) {
    let object = json!({ "metadata": { "annotations": annotations }, "spec": {} });
    let mut found = findings(kind, &object, &References::default());
    found.retain(|finding| finding.words.starts_with("metadata: annotation slipway.dev/"));
    assert!(found.len() == expected && found.iter().all(|finding| finding.weight == Weight::Warning), "{found:?}");
}

fn one(kind: Kind, spec: &Value, references: &References) -> (Weight, String) {
    let mut found = words(kind, spec, references);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn with_config_map(keys: &[&str]) -> References {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    References { config_maps: [("files".to_owned(), keys)].into(), ..References::default() }
}

fn with_claim(modes: &[&str]) -> References {
    let modes = modes.iter().map(|mode| (*mode).to_owned()).collect();
    References { claims: [("state".to_owned(), modes)].into(), ..References::default() }
}

#[rstest]
#[case("slurm.conf")]
#[case("slurmdbd.conf")]
fn a_file_that_only_the_operator_writes_is_refused(#[case] key: &str) {
    let spec = json!({ "configFileRefs": [{ "name": "files" }] });
    let (weight, words) = one(Kind::Controller, &spec, &with_config_map(&["gres.conf", key]));
    assert_eq!(weight, Weight::Refusal);
    assert!(words.contains("`files`") && words.contains(key) && words.contains("spec.extraConf"), "{words}");
}

#[test]
fn every_file_that_slurm_reads_is_known_and_another_is_a_warning() {
    let spec = json!({ "configFileRefs": [{ "name": "files" }] });
    assert_eq!(words(Kind::Controller, &spec, &with_config_map(&CONFIG_FILES)), []);
    let (weight, words) = one(Kind::Controller, &spec, &with_config_map(&["gress.conf"]));
    assert_eq!(weight, Weight::Warning);
    assert!(words.contains("`gress.conf`"), "{words}");
}

#[test]
fn what_does_not_exist_yet_is_no_finding() {
    let spec = json!({ "configFileRefs": [{ "name": "files" }], "ha": { "enabled": true }, "persistence": { "existingClaim": "state" } });
    assert_eq!(words(Kind::Controller, &spec, &References::default()), []);
}

#[rstest]
#[case::shared(json!({ "ha": { "enabled": true }, "persistence": { "enabled": true, "existingClaim": "state" } }), &["ReadWriteMany"], true)]
#[case::shared_among_others(json!({ "ha": { "enabled": true }, "persistence": { "existingClaim": "state" } }), &["ReadWriteOnce", "ReadWriteMany"], true)]
#[case::not_shared(json!({ "ha": { "enabled": true }, "persistence": { "existingClaim": "state" } }), &["ReadWriteOnce"], false)]
#[case::one_slurmctld(json!({ "ha": { "enabled": false }, "persistence": { "existingClaim": "state" } }), &["ReadWriteOnce"], true)]
#[case::no_ha(json!({ "persistence": { "existingClaim": "state" } }), &["ReadWriteOnce"], true)]
fn several_slurmctld_need_a_claim_that_several_nodes_can_mount(#[case] spec: Value, #[case] modes: &[&str], #[case] is_fine: bool) {
    let found = words(Kind::Controller, &spec, &with_claim(modes));
    assert_eq!(found.is_empty(), is_fine, "{found:?}");
    assert!(found.iter().all(|(weight, words)| *weight == Weight::Refusal && words.contains("ReadWriteMany")), "{found:?}");
}

#[test]
fn limits_and_gres_that_differ_are_a_warning_to_whoever_writes_them() {
    let gpus = Device { resource: "nvidia.com/gpu".to_owned(), names: &[GPU], count: 8 };
    let stated = |count| vec![Amount { name: GPU.to_owned(), kind: None, count }];
    let says = |count| References {
        gres: Places {
            devices: Devices { known: vec![gpus.clone()], has_others: false },
            stated: Some(Ok(stated(count))),
            ..Places::default()
        },
        ..References::default()
    };
    let (weight, found) = one(Kind::NodeSet, &json!({}), &says(4));
    assert_eq!(weight, Weight::Warning);
    assert!(found.contains("`Gres=gpu:4`") && found.contains("`nvidia.com/gpu: 8`"), "{found}");
    assert_eq!(words(Kind::NodeSet, &json!({}), &says(8)), []);
}

/// A Controller `name` in namespace `slurm`.
fn named(name: &str, cluster: Option<&str>) -> Value {
    json!({ "metadata": { "namespace": "slurm", "name": name }, "spec": { "clusterName": cluster } })
}

#[rstest]
#[case::forty(&"a".repeat(34), None, true)]
#[case::more(&"a".repeat(35), None, false)]
#[case::empty(&"a".repeat(35), Some(""), false)]
#[case::given(&"a".repeat(35), Some("short"), true)]
#[case::not_named_yet("", None, true)]
fn a_default_name_that_is_too_long_is_refused_when_created_and_a_warning_later(
    #[case] name: &str,
    #[case] cluster: Option<&str>,
    #[case] is_fine: bool,
) {
    let object = named(name, cluster);
    let weights = |found: Vec<Finding>| -> Vec<Weight> {
        assert!(
            found.iter().all(|finding| finding.words.contains("41 characters") && finding.words.contains("spec.clusterName")),
            "{found:?}"
        );
        found.into_iter().map(|finding| finding.weight).collect()
    };
    let references = References::default();
    let (created, later): (&[_], &[_]) = if is_fine { (&[], &[]) } else { (&[Weight::Refusal], &[Weight::Warning]) };
    assert_eq!(weights(findings_at_write(Kind::Controller, &object, &Value::Null, &references)), created);
    assert_eq!(weights(findings_at_write(Kind::Controller, &object, &object, &references)), later);
    assert_eq!(weights(findings(Kind::Controller, &object, &references)), later);
    assert_eq!(findings_at_write(Kind::RestApi, &object, &Value::Null, &references), []);
}

#[rstest]
#[case::as_it_was(Some("hpc"), Some("hpc"), true)]
#[case::another(Some("hpc"), Some("hpc2"), false)]
#[case::default_written_out(None, Some("slurm_a"), true)]
#[case::default_left_out(Some("slurm_a"), None, true)]
#[case::empty_is_the_default(Some(""), None, true)]
#[case::of_another_namespace(None, Some("other_a"), false)]
#[case::to_the_default(Some("other_a"), Some(""), false)]
fn the_name_of_a_cluster_stays(#[case] was: Option<&str>, #[case] is: Option<&str>, #[case] is_fine: bool) {
    let found = findings_at_write(Kind::Controller, &named("a", is), &named("a", was), &References::default());
    assert_eq!(found.is_empty(), is_fine, "{found:?}");
    let says = |words: &str| words.starts_with("spec.clusterName") && words.contains("make a new Controller");
    assert!(found.iter().all(|finding| finding.weight == Weight::Refusal && says(&finding.words)), "{found:?}");
}

#[rstest]
#[case(Kind::Controller, 1)]
#[case(Kind::LoginSet, 1)]
#[case(Kind::RestApi, 1)]
#[case(Kind::Accounting, 1)]
#[case(Kind::NodeSet, 0)]
#[case(Kind::Token, 0)]
fn dropped_addresses_are_told_where_there_is_a_service(#[case] kind: Kind, #[case] count: usize) {
    let spec = json!({ "service": { "spec": { "externalIPs": ["192.0.2.1"] } } });
    assert_eq!(words(kind, &spec, &References::default()).len(), count);
    assert_eq!(words(kind, &json!({ "service": { "spec": { "externalIPs": [] } } }), &References::default()), []);
}

#[rstest]
#[case(Kind::Controller, 1)]
#[case(Kind::Accounting, 1)]
#[case(Kind::Token, 1)]
#[case(Kind::RestApi, 0)]
fn the_former_name_of_the_jwt_key_is_a_warning(#[case] kind: Kind, #[case] count: usize) {
    let spec = json!({ "jwtHs256KeyRef": { "name": "keys", "key": "jwt.key" } });
    assert_eq!(words(kind, &spec, &References::default()).len(), count);
    assert_eq!(words(kind, &json!({ "jwtKeyRef": { "name": "keys", "key": "jwt.key" } }), &References::default()), []);
}

#[rstest]
#[case::container(Kind::Controller, json!({ "slurmctld": { "imagePullPolcy": "Always" } }), "spec.slurmctld.imagePullPolcy", "`imagePullPolicy`")]
#[case::case_differs(Kind::NodeSet, json!({ "slurmd": { "securitycontext": {} } }), "spec.slurmd.securitycontext", "`securityContext`")]
#[case::in_a_list(Kind::RestApi, json!({ "template": { "spec": { "containers": [{ "name": "a" }, { "nme": "b" }] } } }), "spec.template.spec.containers[1].nme", "`name`")]
#[case::below_a_reference(Kind::LoginSet, json!({ "login": { "livenessProbe": { "httpGet": { "prt": 1 } } } }), "spec.login.livenessProbe.httpGet.prt", "`port`")]
#[case::service(Kind::Accounting, json!({ "service": { "spec": { "clusterIp": "None" } } }), "spec.service.spec.clusterIp", "`clusterIP`")]
#[case::claim(Kind::NodeSet, json!({ "volumeClaimTemplates": [{ "spec": { "accessMode": [] } }] }), "spec.volumeClaimTemplates[0].spec.accessMode", "`accessModes`")]
#[case::newer(Kind::NodeSet, json!({ "template": { "spec": { "quantumEntanglement": true } } }), "spec.template.spec.quantumEntanglement", "passed on as it is")]
fn a_field_that_kubernetes_does_not_know_is_a_warning(#[case] kind: Kind, #[case] spec: Value, #[case] path: &str, #[case] remedy: &str) {
    let (weight, words) = one(kind, &spec, &References::default());
    assert_eq!(weight, Weight::Warning);
    assert!(words.starts_with(path) && words.contains(remedy), "{words}");
}

#[rstest]
#[case::fine("ScheduledUpdate", "30m", "DAILY", None)]
#[case::flag("ScheduledUpdate", "30m", "DAYLY", Some("spec.updateStrategy.scheduledUpdate.flags: `DAYLY` is no flag"))]
#[case::duration("ScheduledUpdate", "0s", "DAILY", Some("spec.updateStrategy.scheduledUpdate.duration `0s`"))]
#[case::another_strategy("OnDelete", "0s", "DAYLY", None)]
fn a_maintenance_that_cannot_be_is_a_warning(
    #[case] kind: &str,
    #[case] duration: &str,
    #[case] flag: &str,
    #[case] expected: Option<&str>,
) {
    let scheduled = json!({ "startTime": "2027-01-31T22:00:00Z", "duration": duration, "flags": [flag] });
    let spec = json!({ "updateStrategy": { "type": kind, "scheduledUpdate": scheduled } });
    let found = words(Kind::NodeSet, &spec, &References::default());
    assert_eq!(found.len(), usize::from(expected.is_some()));
    let is_it = |expected: &str| found[0].0 == Weight::Warning && found[0].1.starts_with(expected);
    assert!(expected.is_none_or(is_it), "{found:?}");
}

#[test]
fn free_keys_and_known_fields_are_no_finding() {
    let spec = json!({
        "slurmd": {
            "image": "x", "lifecycle": { "$patch": "delete" }, "resources": { "limits": { "nvidia.com/gpu": "8", "cpu": 4 } }, "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "x" } } }],
        },
        "template": { "spec": { "nodeSelector": { "any.thing/goes": "yes" }, "volumes": [{ "name": "v", "emptyDir": { "medium": "Memory" } }] } },
        "volumeClaimTemplates": [{ "metadata": { "name": "scratch", "labels": { "a": "b" } }, "spec": { "resources": { "requests": { "storage": "1Gi" } } } }],
    });
    assert_eq!(words(Kind::NodeSet, &spec, &References::default()), []);
}

#[test]
fn refusals_come_first() {
    let spec = json!({ "configFileRefs": [{ "name": "files" }], "jwtHs256KeyRef": {}, "slurmctld": { "imge": "x" } });
    let found = findings(Kind::Controller, &json!({ "spec": spec }), &with_config_map(&["odd", "slurm.conf"]));
    assert_eq!(found.iter().map(|finding| finding.weight).collect::<Vec<_>>(), {
        use Weight::{Refusal, Warning};
        [Refusal, Warning, Warning, Warning]
    });
    assert_eq!(refusal(&found), found.first());
}

#[test]
fn only_what_is_named_is_looked_up() {
    let spec = json!({
        "configFileRefs": [{ "name": "b" }, { "name": "a" }, { "name": "" }, { "name": "b" }],
        "ha": { "enabled": true }, "persistence": { "existingClaim": "state" },
    });
    let looked_up = needs(Kind::Controller, &json!({ "spec": spec }));
    assert_eq!(looked_up, Needs { config_maps: vec!["a".into(), "b".into()], claim: Some("state".into()) });
    assert_eq!(needs(Kind::NodeSet, &json!({ "spec": spec })), Needs::default());
}

proptest::proptest! {
    #[test]
    fn no_object_makes_it_panic(spec in value()) {
        for kind in Kind::ALL {
            let object = json!({ "spec": spec });
            needs(kind, &object);
            findings_at_write(kind, &object, &spec, &with_config_map(&["x"]));
        }
    }
}

/// Any JSON, with a preference for field names that are used here.
fn value() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from)
    ];
    let key = prop_oneof![
        "[a-zA-Z.]{0,9}",
        prop::sample::select(vec!["configFileRefs", "name", "service", "spec", "template", "slurmctld", "ha", "persistence", "containers"])
            .prop_map(str::to_owned)
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}
