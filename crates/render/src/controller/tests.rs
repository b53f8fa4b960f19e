use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_api::{External, HighAvailability, Metadata, Metrics, Partition, Persistence, Raw, ServiceTemplate, child::ChildKind};

use super::*;
use crate::fixture;

fn files(name: &str, files: &[(&str, &str)]) -> ConfigFiles {
    let files = files.iter().map(|(file, content)| ((*file).to_owned(), content.as_bytes().to_vec())).collect();
    ConfigFiles { name: name.to_owned(), files }
}

fn references() -> References {
    References {
        slurm_key_hash: "hash-of-slurm-key".into(),
        jwt_key_hash: "hash-of-jwt-key".into(),
        config_files: vec![files("slurm-files", &[("cgroup.conf", "CgroupPlugin=disabled\n")])],
        nodesets: vec![fixture::nodeset()],
        ..References::default()
    }
}

fn rendered(controller: &SlurmController, references: &References, kind: ChildKind) -> Value {
    workload(controller, references).unwrap().into_iter().find(|child| child.key.kind == kind).unwrap().body
}

/// The ConfigMap and the StatefulSet.
fn workload(controller: &SlurmController, references: &References) -> Result<Vec<Child>, Invalid> {
    let configuration = configuration(controller, references)?;
    Ok(vec![config_map(controller, &configuration), statefulset(controller, references, &configuration.hash())?])
}

fn all(controller: &SlurmController, references: &References) -> Vec<Child> {
    let mut children = services(controller).unwrap();
    children.extend(workload(controller, references).unwrap());
    children
}

#[test]
fn the_demo_controller_becomes_these_objects() {
    for child in all(&fixture::controller(), &references()) {
        insta::assert_yaml_snapshot!(format!("{}_{}", child.key.kind.as_str(), child.key.name), child.body);
    }
}

fn with_backups() -> SlurmController {
    let mut controller = fixture::controller();
    let spec = &mut controller.spec;
    spec.ha = Some(HighAvailability { enabled: true, backups: 2 });
    spec.persistence = Some(Persistence { existing_claim: Some("state".into()), ..Persistence::default() });
    spec.inplace_reconfigure = true;
    spec.service = Some(ServiceTemplate { port: Some(7000), ..ServiceTemplate::default() });
    spec.metrics = Some(Metrics { enabled: true, service_monitor: None });
    spec.reconfigure = Some(raw(&json!({ "resources": { "limits": { "memory": "64Mi" } } })));
    controller
}

fn raw(value: &Value) -> Raw {
    Raw(value.as_object().cloned().unwrap())
}

#[test]
fn a_controller_with_backups_becomes_these_objects() {
    for child in all(&with_backups(), &references()) {
        insta::assert_yaml_snapshot!(format!("backups_{}_{}", child.key.kind.as_str(), child.key.name), child.body);
    }
}

fn external(host: &str) -> SlurmController {
    let mut controller = fixture::controller();
    controller.spec.external = true;
    controller.spec.external_config = Some(External { host: host.to_owned(), port: 7817 });
    controller.metadata.annotations = Some(BTreeMap::from([("mine".to_owned(), "yes".to_owned())]));
    controller
}

#[test]
fn a_controller_outside_becomes_a_short_file() {
    let controller = external("ctl.example.org");
    assert_eq!(services(&controller), Ok(vec![]));
    assert_eq!(replicas(&controller), 0);
    let accounting = Some(AccountingHost { host: "dbd.example.org".into(), port: 6819 });
    let configuration = configuration(&controller, &References { accounting, ..references() }).unwrap();
    insta::assert_yaml_snapshot!(configuration.notes);
    insta::assert_yaml_snapshot!(config_map(&controller, &configuration).body);
}

#[rstest]
#[case::name("ctl.example.org", "ctl.example.org:7817")]
#[case::ipv4("192.0.2.7", "192.0.2.7:7817")]
#[case::ipv6("2001:db8::7", "[2001:db8::7]:7817")]
fn workers_of_a_controller_outside_find_it(#[case] host: &str, #[case] found: &str) {
    let controller = external(host);
    assert_eq!(address(&controller).unwrap(), found);
    let configuration = configuration(&controller, &References::default()).unwrap();
    let text = str::from_utf8(&configuration.files["slurm.conf"]).unwrap();
    assert!(text.contains(&format!("\nSlurmctldHost={host}\nSlurmctldPort=7817\n")), "{text}");
    assert_eq!(text.contains("EnableIPv6"), host.contains(':'));
}

