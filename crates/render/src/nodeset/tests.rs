use rstest::rstest;
use serde_json::json;
use slipway_api::Raw;

use super::*;
use crate::fixture;

fn references() -> References {
    References { controller: fixture::controller(), cluster_domain: "cluster.local".into() }
}

fn raw(value: &Value) -> Raw {
    Raw(value.as_object().cloned().unwrap())
}

#[test]
fn the_demo_node_set_becomes_these_objects() {
    let nodeset = fixture::nodeset();
    for child in shared("slurm", "slurm", std::slice::from_ref(&nodeset)) {
        insta::assert_yaml_snapshot!(format!("{}_{}", child.key.kind.as_str(), child.key.name), child.body);
    }
    insta::assert_yaml_snapshot!("Pod_worker-1", pod(&nodeset, &references(), 1).unwrap());
}

#[test]
fn every_node_set_renders_the_same_shared_objects() {
    let (one, mut two) = (fixture::nodeset(), fixture::nodeset());
    two.metadata.name = Some("another".into());
    assert_eq!(shared("n", "x", &[one.clone(), two.clone()]), shared("n", "x", &[two, one]));
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
#[case::quote("Reason=it's", "spec.extraConf has a single quote, which the worker image's shell would end the option with: leave it out")]
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
    assert_eq!(template_hash(&before), template_hash(&scaled));
    let mut upgraded = before.clone();
    upgraded.spec.slurmd = Some(raw(&json!({ "image": "newer" })));
    assert_ne!(template_hash(&before), template_hash(&upgraded));
}
