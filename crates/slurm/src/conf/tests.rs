use proptest::prelude::*;
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

fn host(name: &str) -> HostName {
    HostName::parse(name).unwrap()
}

fn line(name: &str) -> NodeSetLine {
    NodeSetLine::new(NodeSetName::parse(name).unwrap())
}

fn bare() -> SlurmConf {
    SlurmConf {
        cluster_name: ClusterName::parse("hpc").unwrap(),
        hosts: vec![ControllerHost { hostname: host("x-controller-0"), address: host("x-controller-0.x-controller-internal.n") }],
        address: host("x-controller.n"),
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
            line("cpu").with_partition(PartitionOptions::parse("Default=YES  State=UP # mine").unwrap()).unwrap(),
            line("gpu"),
            line("plain").with_partition(PartitionOptions::default()).unwrap(),
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

#[rstest]
#[case::default("default")]
#[case::all("All")]
fn a_partition_cannot_have_a_word_of_slurms_own(#[case] name: &str) {
    let error = line(name).with_partition(PartitionOptions::default()).unwrap_err().to_string();
    assert!(error.ends_with("choose another"), "{error}");
}

#[rstest]
#[case::another_partition("Default=YES PartitionName=y", "has `PartitionName=y`, which is no option of a partition: take it out")]
#[case::another_file("include=/etc/passwd", "has `include=/etc/passwd`, which is no option of a partition: take it out")]
#[case::another_line("Default=YES\nInclude /etc/passwd", "has more than one line: write all items on one")]
#[case::no_item("Default", "has `Default`, which is no `Key=Value`: separate items by blanks")]
fn partition_options_stay_on_their_line(#[case] text: &str, #[case] words: &str) {
    assert_eq!(PartitionOptions::parse(text).unwrap_err().to_string(), words);
}

proptest! {
    #[test]
    fn no_name_and_no_option_adds_a_line(name in r#"[a1\-_.= \n"\\#]{0,10}"#, options in r#"[aA1= "'\\#\n\r]{0,16}"#) {
        let parsed = NodeSetName::parse(&name).ok().zip(PartitionOptions::parse(&options).ok());
        let set = parsed.and_then(|(name, options)| NodeSetLine::new(name).with_partition(options).ok());
        if let Some(set) = set {
            let text = SlurmConf { nodesets: vec![set], ..bare() }.text(&LAYOUT);
            // A headline of two lines, the node set and the partition.
            prop_assert_eq!(text.lines().count(), bare().text(&LAYOUT).lines().count() + 4);
            prop_assert_eq!(partitions(&text), [name]);
        }
    }
}
