use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::image;

/// Every derived name of the public API, for resources with one-letter names. `derived.tsv` is a copy of its tables.
fn derived() -> Vec<(&'static str, &'static str, String)> {
    vec![
        ("Controller", "StatefulSet", controller_workload("X")),
        ("Controller", "client Service", controller_service("X")),
        ("Controller", "headless Service", controller_headless_service("X")),
        ("Controller", "pod", controller_pod("X", 0)),
        ("Controller", "pod of the first backup", controller_pod("X", 1)),
        ("Controller", "pod DNS", controller_pod_dns("X", 0, "N")),
        ("Controller", "ConfigMap", controller_config("X")),
        ("Controller", "claim", controller_claim("X", 0)),
        ("Controller", "address", controller_address("X", "N", image::SLURMCTLD_PORT)),
        ("Controller", "cluster name", default_cluster_name("X", "N")),
        ("NodeSet", "pod", worker_pod("W", 7)),
        ("NodeSet", "padded pod", padded_worker_pod("W", 7, 3)),
        ("NodeSet", "generateName", worker_generate_name("W")),
        ("NodeSet", "hostname", worker_hostname("W", None, 7)),
        ("NodeSet", "padded hostname", padded_worker_hostname("W", None, 7, 3)),
        ("NodeSet", "hostname by template", worker_hostname("W", Some("gpu-"), 7)),
        ("NodeSet", "padded hostname by template", padded_worker_hostname("W", Some("gpu-"), 7, 3)),
        ("NodeSet", "hostname by Kubernetes node", daemon_hostname("node-1.example.org", None).to_owned()),
        ("NodeSet", "hostname by override", daemon_hostname("node-1.example.org", Some("Rack1_Node1")).to_owned()),
        ("NodeSet", "Slurm node set", slurm_nodeset("W", None)),
        ("NodeSet", "Slurm node set by template", slurm_nodeset("W", Some("gpu-"))),
        ("NodeSet", "claim", worker_claim("data", "W", &padded(7, 3))),
        ("NodeSet", "claim by hostname", worker_claim("data", "W", daemon_hostname("node-1.example.org", None))),
        ("NodeSet", "worker Service", worker_service("X")),
        ("NodeSet", "worker budget", worker_budget("X")),
        ("NodeSet", "sshd ConfigMap", worker_ssh_config("W")),
        ("NodeSet", "ControllerRevision", worker_revision("W", "5d4f8c7b9")),
        ("NodeSet", "reservation", worker_reservation("W")),
        ("LoginSet", "Deployment and Service", login_workload("L")),
        ("LoginSet", "sshd ConfigMap", login_ssh_config("L")),
        ("LoginSet", "host key Secret", login_host_keys("L")),
        ("RestApi", "Deployment and Service", restapi_workload("R")),
        ("Accounting", "StatefulSet, Service and Secret", accounting_workload("A")),
        ("Accounting", "pod", accounting_pod("A")),
        ("Token", "Secret", token_secret("T", "alice")),
        ("Token", "key", TOKEN_KEY.to_owned()),
    ]
}

#[test]
fn derived_names_are_those_of_the_public_api() {
    let public: Vec<&str> = include_str!("derived.tsv").lines().skip(1).collect();
    let ours: Vec<String> = derived().into_iter().map(|(kind, thing, name)| format!("{kind}\t{thing}\t{name}")).collect();
    assert_eq!(ours, public);
}

#[rstest]
#[case("w-0", Some(0))]
#[case("w-12", Some(12))]
#[case::padded("w-012", Some(12))]
#[case::much_padded("w-000000000000000007", Some(7))]
#[case::only_zeros("w-000", Some(0))]
#[case::signed("w-+1", None)]
#[case::negative("w--1", None)]
#[case::nothing("w-", None)]
#[case::of_another_set("wide-1", None)]
#[case::of_a_longer_set("w-a-1", None)]
#[case::no_number("w-a", None)]
#[case::too_many("w-4294967296", None)]
fn an_ordinal_is_read_only_from_a_name_we_would_give_with_some_padding(#[case] pod: &str, #[case] ordinal: Option<u32>) {
    assert_eq!(worker_ordinal("w", pod), ordinal);
}

#[rstest]
#[case("data-w-7", Some("w-7"))]
#[case::padded("data-w-007", Some("w-007"))]
#[case::of_another_template("dat-w-7", None)]
#[case::of_another_set("data-w-a-7", None)]
#[case::no_number("data-w-x", None)]
fn a_claim_is_for_one_worker(#[case] claim: &str, #[case] pod: Option<&str>) {
    assert_eq!(claimant("data", "w", claim), pod);
    if let Some(pod) = pod {
        assert_eq!(pod_claim("data", pod), claim);
        assert_eq!(worker_claim("data", "w", pod.strip_prefix("w-").unwrap()), claim);
    }
}

