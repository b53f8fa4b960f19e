use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;
use slipway_api::{ClaimRetention, Raw, Retention};

use super::*;
use crate::fixture;

pub(super) fn references() -> References {
    References {
        controller: fixture::controller(),
        cluster_domain: "cluster.local".into(),
        gres: None,
        sssd_conf_hash: None,
        hash: "now".into(),
    }
}

fn raw(value: &Value) -> Raw {
    Raw(value.as_object().cloned().unwrap())
}

#[test]
fn the_demo_node_set_becomes_these_objects() {
    let nodeset = fixture::nodeset();
    for child in shared("slurm", "slurm", std::slice::from_ref(&nodeset), 3).unwrap() {
        insta::assert_yaml_snapshot!(format!("{}_{}", child.key.kind.as_str(), child.key.name), child.body);
    }
    insta::assert_yaml_snapshot!("Pod_worker-1", pod(&nodeset, &references(), 1).unwrap());
}

/// A NodeSet with claims, a padding, and everything that a user can add to the generated pod.
fn full_nodeset() -> NodeSet {
    let mut nodeset = fixture::nodeset();
    nodeset.spec.ordinal_padding = 3;
    nodeset.spec.volume_claim_templates = Some(vec![
        raw(&json!({
            "metadata": { "name": "scratch", "labels": { "tier": "fast" }, "annotations": { "a": "b" }, "namespace": "elsewhere", "uid": "u" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } }, "fromTheFuture": { "x": 1 } },
            "status": { "phase": "Bound" },
        })),
        raw(&json!({ "metadata": { "name": "home" }, "spec": {} })),
    ]);
    nodeset.spec.template.get_or_insert_default().spec = Some(raw(&json!({
        "volumes": [{ "name": "scratch", "emptyDir": {} }, { "name": "other", "emptyDir": {} }],
        "tolerations": [{ "key": "gpu", "operator": "Exists" }],
        "dnsConfig": { "searches": ["example.org"] },
        "affinity": {
            "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
                { "topologyKey": "rack", "labelSelector": { "matchLabels": { "noisy": "yes" } } },
            ]},
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                    { "matchExpressions": [{ "key": "gpu", "operator": "Exists" }] },
                ]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    { "weight": 1, "preference": { "matchExpressions": [{ "key": "new", "operator": "Exists" }] } },
                ],
            },
        },
    })));
    nodeset.spec.slurmd.get_or_insert_default().0.insert("env".to_owned(), json!([{ "name": "MINE", "value": "1" }]));
    nodeset
}

#[test]
fn a_node_set_with_claims_becomes_these_objects() {
    let mut nodeset = full_nodeset();
    insta::assert_yaml_snapshot!("Pod_worker-007", pod(&nodeset, &references(), 7).unwrap());
    insta::assert_yaml_snapshot!("claims_of_worker-007", claims(&nodeset, "worker-007").unwrap());
    nodeset.spec.persistent_volume_claim_retention_policy =
        Some(ClaimRetention { when_deleted: Retention::Delete, when_scaled: Retention::Retain });
    let owners: Vec<_> =
        claims(&nodeset, "worker-007").unwrap().iter().map(|claim| claim["metadata"]["ownerReferences"][0]["uid"].clone()).collect();
    assert_eq!(owners, ["uid-of-NodeSet", "uid-of-NodeSet"]);
}

#[rstest]
#[case::unnamed(json!([{ "spec": {} }]), "spec.volumeClaimTemplates[0].metadata.name is empty: name the claim, and the pod's volume with it")]
#[case::twice(json!([{ "metadata": { "name": "a" } }, { "metadata": { "name": "a" } }]), "spec.volumeClaimTemplates[1].metadata.name is `a`, as that of another claim: give each a name of its own")]
#[case::key(json!([{ "metadata": { "name": "slurm-etc" } }]), "spec.volumeClaimTemplates[0].metadata.name is `slurm-etc`, the volume that holds the cluster's key: choose another name")]
#[case::labels(json!([{ "metadata": { "name": "a", "labels": "b" } }]), "spec.volumeClaimTemplates[0].metadata.labels is no map: write keys with values")]
#[case::no_volume_name(json!([{ "metadata": { "name": "a.b" } }]), "spec.volumeClaimTemplates[0].metadata.name is wrong: volume `a.b` cannot be, as Kubernetes allows only lower-case letters, digits and `-`, with a letter or a digit at both ends there; choose another name")]
#[case::metadata_is_none(json!([{ "metadata": 7 }]), "spec.volumeClaimTemplates[0].metadata.name is empty: name the claim, and the pod's volume with it")]
fn a_claim_that_cannot_be_is_refused_with_its_pod(#[case] templates: Value, #[case] words: &str) {
    let mut nodeset = fixture::nodeset();
    nodeset.spec.volume_claim_templates = Some(templates.as_array().unwrap().iter().map(raw).collect());
    assert_eq!(pod(&nodeset, &references(), 0).unwrap_err().to_string(), words);
    assert_eq!(claims(&nodeset, "worker-0").unwrap_err().to_string(), words);
}

