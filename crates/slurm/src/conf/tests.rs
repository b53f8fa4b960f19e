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
    config_dir: "/etc/slurm",
    jwt_key: "jwt.key",
    jwks: "jwks.json",
};

fn host(name: &str) -> HostName {
    HostName::parse(name).unwrap()
}

fn line(name: &str) -> NodeSetLine {
    NodeSetLine::new(NodeSetName::parse(name).unwrap())
}

fn text(conf: &SlurmConf) -> String {
    conf.write(&LAYOUT).unwrap().text
}

fn bare() -> SlurmConf {
    SlurmConf {
        cluster_name: ClusterName::parse("hpc").unwrap(),
        hosts: vec![ControllerHost { hostname: host("x-controller-0"), address: host("x-controller-0.x-controller-internal.n") }],
        address: Some(host("x-controller.n")),
        has_jwks: false,
        has_metrics: false,
        accounting: None,
        scripts: Scripts::default(),
        nodesets: vec![],
        extra: String::new(),
    }
}

#[test]
fn a_bare_cluster_has_four_sections() {
    insta::assert_snapshot!(text(&bare()));
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
    let text = text(&conf);
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

fn files(names: &[&str]) -> BTreeSet<FileName> {
    names.iter().map(|name| FileName::parse(name).unwrap()).collect()
}

#[test]
fn a_full_cluster_has_every_section_in_its_place() {
    let conf = SlurmConf {
        hosts: (0..2)
            .map(|index| ControllerHost {
                hostname: host(&format!("x-controller-{index}")),
                address: host(&format!("x-controller-{index}.n")),
            })
            .collect(),
        address: None,
        has_jwks: true,
        has_metrics: true,
        accounting: Some(AccountingHost { host: host("dbd.example.org"), port: 7819 }),
        scripts: Scripts {
            prolog: files(&["20-b.sh", "10-a.sh"]),
            epilog: files(&["end.sh"]),
            prolog_slurmctld: files(&["first"]),
            epilog_slurmctld: files(&["last"]),
        },
        nodesets: vec![line("cpu").with_partition(PartitionOptions::default()).unwrap()],
        extra: "SlurmctldParameters=Cloud_DNS,idle_on_node_suspend\nauthinfo=cred_expire=90 # a comment\nMaxNodeCount=4000\n".into(),
        ..bare()
    };
    insta::assert_snapshot!(text(&conf));
}

#[test]
fn a_slurmctld_outside_has_a_short_file() {
    let conf =
        ExternalConf { cluster_name: ClusterName::parse("hpc").unwrap(), host: host("ctl.example.org"), port: 6817, accounting: None };
    insta::assert_snapshot!(conf.text(&LAYOUT));
}

#[rstest]
#[case::name("dbd.example.org", false)]
#[case::ipv4("192.0.2.7", false)]
#[case::ipv6("2001:db8::7", true)]
fn an_ipv6_address_switches_ipv6_on(#[case] address: &str, #[case] is_on: bool) {
    let accounting = Some(AccountingHost { host: host(address), port: 6819 });
    let cluster_name = ClusterName::parse("hpc").unwrap();
    let outside = ExternalConf { cluster_name, host: host("ctl"), port: 6817, accounting: accounting.clone() };
    let file = text(&SlurmConf { accounting, ..bare() });
    for file in [file, outside.text(&LAYOUT), ExternalConf { host: host(address), accounting: None, ..outside }.text(&LAYOUT)] {
        assert_eq!(file.contains("\nCommunicationParameters=EnableIPv6\n"), is_on, "{file}");
    }
}

/// The last value of a key, as Slurm reads the file.
fn last(text: &str, key: &str) -> String {
    crate::conf_check::file::ConfFile::parse(text).last(key).unwrap().1.to_owned()
}

#[rstest]
#[case::added("SlurmctldParameters=Cloud_DNS", "SlurmctldParameters", "Cloud_DNS,enable_configless,reconfig_on_restart", &[])]
#[case::there_already("slurmctldparameters=enable_configless", "SlurmctldParameters", "enable_configless,reconfig_on_restart", &[])]
#[case::the_last_line_counts("AuthInfo=a\nAuthInfo=b", "AuthInfo", "b,use_client_ids", &[])]
#[case::empty("AuthInfo=\"\"", "AuthInfo", "use_client_ids", &[])]
#[case::blanks("AuthInfo=\"B=2, a\"", "AuthInfo", "a,B=2,use_client_ids", &[])]
#[case::continued("AuthInfo=a,\\\nB", "AuthInfo", "a,B,use_client_ids", &[])]
#[case::case_is_kept("AuthAltParameters=userclaimfield=preferred_Name", "AuthAltParameters", "jwt_key=/etc/slurm/jwt.key,userclaimfield=preferred_Name", &[])]
#[case::their_own_keys("AuthAltParameters=jwks=/x/jwks.json", "AuthAltParameters", "jwks=/x/jwks.json,jwt_key=/etc/slurm/jwt.key", &[])]
#[case::ours_wins(
    "# first\nAuthAltParameters=JWT_key=/x/Key",
    "AuthAltParameters",
    "jwt_key=/etc/slurm/jwt.key",
    &["line 2: JWT_key=/x/Key in AuthAltParameters gives way to the operator's jwt_key=/etc/slurm/jwt.key"]
)]
fn lists_of_options_are_joined(#[case] extra: &str, #[case] key: &str, #[case] value: &str, #[case] notes: &[&str]) {
    let written = SlurmConf { extra: extra.to_owned(), ..bare() }.write(&LAYOUT).unwrap();
    assert_eq!(last(&written.text, key), value);
    assert_eq!(written.notes, notes);
    assert!(written.text.contains(extra), "the user's text stays as it is");
}