#[rstest]
#[case::plain(None, "slurm-controller.slurm:6817", &[6817])]
#[case::none_given(Some(json!({ "port": 0 })), "slurm-controller.slurm:6817", &[6817])]
#[case::another(Some(json!({ "port": 7000 })), "slurm-controller.slurm:7000", &[7000, 6817])]
#[case::users_own(Some(json!({ "port": 7000, "spec": { "ports": [{ "name": "own", "port": 6817 }] } })), "slurm-controller.slurm:7000", &[6817, 7000])]
fn every_consumer_finds_the_port_of_the_service(#[case] service: Option<Value>, #[case] found: &str, #[case] ports: &[i32]) {
    let mut controller = fixture::controller();
    controller.spec.service = service.map(|service| serde_json::from_value(service).unwrap());
    assert_eq!(address(&controller).unwrap(), found);
    let client = services(&controller).unwrap().into_iter().find(|child| child.key.name == "slurm-controller").unwrap().body;
    let listed: Vec<i64> = client["spec"]["ports"].as_array().unwrap().iter().filter_map(|port| port["port"].as_i64()).collect();
    assert_eq!(listed, ports.iter().map(|port| i64::from(*port)).collect::<Vec<_>>());
    let names: BTreeSet<&str> = client["spec"]["ports"].as_array().unwrap().iter().filter_map(|port| port["name"].as_str()).collect();
    assert_eq!(names.len(), ports.len(), "each port has a name of its own");
}

#[test]
fn the_order_of_sources_does_not_matter() {
    let mut other = fixture::nodeset();
    other.metadata.name = Some("another".into());
    let mut forth = references();
    forth.nodesets.push(other);
    forth.config_files.push(files("aaa", &[("gres.conf", "AutoDetect=nvml\n")]));
    forth.scripts.prolog = vec![files("b", &[("20", "x")]), files("a", &[("10", "y"), ("30", "z")])];
    let mut back = forth.clone();
    back.nodesets.reverse();
    back.config_files.reverse();
    back.scripts.prolog.reverse();
    assert_eq!(workload(&fixture::controller(), &forth), workload(&fixture::controller(), &back));
}

#[test]
fn cgroup_conf_is_ours_unless_the_user_brings_one() {
    let controller = fixture::controller();
    let theirs = rendered(&controller, &references(), ChildKind::ConfigMap);
    assert_eq!(theirs["data"]["cgroup.conf"], "CgroupPlugin=disabled\n");
    let ours = rendered(&controller, &References { config_files: vec![], ..references() }, ChildKind::ConfigMap);
    assert_eq!(ours["data"]["cgroup.conf"], "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n");
}

/// Changes of each source that change the configuration.
fn changed_configurations() -> Vec<References> {
    vec![
        References { nodesets: vec![], ..references() },
        References { config_files: vec![files("slurm-files", &[("cgroup.conf", "CgroupPlugin=cgroup/v2\n")])], ..references() },
        References { jwks: Some("{}".into()), ..references() },
        References { accounting: Some(AccountingHost { host: "dbd".into(), port: 6819 }), ..references() },
        References { scripts: Scripts { epilog: vec![files("e", &[("e.sh", "#!/bin/sh\n")])], ..Scripts::default() }, ..references() },
    ]
}

#[test]
fn a_changed_key_makes_a_new_pod_and_a_changed_configuration_only_where_asked_for() {
    let mut controller = fixture::controller();
    for in_place in [false, true] {
        controller.spec.inplace_reconfigure = in_place;
        let template = |references: &References| rendered(&controller, references, ChildKind::StatefulSet)["spec"]["template"].clone();
        let before = template(&references());
        for changed in changed_configurations() {
            assert_eq!(template(&changed) == before, in_place, "{changed:?}");
            assert_ne!(configuration(&controller, &changed).unwrap().hash(), configuration(&controller, &references()).unwrap().hash());
        }
        assert_ne!(template(&References { slurm_key_hash: "new".into(), ..references() }), before);
        assert_ne!(template(&References { jwt_key_hash: "new".into(), ..references() }), before);
    }
}

#[test]
fn the_hash_is_the_public_one_until_there_are_files_of_the_users() {
    let configuration = configuration(&fixture::controller(), &References::default()).unwrap();
    assert_eq!(configuration.hash(), slipway_api::digest::of_map(&configuration.files));
}

