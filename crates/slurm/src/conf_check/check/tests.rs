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
fn a_finding_names_severity_file_line_and_key_and_speaks_of_the_daemon_that_reads_the_file() {
    let text =
        "DbdHost=a\nDbdPort=x\nStorageType=accounting_storage/mysql\nAuthType=auth/slurm\nPurgeStepAfter=soon\nAuthInfo=use_client_id\n";
    let findings = check(&files(&[("slurmdbd.conf", text)]), &Surroundings::default());
    let found: Vec<_> = findings.iter().map(|found| (found.severity, found.line, found.key.as_deref().unwrap())).collect();
    let expected = [(Severity::Fatal, 2, "DbdPort"), (Severity::Fatal, 5, "PurgeStepAfter"), (Severity::Silent, 6, "AuthInfo")];
    assert_eq!(found, expected);
    assert_eq!(
        findings[0].to_string(),
        "slurmdbd.conf line 2: DbdPort is `x`, which is no number: write a number up to 65535 (ends slurmdbd)"
    );
}

#[test]
fn a_partition_that_jobs_are_in_may_not_go() {
    let text = "ClusterName=c\nSlurmctldHost=a\nPartitionName=x Nodes=ALL Default=YES\n";
    let partitions = ["x", "gone"].map(str::to_owned).into();
    let findings = check(&files(&[("slurm.conf", text)]), &Surroundings { partitions, ..Surroundings::default() });
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((findings[0].severity, findings[0].line), (Severity::EndsJobs, 0));
    assert!(findings[0].message.contains("partition `gone` is gone, and its jobs end with it"), "{}", findings[0]);
}

#[test]
fn qualities_of_service_are_those_that_accounting_knows() {
    let text = "ClusterName=c\nSlurmctldHost=a\nAccountingStorageType=accounting_storage/slurmdbd\nPartitionName=x Nodes=ALL Default=YES QOS=high\n";
    let told = |known: Option<&str>| {
        let qualities = known.map(|known| [known.to_owned()].into());
        check(&files(&[("slurm.conf", text)]), &Surroundings { qualities, ..Surroundings::default() })
    };
    assert_eq!(told(None), []);
    assert_eq!(told(Some("high")), []);
    let findings = told(Some("normal"));
    assert_eq!((findings[0].severity, findings[0].line, findings[0].key.as_deref()), (Severity::Fatal, 4, Some("QOS")));
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
        let jwks = format!("AuthAltParameters=jwks=/a/jwks.json\n{conf}");
        check(
            &files(&[
                ("slurm.conf", &conf),
                ("topology.yaml", &yaml),
                ("gres.conf", &gres),
                ("cgroup.conf", &conf),
                ("plugstack.conf", &gres),
                ("slurmdbd.conf", &jwks),
                ("jwks.json", &yaml),
            ]),
            &Surroundings::default(),
        );
    }

    #[test]
    fn no_topology_makes_it_panic(
        lines in r"(- topology: t\n  (block|tree):\n    (block_sizes: \[[-0-9a-z, ]{0,6}\]|switches:|blocks:)\n(      - (switch|block|nodes|children): ?[a-c0-9\[\]-]{0,5}\n){0,4}){1,3}"
    ) {
        check(&files(&[("topology.yaml", &lines)]), &Surroundings::default());
    }

    #[test]
    fn no_line_that_looks_like_one_makes_it_panic(
        lines in r#"((NodeName|NodeSet|PartitionName|Nodes|SlurmctldHost|PreemptMode|Licenses|AuthInfo|MaxNodeCount)=[a-z0-9\[\],=:"\\#-]{0,12}[ \n]){0,8}"#
    ) {
        check(&files(&[("slurm.conf", &lines)]), &Surroundings::default());
    }
}
