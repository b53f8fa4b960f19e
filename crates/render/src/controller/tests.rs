use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_api::{Metadata, Partition, Persistence, Raw, annotation, child::ChildKind};

use super::*;
use crate::fixture;

fn references() -> References {
    References {
        slurm_key_hash: "hash-of-slurm-key".into(),
        jwt_key_hash: "hash-of-jwt-key".into(),
        config_files: vec![ConfigFiles { name: "slurm-files".into(), files: vec!["cgroup.conf".into()], hash: "hash-of-files".into() }],
        nodesets: vec![fixture::nodeset()],
    }
}

fn rendered(controller: &SlurmController, references: &References, kind: ChildKind) -> Value {
    workload(controller, references).unwrap().into_iter().find(|child| child.key.kind == kind).unwrap().body
}

#[test]
fn the_demo_controller_becomes_these_objects() {
    let controller = fixture::controller();
    let mut children = services(&controller).unwrap();
    children.extend(workload(&controller, &references()).unwrap());
    for child in children {
        insta::assert_yaml_snapshot!(format!("{}_{}", child.key.kind.as_str(), child.key.name), child.body);
    }
}

#[test]
fn the_order_of_node_sets_and_files_does_not_matter() {
    let mut other = fixture::nodeset();
    other.metadata.name = Some("another".into());
    let extra = ConfigFiles { name: "aaa".into(), files: vec![], hash: "x".into() };
    let mut forth = references();
    forth.nodesets.push(other);
    forth.config_files.push(extra);
    let mut back = forth.clone();
    back.nodesets.reverse();
    back.config_files.reverse();
    assert_eq!(workload(&fixture::controller(), &forth), workload(&fixture::controller(), &back));
}

#[test]
fn cgroup_conf_is_ours_unless_the_user_brings_one() {
    let controller = fixture::controller();
    let theirs = rendered(&controller, &references(), ChildKind::ConfigMap);
    assert_eq!(theirs["data"].get("cgroup.conf"), None);
    let ours = rendered(&controller, &References { config_files: vec![], ..references() }, ChildKind::ConfigMap);
    assert_eq!(ours["data"]["cgroup.conf"], "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n");
}

#[rstest]
#[case::slurm_key(References { slurm_key_hash: "new".into(), ..references() })]
#[case::jwt_key(References { jwt_key_hash: "new".into(), ..references() })]
#[case::node_set_gone(References { nodesets: vec![], ..references() })]
#[case::users_files(References { config_files: vec![ConfigFiles { hash: "new".into(), ..references().config_files.remove(0) }], ..references() })]
fn a_changed_key_or_file_makes_a_new_pod(#[case] changed: References) {
    let controller = fixture::controller();
    let template = |references| rendered(&controller, references, ChildKind::StatefulSet)["spec"]["template"].clone();
    assert_ne!(template(&references()), template(&changed));
}

#[test]
fn an_edit_by_client_side_apply_makes_no_new_pod() {
    let mut controller = fixture::controller();
    let before = workload(&controller, &references());
    controller.metadata.annotations = Some(BTreeMap::from([(annotation::LAST_APPLIED.to_owned(), "{...}".to_owned())]));
    assert_eq!(workload(&controller, &references()), before);
}

#[test]
fn the_users_metadata_reaches_the_pod_but_cannot_take_our_labels() {
    let mut controller = fixture::controller();
    let labels = BTreeMap::from([("team".to_owned(), "hpc".to_owned()), ("app.kubernetes.io/name".to_owned(), "mine".to_owned())]);
    controller.spec.template.get_or_insert_default().metadata = Some(Metadata { labels: Some(labels), annotations: None });
    let labels = rendered(&controller, &references(), ChildKind::StatefulSet)["spec"]["template"]["metadata"]["labels"].clone();
    assert_eq!(labels["team"], "hpc");
    assert_eq!(labels["app.kubernetes.io/name"], "slurmctld");
}

#[rstest]
#[case::off(Persistence { enabled: false, ..Persistence::default() }, "emptyDir")]
#[case::existing(Persistence { existing_claim: Some("mine".into()), ..Persistence::default() }, "persistentVolumeClaim")]
fn state_without_a_claim_template_is_a_volume(#[case] persistence: Persistence, #[case] source: &str) {
    let mut controller = fixture::controller();
    controller.spec.persistence = Some(persistence);
    let spec = rendered(&controller, &references(), ChildKind::StatefulSet)["spec"].clone();
    assert_eq!(spec.get("volumeClaimTemplates"), None);
    let volumes = spec["template"]["spec"]["volumes"].as_array().unwrap().clone();
    assert!(volumes.iter().any(|volume| volume["name"] == "statesave" && volume.get(source).is_some()), "{volumes:?}");
}