#[rstest]
#[case::renamed(&[("a.conf", "x")], &[("b.conf", "x")])]
#[case::moved(&[("a.conf", "xy"), ("b.conf", "z")], &[("a.conf", "x"), ("b.conf", "yz")])]
#[case::empty_file(&[("a.conf", "x")], &[("a.conf", "x"), ("b.conf", "")])]
fn another_set_of_files_has_another_hash(#[case] before: &[(&str, &str)], #[case] after: &[(&str, &str)]) {
    let hash = |files: &[(&str, &str)]| Configuration { files: self::files("", files).files, notes: vec![] }.hash();
    assert_ne!(hash(before), hash(after));
}

#[test]
fn a_configuration_survives_its_config_map() {
    let binary = ConfigFiles { name: "bin".into(), files: BTreeMap::from([("blob".to_owned(), vec![0xff, 0x00, 0xfe])]) };
    let references = References { config_files: vec![binary], jwks: Some("{}".into()), ..references() };
    let configuration = configuration(&fixture::controller(), &references).unwrap();
    let body = config_map(&fixture::controller(), &configuration).body;
    assert_eq!(body["binaryData"]["blob"], "/wD+");
    assert_eq!(body["data"]["jwks.json"], "{}");
    let read = Configuration::of_config_map(&body);
    assert_eq!(read.files, configuration.files);
    assert_eq!(read.hash(), configuration.hash());
}

#[test]
fn scripts_are_files_and_lines() {
    let scripts = Scripts {
        prolog: vec![files("p", &[("20-b", "b")]), files("q", &[("10-a", "a")])],
        epilog: vec![files("p", &[("20-b", "b")])],
        prolog_slurmctld: vec![files("c", &[("start", "s")])],
        epilog_slurmctld: vec![files("d", &[("stop", "t")])],
    };
    let configuration = configuration(&fixture::controller(), &References { scripts, ..references() }).unwrap();
    let text = str::from_utf8(&configuration.files["slurm.conf"]).unwrap();
    let is_script = |line: &&str| line.starts_with("Prolog") || line.starts_with("Epilog");
    assert_eq!(
        text.lines().filter(is_script).collect::<Vec<_>>(),
        ["PrologSlurmctld=/etc/slurm/start", "EpilogSlurmctld=/etc/slurm/stop", "Prolog=10-a", "Prolog=20-b", "Epilog=20-b"]
    );
    assert_eq!(configuration.files["10-a"], b"a");
    assert_eq!(configuration.files.len(), 6);
}

#[test]
fn an_edit_by_client_side_apply_makes_no_new_pod() {
    let mut controller = fixture::controller();
    let before = workload(&controller, &references());
    controller.metadata.annotations =
        Some(BTreeMap::from([("kubectl.kubernetes.io/last-applied-configuration".to_owned(), "{...}".to_owned())]));
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
    let with = |change: fn(&mut SlurmController)| {
        let mut controller = fixture::controller();
        change(&mut controller);
        workload(&controller, &references()).unwrap_err()
    };
    let of = |references: References| configuration(&fixture::controller(), &references).unwrap_err();
    let one = |file: &str| vec![files("mine", &[(file, "x")])];
    let errors = [
        with(|controller| controller.spec.slurmctld = None),
        with(|controller| controller.spec.cluster_name = Some("a\nInclude /etc/passwd".into())),
        with(|controller| controller.spec.extra_conf = Some("# mine\nSlurmctldPort=7000\n".into())),
        with(|controller| controller.spec.ha = Some(HighAvailability { enabled: true, backups: 1 })),
        configuration(&external("a b"), &references()).unwrap_err(),
        configuration(
            &SlurmController { spec: slipway_api::ControllerSpec { external_config: None, ..external("a").spec }, ..external("a") },
            &references(),
        )
        .unwrap_err(),
        of(References { accounting: Some(AccountingHost { host: "dbd".into(), port: 70000 }), ..references() }),
        of(References { config_files: one("slurm.conf"), ..references() }),
        of(References { config_files: one("slurm.key"), ..references() }),
        of(References { config_files: one("jwt.key"), ..references() }),
        of(References { scripts: Scripts { prolog: one("jwks.json"), ..Scripts::default() }, ..references() }),
        of(References { scripts: Scripts { prolog: one("-x"), ..Scripts::default() }, ..references() }),
        of(References { scripts: Scripts { epilog: one("cgroup.conf"), ..Scripts::default() }, ..references() }),
    ];
    insta::assert_yaml_snapshot!(errors.map(|error| error.to_string()));
}

