use proptest::prelude::*;

use super::*;

fn files(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn more_than_a_config_map_carries_is_refused() {
    let text = format!("ClusterName=c\nSlurmctldHost=a\nPartitionName=x Nodes=ALL Default=YES\n#{}\n", "a".repeat(MAX_BYTES));
    let findings = check(&files(&[("slurm.conf", &text)]), &Surroundings::default());
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].message.contains("a ConfigMap carries 1048576"), "{}", findings[0]);
}

#[test]
fn slurmdbd_conf_is_checked_key_by_key() {
    let text = "DbdHost=a\nDbdPort=x\nStorageTypo=b\nPurgeJobAfter=12months\nPurgeStepAfter=soon\nAuthInfo=use_client_id\n";
    let found: Vec<(usize, Severity)> =
        check(&files(&[("slurmdbd.conf", text)]), &Surroundings::default()).iter().map(|found| (found.line, found.severity)).collect();
    assert_eq!(found, [(2, Severity::Fatal), (3, Severity::Fatal), (5, Severity::Fatal), (6, Severity::Silent)]);
}

#[test]
fn a_hostile_list_of_nodes_costs_nothing_and_is_told() {
    let text =
        "ClusterName=c\nSlurmctldHost=a\nNodeName=a[0-99999999999]\nPartitionName=x Nodes=b[1-60000][1-60000][1-60000] Default=YES\n";
    let findings = check(&files(&[("slurm.conf", text)]), &Surroundings::default());
    let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(told[0].contains("line 3") && told[0].contains("more than 65536 hosts"), "{told:#?}");
    assert!(told[1].contains("line 4") && told[1].contains("216000000000000 hosts"), "{told:#?}");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(conf in any::<String>(), yaml in any::<String>(), gres in any::<String>()) {
        check(&files(&[("slurm.conf", &conf), ("topology.yaml", &yaml), ("gres.conf", &gres), ("cgroup.conf", &conf)]), &Surroundings::default());
    }

    #[test]
    fn no_line_that_looks_like_one_makes_it_panic(
        lines in r#"((NodeName|NodeSet|PartitionName|Nodes|SlurmctldHost|PreemptMode|Licenses|AuthInfo|MaxNodeCount)=[a-z0-9\[\],=:"\\#-]{0,12}[ \n]){0,8}"#
    ) {
        check(&files(&[("slurm.conf", &lines)]), &Surroundings::default());
    }
}