#[test]
fn a_padded_ordinal_is_in_every_name() {
    let mut nodeset = fixture::nodeset();
    nodeset.spec.ordinal_padding = 3;
    let rendered = pod(&nodeset, &references(), 7).unwrap();
    assert_eq!(rendered["metadata"]["name"], "worker-007");
    assert_eq!(rendered["metadata"]["labels"]["nodeset.slinky.slurm.net/pod-index"], "007");
    assert_eq!(rendered["spec"]["hostname"], "worker-007");
    nodeset.spec.template.get_or_insert_default().spec = Some(raw(&json!({ "hostname": "gpu-" })));
    assert_eq!(pod(&nodeset, &references(), 1234).unwrap()["spec"]["hostname"], "gpu-1234");
    let mut unpadded = nodeset.clone();
    unpadded.spec.ordinal_padding = 0;
    assert_ne!(revision::hash(&nodeset), revision::hash(&unpadded));
}

#[test]
fn a_pinned_pod_goes_to_one_node_and_keeps_its_other_wishes() {
    let rendered = pod(&full_nodeset(), &references(), 0).unwrap();
    let affinity = &pinned(rendered.clone(), "k1")["spec"]["affinity"];
    assert_eq!(
        affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"],
        json!({ "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["k1"] }] }] })
    );
    assert_eq!(affinity["podAntiAffinity"], rendered["spec"]["affinity"]["podAntiAffinity"]);
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    assert_eq!(affinity["nodeAffinity"][preferred], rendered["spec"]["affinity"]["nodeAffinity"][preferred]);
    let mut free = fixture::nodeset();
    free.spec.oversubscribe_node = true;
    assert!(pinned(pod(&free, &references(), 0).unwrap(), "k1")["spec"]["affinity"]["nodeAffinity"].is_object());
}

#[rstest]
#[case::on_its_host(json!({ "hostNetwork": true }), json!("ClusterFirstWithHostNet"))]
#[case::with_a_policy(json!({ "hostNetwork": true, "dnsPolicy": "Default" }), json!("Default"))]
#[case::by_default(json!({ "hostNetwork": false }), Value::Null)]
fn a_worker_on_the_network_of_its_host_still_finds_slurmctld(#[case] spec: Value, #[case] policy: Value) {
    let mut nodeset = fixture::nodeset();
    nodeset.spec.template.get_or_insert_default().spec = Some(raw(&spec));
    assert_eq!(pod(&nodeset, &references(), 0).unwrap()["spec"]["dnsPolicy"], policy);
}

#[test]
fn every_node_set_renders_the_same_shared_objects() {
    let (one, mut two) = (fixture::nodeset(), fixture::nodeset());
    two.metadata.name = Some("another".into());
    assert_eq!(shared("n", "x", &[one.clone(), two.clone()], 0), shared("n", "x", &[two, one], 0));
}

#[rstest]
#[case::nothing(json!({}), json!({}), "0", "0")]
#[case::container(json!({"resources": {"limits": {"cpu": "1500m", "memory": "4Gi"}}}), json!({"resources": {"limits": {"cpu": 8}}}), "2", "4096")]
#[case::pod(json!({}), json!({"resources": {"limits": {"cpu": 8, "memory": "1Gi"}}}), "8", "1024")]
fn limits_are_told_to_slurmd(#[case] container: Value, #[case] of_pod: Value, #[case] cpus: &str, #[case] memory: &str) {
    let mut nodeset = fixture::nodeset();
    nodeset.spec.slurmd.get_or_insert_default().0.extend(container.as_object().cloned().unwrap());
    nodeset.spec.template.get_or_insert_default().spec = Some(raw(&of_pod));
    let env = pod(&nodeset, &references(), 0).unwrap()["spec"]["containers"][0]["env"].clone();
    let value = |name: &str| env.as_array().unwrap().iter().find(|var| var["name"] == name).unwrap()["value"].clone();
    assert_eq!((value("POD_CPUS"), value("POD_MEMORY")), (json!(cpus), json!(memory)));
}

#[test]
fn a_template_hostname_is_a_prefix() {
    let mut nodeset = fixture::nodeset();
    nodeset.spec.template.get_or_insert_default().spec = Some(raw(&json!({ "hostname": "gpu-" })));
    let pod = pod(&nodeset, &references(), 7).unwrap();
    assert_eq!(pod["spec"]["hostname"], "gpu-7");
    assert_eq!(pod["metadata"]["name"], "worker-7");
    assert_eq!(pod["spec"]["containers"][0]["args"][4], "'Features=gpu'");
}

#[test]
fn by_default_a_worker_is_privileged_and_alone_on_its_node() {
    let mut nodeset = fixture::nodeset();
    nodeset.spec.slurmd = Some(raw(&json!({ "image": "x" })));
    let rendered = pod(&nodeset, &references(), 0).unwrap();
    assert_eq!(rendered["spec"]["containers"][0]["securityContext"]["privileged"], true);
    assert!(rendered["spec"]["affinity"]["podAntiAffinity"].is_object());
    nodeset.spec.oversubscribe_node = true;
    assert_eq!(pod(&nodeset, &references(), 0).unwrap()["spec"].get("affinity"), None);
}

#[rstest]
#[case::no_item("CPUs=2 oops", "spec.extraConf has `oops`, which is no `Key=Value`: separate items by blanks")]
#[case::quote("Reason=it's", "spec.extraConf has a quote (') in the value of `Reason`: leave it out")]
fn a_bad_item_is_refused(#[case] extra: &str, #[case] words: &str) {
    let mut nodeset = fixture::nodeset();
    nodeset.spec.extra_conf = Some(extra.into());
    assert_eq!(pod(&nodeset, &references(), 0).unwrap_err().to_string(), words);
}

#[test]
fn only_what_the_user_wrote_about_pods_counts_as_a_new_template() {
    let before = fixture::nodeset();
    let mut scaled = before.clone();
    scaled.spec.replicas = 100;
    scaled.spec.partition = None;
    assert_eq!(revision::hash(&before), revision::hash(&scaled));
    let mut upgraded = before.clone();
    upgraded.spec.slurmd = Some(raw(&json!({ "image": "newer" })));
    assert_ne!(revision::hash(&before), revision::hash(&upgraded));
}

#[rstest]
#[case::hostname("worker", json!({ "hostname": "a b" }), None, "spec.template.spec.hostname is wrong: `a b` is no Slurm node set name: character 2 is a blank; use letters, digits, `-`, `_`, `.`")]
#[case::dotted_hostname("worker", json!({ "hostname": "a.b-" }), None, "spec.template.spec.hostname is wrong: hostname `a.b-0` cannot be, as Kubernetes allows only lower-case letters, digits and `-`, with a letter or a digit at both ends there; choose another name")]
#[case::digits("worker", json!({ "hostname": "n123456789012345678" }), None, "spec.template.spec.hostname is wrong: `n1234567890123456780` is no Slurm node name: it ends with 19 digits; end it with at most 18, as Slurm counts no further")]
#[case::partition("worker", json!({}), Some("Default=YES Oops"), "spec.partition.config has `Oops`, which is no `Key=Value`: separate items by blanks")]
#[case::reserved("default", json!({}), Some("State=UP"), "metadata.name is wrong: `default` is no partition name: Slurm gives that word a meaning of its own; choose another")]
#[case::dotted_name("a.b", json!({}), None, "metadata.name is wrong: hostname `a.b-0` cannot be, as Kubernetes allows only lower-case letters, digits and `-`, with a letter or a digit at both ends there; choose another name")]
fn a_name_that_slurm_or_kubernetes_would_misread_is_refused(
    #[case] name: &str,
    #[case] spec: Value,
    #[case] config: Option<&str>,
    #[case] words: &str,
) {
    let mut nodeset = fixture::nodeset();
    nodeset.metadata.name = Some(name.into());
    nodeset.spec.template.get_or_insert_default().spec = Some(raw(&spec));
    nodeset.spec.partition = config.map(|config| slipway_api::Partition { enabled: true, config: Some(config.into()) });
    assert_eq!(pod(&nodeset, &references(), 0).unwrap_err().to_string(), words);
}

#[test]
fn a_dotted_node_set_works_with_a_hostname_of_its_own() {
    let mut nodeset = fixture::nodeset();
    nodeset.metadata.name = Some("workers.gpu".into());
    nodeset.spec.template.get_or_insert_default().spec = Some(raw(&json!({ "hostname": "gpu-" })));
    assert_eq!(pod(&nodeset, &references(), 0).unwrap()["metadata"]["name"], "workers.gpu-0");
}

#[test]
fn a_topology_that_is_none_is_refused() {
    let mut nodeset = fixture::nodeset();
    let annotations = std::collections::BTreeMap::from([("topology.slinky.slurm.net/spec".to_owned(), "t:s1 Weight=9".to_owned())]);
    nodeset.metadata.annotations = Some(annotations);
    let error = pod(&nodeset, &references(), 0).unwrap_err().to_string();
    assert!(
        error.starts_with("annotation topology.slinky.slurm.net/spec of the pods is wrong: `t:s1 Weight=9` is no topology: "),
        "{error}"
    );
}

proptest! {
    #[test]
    fn what_a_user_writes_stays_inside_the_quotes_of_conf(
        hostname in prop_oneof![any::<String>(), r#"[a1\-_. \n"'\\#=]{1,8}"#],
        extra in prop_oneof![any::<String>(), r#"[aA1= "'\\#\n,$`]{0,16}"#],
        topology in prop_oneof![any::<String>(), "[ab:, '\n]{0,6}"],
    ) {
        let mut nodeset = fixture::nodeset();
        nodeset.spec.extra_conf = Some(extra);
        nodeset.spec.template.get_or_insert_default().spec = Some(raw(&json!({ "hostname": hostname })));
        nodeset.metadata.annotations = Some([("topology.slinky.slurm.net/spec".to_owned(), topology)].into());
        if let Ok(pod) = pod(&nodeset, &references(), 0) {
            let conf = pod["spec"]["containers"][0]["args"][4].as_str().unwrap();
            let inside = conf.strip_prefix('\'').and_then(|conf| conf.strip_suffix('\'')).unwrap();
            prop_assert!(!inside.contains(['\'', '\n', '\\', '"', '#']), "{conf}");
        }
    }
}

#[test]
fn a_worker_of_a_kubernetes_node_has_its_hostname_and_what_a_daemon_set_gives() {
    let nodeset = fixture::nodeset();
    let pod = daemon_pod(&nodeset, &references(), "node-1.example.org", "node-1").unwrap();
    insta::assert_yaml_snapshot!("Pod_of_node-1", pinned(pod, "node-1.example.org"));
    let full = full_nodeset();
    let pod = daemon_pod(&full, &references(), "node-1.example.org", "node-1").unwrap();
    insta::assert_yaml_snapshot!("Pod_of_node-1_with_claims", pinned(pod, "node-1.example.org"));
}

#[test]
fn a_worker_on_the_hosts_network_comes_before_the_network_does() {
    let mut nodeset = fixture::nodeset();
    nodeset.spec.template.get_or_insert_default().spec = Some(raw(&json!({ "hostNetwork": true })));
    let pod = daemon_pod(&nodeset, &references(), "node-1", "node-1").unwrap();
    let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
    assert!(tolerations.iter().any(|toleration| toleration["key"] == "node.kubernetes.io/network-unavailable"), "{tolerations:?}");
    assert_eq!(daemon_hostname(&nodeset, "node-1.x", Some("other")), Ok("node-1".to_owned()), "slurmd asks its host");
}

#[rstest]
#[case::short("node-1", None, Ok("node-1"))]
#[case::up_to_the_first_dot("node-1.example.org", None, Ok("node-1"))]
#[case::overridden("node-1.example.org", Some("rack1-node1"), Ok("rack1-node1"))]
#[case::no_hostname("node-1", Some("Rack1_Node1"), Err("annotation nodeset.slinky.slurm.net/hostname-override of node `node-1`"))]
#[case::empty("node-1", Some(""), Err("annotation nodeset.slinky.slurm.net/hostname-override of node `node-1`"))]
fn a_node_names_its_worker(#[case] node: &str, #[case] word: Option<&str>, #[case] expected: Result<&str, &str>) {
    let hostname = daemon_hostname(&fixture::nodeset(), node, word);
    match expected {
        Ok(expected) => assert_eq!(hostname.as_deref(), Ok(expected)),
        Err(field) => assert!(hostname.as_ref().is_err_and(|wrong| wrong.field == field), "{hostname:?}"),
    }
}