#[rstest]
#[case::port("ReturnToService=2\nslurmdport=7000", &["line 2: slurmdport=7000 wins over the operator's 6818"])]
#[case::the_last_of_two("SlurmdUser=a\nSlurmdUser=b", &["line 2: SlurmdUser=b wins over the operator's root"])]
#[case::address("SlurmctldAddr=lb.example.org", &["line 1: SlurmctldAddr=lb.example.org wins over the operator's x-controller.n"])]
#[case::the_same("SlurmdPort=6818\nClusterName=hpc\nSlurmctldPort=6817", &[])]
#[case::only_a_start("MaxNodeCount=9", &[])]
#[case::they_add_up("Prolog=/a\nEpilog=/b", &[])]
#[case::inside_a_record("PartitionName=x Nodes=ALL SlurmdPort=1", &[])]
fn what_the_user_overrides_is_told(#[case] extra: &str, #[case] notes: &[&str]) {
    let scripts = Scripts { prolog: files(&["p"]), ..Scripts::default() };
    assert_eq!(SlurmConf { extra: extra.to_owned(), scripts, ..bare() }.write(&LAYOUT).unwrap().notes, notes);
}

#[rstest]
#[case(
    "a=1\nCLUSTERNAME=other",
    "line 2: ClusterName=other cannot be, as it would not be that of the state on disk: take it out, spec.clusterName has the name"
)]
#[case(
    "SlurmctldHost=x-controller-0(x-controller-0.x-controller-internal.n)",
    "line 1: SlurmctldHost=x-controller-0(x-controller-0.x-controller-internal.n) cannot be, as slurmctld runs in pods of this operator alone: take it out, spec.ha adds backups"
)]
#[case(
    "SlurmctldPort=7817",
    "line 1: SlurmctldPort=7817 cannot be, as probes and Services use another: take it out, spec.service.port is the port for clients"
)]
#[case(
    "StateSaveLocation=/tmp",
    "line 1: StateSaveLocation=/tmp cannot be, as nothing outlives the pod there: take it out, spec.persistence says where the state lies"
)]
#[case("SlurmUser=root", "line 1: SlurmUser=root cannot be, as slurmctld runs as another user: take it out")]
#[case(
    "AuthType=auth/munge",
    "line 1: AuthType=auth/munge cannot be, as daemons of this operator know each other by auth/slurm alone: take it out"
)]
#[case::would_join_lines("AuthInfo=a\\\\", "line 1: AuthInfo has `\\\\`, which no option of it has: take it out")]
#[case::would_end_quotes("AuthInfo=a\"b", "line 1: AuthInfo has a quote (\"), which no option of it has: take it out")]
fn what_would_take_slurmctld_from_its_pod_is_refused(#[case] extra: &str, #[case] words: &str) {
    assert_eq!(SlurmConf { extra: extra.to_owned(), ..bare() }.write(&LAYOUT).unwrap_err().to_string(), words);
}

proptest! {
    #[test]
    fn no_name_and_no_option_adds_a_line(name in r#"[a1\-_.= \n"\\#]{0,10}"#, options in r#"[aA1= "'\\#\n\r]{0,16}"#) {
        let parsed = NodeSetName::parse(&name).ok().zip(PartitionOptions::parse(&options).ok());
        let set = parsed.and_then(|(name, options)| NodeSetLine::new(name).with_partition(options).ok());
        if let Some(set) = set {
            let text_of_bare = text(&bare());
            let text = text(&SlurmConf { nodesets: vec![set], ..bare() });
            // A section header of two lines, the node set and the partition.
            prop_assert_eq!(text.lines().count(), text_of_bare.lines().count() + 4);
            prop_assert_eq!(partitions(&text), [name]);
        }
    }

    #[test]
    fn no_text_of_the_users_takes_an_option_of_ours(options in r#"[aAjJwtkKey_=,/ "\\#]{0,24}"#, key in "AuthAltParameters|authinfo|SlurmctldParameters") {
        let extra = format!("{key}={options}");
        if let Ok(written) = (SlurmConf { extra, ..bare() }).write(&LAYOUT) {
            let ours = last(&text(&bare()), &key);
            let now = last(&written.text, &key);
            let now: Vec<&str> = now.split(',').collect();
            prop_assert!(ours.split(',').all(|option| now.contains(&option)), "{} is not in {:?}", ours, now);
            prop_assert!(written.text.starts_with(&text(&bare())));
        }
    }
}