#[test]
fn what_cannot_be_rendered_is_named() {
    let mut no_image = fixture::controller();
    no_image.spec.slurmctld = None;
    let mut bad_name = fixture::controller();
    bad_name.spec.cluster_name = Some("a\nInclude /etc/passwd".into());
    let errors = [workload(&no_image, &references()).unwrap_err(), workload(&bad_name, &references()).unwrap_err()];
    insta::assert_yaml_snapshot!(errors.map(|error| error.to_string()));
}

/// A NodeSet with this name, hostname and partition.
fn nodeset(name: &str, hostname: Option<&str>, config: Option<&str>) -> NodeSet {
    let mut nodeset = fixture::nodeset();
    nodeset.metadata.name = Some(name.to_owned());
    nodeset.spec.partition = config.map(|config| Partition { enabled: true, config: Some(config.to_owned()) });
    if let Some(hostname) = hostname {
        nodeset.spec.template.get_or_insert_default().spec = Some(Raw(json!({ "hostname": hostname }).as_object().cloned().unwrap()));
    }
    nodeset
}

fn slurm_conf(controller: &SlurmController, nodesets: Vec<NodeSet>) -> String {
    let references = References { nodesets, ..references() };
    rendered(controller, &references, ChildKind::ConfigMap)["data"]["slurm.conf"].as_str().unwrap().to_owned()
}

#[test]
fn a_wrong_node_set_takes_nobody_with_it() {
    let text = slurm_conf(
        &fixture::controller(),
        vec![
            nodeset("bad-host", Some("a\nInclude /etc/passwd"), None),
            nodeset("bad-partition", None, Some("Default=YES\\")),
            nodeset("default", None, Some("State=UP")),
            nodeset("good", None, Some("State=UP")),
        ],
    );
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("NodeSet=") || line.starts_with("PartitionName=")).collect();
    assert_eq!(
        lines,
        [
            "NodeSet=bad-partition Feature=bad-partition",
            "NodeSet=default Feature=default",
            "NodeSet=good Feature=good",
            "PartitionName=good Nodes=good State=UP"
        ]
    );
}

#[rstest]
#[case::too_long(&"x".repeat(60))]
#[case::dot("a.b")]
fn a_controller_whose_children_could_not_be_has_none(#[case] name: &str) {
    let mut controller = fixture::controller();
    controller.metadata.name = Some(name.to_owned());
    let error = services(&controller).unwrap_err().to_string();
    assert!(error.starts_with("metadata.name is wrong: ") && error.contains("choose a"), "{error}");
    assert_eq!(workload(&controller, &references()).unwrap_err().to_string(), error);
}

proptest! {
    #[test]
    fn no_name_adds_a_line_to_slurm_conf(
        cluster in prop_oneof![any::<String>(), r#"[a1\-_. \n"\\#=]{0,8}"#],
        name in prop_oneof![any::<String>(), "[a-z0-9.-]{1,9}"],
        hostname in proptest::option::of(prop_oneof![any::<String>(), r#"[a1\-_. \n"\\#=]{0,8}"#]),
        config in proptest::option::of(prop_oneof![any::<String>(), r#"[aA1= "'\\#\n\r]{0,16}"#]),
    ) {
        let mut controller = fixture::controller();
        controller.spec.extra_conf = None;
        let bare = slurm_conf(&controller, vec![]).lines().count();
        let set = nodeset(&name, hostname.as_deref(), config.as_deref());
        let lines = slurm_conf(&controller, vec![set]).lines().count();
        // None, or a headline of two with a node set and perhaps a partition.
        prop_assert!([0, 3, 4].contains(&(lines - bare)), "{} more lines", lines - bare);

        controller.spec.cluster_name = Some(cluster);
        if let Ok(children) = workload(&controller, &References { nodesets: vec![], ..references() }) {
            let text = children[0].body["data"]["slurm.conf"].as_str().unwrap();
            prop_assert_eq!(text.lines().count(), bare);
        }
    }
}