#[test]
fn of_two_node_sets_with_one_name_in_slurm_the_older_keeps_its_lines() {
    let aged = |name: &str, created: &str| {
        let mut nodeset = nodeset(name, Some("gpu-"), Some("State=UP"));
        nodeset.metadata.creation_timestamp = serde_json::from_value(created.into()).unwrap();
        nodeset
    };
    let nodesets = vec![aged("a", "2026-02-01T00:00:00Z"), aged("b", "2026-01-01T00:00:00Z"), aged("c", "2026-02-01T00:00:00Z")];
    let configuration = configuration(&fixture::controller(), &References { nodesets, ..references() }).unwrap();
    let text = str::from_utf8(&configuration.files["slurm.conf"]).unwrap();
    assert_eq!(
        text.lines().filter(|line| line.contains("gpu")).collect::<Vec<_>>(),
        ["NodeSet=gpu Feature=gpu", "PartitionName=gpu Nodes=gpu State=UP"]
    );
    insta::assert_yaml_snapshot!(configuration.notes);
}

/// A NodeSet with this name, hostname and partition.
fn nodeset(name: &str, hostname: Option<&str>, config: Option<&str>) -> NodeSet {
    let mut nodeset = fixture::nodeset();
    nodeset.metadata.name = Some(name.to_owned());
    nodeset.spec.partition = config.map(|config| Partition { enabled: true, config: Some(config.to_owned()) });
    if let Some(hostname) = hostname {
        nodeset.spec.template.get_or_insert_default().spec = Some(raw(&json!({ "hostname": hostname })));
    }
    nodeset
}

#[test]
fn a_node_set_that_is_being_deleted_keeps_its_lines_and_takes_no_new_job() {
    let mut going = nodeset("old", None, Some("Default=YES State=UP MaxTime=60"));
    going.metadata.deletion_timestamp = serde_json::from_value("2026-02-01T00:00:00Z".into()).unwrap();
    let text = slurm_conf(&fixture::controller(), vec![going]);
    assert!(text.contains("NodeSet=old Feature=old\nPartitionName=old Nodes=old Default=YES MaxTime=60 State=DRAIN\n"), "{text}");
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
        // None, or a heading of two lines with a node set and possibly a partition.
        prop_assert!([0, 3, 4].contains(&(lines - bare)), "{} more lines", lines - bare);

        controller.spec.cluster_name = Some(cluster);
        if let Ok(configuration) = configuration(&controller, &References { nodesets: vec![], ..references() }) {
            let text = str::from_utf8(&configuration.files["slurm.conf"]).unwrap();
            prop_assert_eq!(text.lines().count(), bare);
        }
    }

    #[test]
    fn another_source_never_removes_a_line(
        sets in proptest::collection::btree_set("[a-f]{1,3}", 0..4),
        scripts in proptest::collection::btree_set("[a-z]{1,3}", 0..4),
        extra in proptest::option::of(r"(ReturnToService=2|SlurmctldParameters=[a-zA-Z,]{1,9}|PartitionName=q[a-z]{1,3} Nodes=ALL|# x)(\n[A-Z][a-z]{1,6}=[a-z]{1,5}){0,3}"),
        has_metrics in any::<bool>(),
        which in 0..4_usize,
    ) {
        let mut controller = fixture::controller();
        let mut references = References { nodesets: sets.iter().map(|name| nodeset(name, None, Some("State=UP"))).collect(), ..references() };
        references.scripts.prolog = vec![ConfigFiles { name: "p".into(), files: scripts.iter().map(|name| (name.clone(), vec![])).collect() }];
        controller.spec.extra_conf = None;
        let before = configuration(&controller, &references).unwrap();
        match which {
            0 => references.nodesets.push(nodeset("new", None, Some("State=DOWN"))),
            1 => references.scripts.epilog.push(files("e", &[("New", "x")])),
            2 => controller.spec.extra_conf = extra,
            _ => controller.spec.metrics = Some(Metrics { enabled: has_metrics, service_monitor: None }),
        }
        let after = configuration(&controller, &references).unwrap();
        let lines = |configuration: &Configuration| str::from_utf8(&configuration.files["slurm.conf"]).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
        let (mut rest, wanted) = (lines(&after).into_iter(), lines(&before));
        for line in wanted {
            prop_assert!(rest.any(|kept| kept == line), "`{line}` is gone, or out of order");
        }
        prop_assert!(before.files.keys().all(|file| after.files.contains_key(file)));
        prop_assert_eq!(configuration(&controller, &references).unwrap(), after);
    }
}
