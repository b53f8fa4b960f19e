use rstest::rstest;

use super::*;

const LAYOUT: Layout = Layout {
    slurm_user: "slurm",
    slurmctld_port: 6817,
    slurmd_port: 6818,
    state_dir: "/var/spool/slurmctld",
    slurmd_spool_dir: "/var/spool/slurmd",
    slurmctld_log: "/var/log/slurm/slurmctld.log",
    slurmd_log: "/var/log/slurm/slurmd.log",
    jwt_key: "/etc/slurm/jwt.key",
};

fn bare() -> SlurmConf {
    SlurmConf {
        cluster_name: "hpc".into(),
        hosts: vec![ControllerHost { hostname: "x-controller-0".into(), address: "x-controller-0.x-controller-internal.n".into() }],
        address: "x-controller.n".into(),
        nodesets: vec![],
        extra: String::new(),
    }
}

#[test]
fn a_bare_cluster_has_four_sections() {
    insta::assert_snapshot!(bare().text(&LAYOUT));
}

#[test]
fn node_sets_and_extra_lines_come_last() {
    let conf = SlurmConf {
        nodesets: vec![
            NodeSetLine { name: "cpu".into(), partition: Some("Default=YES State=UP".into()) },
            NodeSetLine { name: "gpu".into(), partition: None },
            NodeSetLine { name: "plain".into(), partition: Some(String::new()) },
        ],
        extra: "ReturnToService=2\nMpiDefault=none\n\n".into(),
        ..bare()
    };
    let text = conf.text(&LAYOUT);
    insta::assert_snapshot!(text.split_once("accounting_storage/none\n").unwrap().1);
    assert!(text.ends_with("MpiDefault=none\n"), "one newline ends the file");
}

#[rstest]
#[case::written_by_us("PartitionName=cpu Nodes=cpu Default=YES\n", &["cpu"])]
#[case::any_case_and_blanks("  partitionname = a Nodes=x\nPARTITIONNAME=b", &["a", "b"])]
#[case::default_is_no_partition("PartitionName=DEFAULT State=UP\n", &[])]
#[case::comment("#PartitionName=a\n", &[])]
fn partitions_are_found(#[case] text: &str, #[case] names: &[&str]) {
    assert_eq!(partitions(text), names);
}