#[rstest]
#[case(Some("-"), "-3", "w")]
#[case(Some("gpu"), "gpu3", "gpu")]
fn a_template_hostname_names_node_and_node_set(#[case] prefix: Option<&str>, #[case] host: &str, #[case] set: &str) {
    assert_eq!(worker_hostname("w", prefix, 3), host);
    assert_eq!(slurm_nodeset("w", prefix), set);
}

#[rstest]
#[case::good(check_controller("slurm"), None)]
#[case::longest(check_controller(&"x".repeat(41)), None)]
#[case::too_long(
    check_controller(&"x".repeat(42)),
    Some("StatefulSet `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-controller` would have 53 characters and 52 are allowed; choose a name that is 1 shorter")
)]
#[case::dot(
    check_restapi("a.b"),
    Some(
        "Service `a.b-restapi` cannot be, as Kubernetes allows only lower-case letters, digits and `-`, with a letter or a digit at both ends there; choose another name"
    )
)]
#[case::capital(
    check_loginset("A"),
    Some(
        "Service `A` cannot be, as Kubernetes allows only lower-case letters, digits and `-`, with a letter or a digit at both ends there; choose another name"
    )
)]
#[case::user_name(
    check_token("t", "Bob_1"),
    Some(
        "Secret `t-jwt-Bob_1` cannot be, as Kubernetes allows only lower-case letters, digits, `-` and `.`, with a letter or a digit at both ends of each part there; choose another name"
    )
)]
#[case::worker(
    check_worker("w-0", "gpu.0"),
    Some(
        "hostname `gpu.0` cannot be, as Kubernetes allows only lower-case letters, digits and `-`, with a letter or a digit at both ends there; choose another name"
    )
)]
#[case::claim(check_claim("scratch", "scratch-w-0"), None)]
#[case::dotted_volume(
    check_claim("a.b", "a.b-w-0"),
    Some(
        "volume `a.b` cannot be, as Kubernetes allows only lower-case letters, digits and `-`, with a letter or a digit at both ends there; choose another name"
    )
)]
#[case::accounting(check_accounting("slurm"), None)]
#[case::nodeset(check_nodeset("worker.gpu"), None)]
#[case::long_pod(
    check_worker(&worker_pod(&"x".repeat(60), 123), "w"),
    Some("pod `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-123` would have 64 characters and 63 are allowed; choose a name that is 1 shorter")
)]
fn a_name_that_cannot_be_is_explained(#[case] outcome: Result<(), Unfit>, #[case] words: Option<&str>) {
    assert_eq!(outcome.err().map(|unfit| unfit.to_string()).as_deref(), words);
}

/// True for an RFC 1123 label as Kubernetes defines it, written as plainly as possible.
fn is_dns_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_outer = |byte: &u8| is_inner(*byte) && *byte != b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(is_inner)
        && text.as_bytes().first().is_some_and(is_outer)
        && text.as_bytes().last().is_some_and(is_outer)
}

proptest! {
    #[test]
    fn what_passes_its_check_derives_only_names_that_kubernetes_takes(
        name in prop_oneof![any::<String>(), "[a-z0-9.A_\n-]{0,70}", "[a-z][a-z0-9-]{0,61}[a-z0-9]"],
        ordinal in any::<u32>(),
        padding in 0..19_usize,
    ) {
        if check_controller(&name).is_ok() {
            for derived in [controller_workload(&name), controller_headless_service(&name), controller_pod(&name, 9), worker_service(&name)] {
                prop_assert!(is_dns_label(&derived), "{derived:?}");
            }
        }
        if check_restapi(&name).is_ok() {
            prop_assert!(is_dns_label(&restapi_workload(&name)));
        }
        if check_accounting(&name).is_ok() {
            prop_assert!(is_dns_label(&accounting_pod(&name)));
        }
        if check_loginset(&name).is_ok() {
            prop_assert!(is_dns_label(&login_workload(&name)));
        }
        let pod = padded_worker_pod(&name, ordinal, padding);
        let hostname = padded_worker_hostname("w", Some(&name), ordinal, padding);
        if check_worker(&pod, &hostname).is_ok() {
            prop_assert!(pod.len() <= 63 && pod.split('.').all(is_dns_label) && is_dns_label(&hostname));
            prop_assert_eq!(worker_ordinal(&name, &pod), Some(ordinal));
        }
    }

    #[test]
    fn an_ordinal_is_never_read_from_another_sets_pod(set in "[a-z0-9-]{1,5}", pod in "[a-z0-9-]{1,12}") {
        if let Some(ordinal) = worker_ordinal(&set, &pod) {
            let padding = pod.len() - set.len() - 1;
            prop_assert_eq!(padded_worker_pod(&set, ordinal, padding), pod);
        }
    }
}
