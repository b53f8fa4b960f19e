use proptest::prelude::*;
use rstest::rstest;

use super::{
    super::{
        Stage,
        tests::{busy, drained, idle, observed, unknown, unregistered, worker},
    },
    *,
};
use crate::nodeset::nodeset;

const MINUTE: Duration = Duration::from_mins(1);

fn list(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// A Kubernetes node with these annotations; `-` means no annotation.
fn host(topology: &str, features: &str) -> Host {
    let topology = (topology != "-").then(|| Ok(topology.to_owned()));
    let features = Some(Ok(list(features).into_iter().map(|feature| format!("k8s/{feature}")).collect()));
    Host { name: "k1".into(), topology, features, ..Host::default() }
}

/// A Slurm node with this topology and these features, all of them active.
fn has(topology: &str, features: &str, in_slurm: InSlurm) -> InSlurm {
    InSlurm { topology: topology.into(), features: list(features), active_features: list(features), ..in_slurm }
}

fn on(host: impl Into<Option<Host>>, ordinal: u32, in_slurm: InSlurm) -> Worker {
    Worker { host: host.into(), ..worker(ordinal, Stage::Ready, in_slurm) }
}

fn planned(workers: &[Worker], moves: Moves) -> (Vec<String>, Option<Duration>) {
    let mut plan = Plan::default();
    plan_node_attributes(&observed(workers, workers.len()).with(|it| it.slurm.moves = moves), &BTreeSet::new(), &mut plan);
    (plan.actions.iter().map(ToString::to_string).collect(), plan.wake_after)
}

fn actions(worker: Worker) -> Vec<String> {
    planned(&[worker], Moves::Now).0
}

#[rstest]
#[case::same("t:s1", "t:s1", &[])]
#[case::another("t:s2", "t:s1", &["update w-0: topology t:s2"])]
#[case::at_registration("t:s2", "", &["update w-0: topology t:s2"])]
#[case::absent_leaves_what_others_set("-", "t:s1", &[])]
#[case::empty_clears("", "t:s1", &["update w-0: no topology"])]
#[case::empty_and_clear("", "", &[])]
fn topology_follows_the_kubernetes_node(#[case] wanted: &str, #[case] is: &str, #[case] expected: &[&str]) {
    assert_eq!(actions(on(host(wanted, ""), 0, has(is, "w", idle()))), expected);
}

#[rstest]
#[case::of_a_former_pod("10.0.0.7", "10.0.0.3", &["NotResponding", "Down"], &["update w-0: address 10.0.0.7"])]
#[case::same("10.0.0.7", "10.0.0.7", &["NotResponding", "Down"], &[])]
#[case::it_responds("10.0.0.7", "10.0.0.3", &["Idle"], &[])]
#[case::of_the_other_family("10.0.0.7", "fd00::7", &["NotResponding"], &[])]
#[case::a_name("10.0.0.7", "worker-0.example", &["NotResponding"], &[])]
fn a_node_that_does_not_respond_gets_the_address_of_its_pod(
    #[case] pod: &str,
    #[case] known: &str,
    #[case] states: &[&'static str],
    #[case] expected: &[&str],
) {
    let in_slurm = InSlurm { address: known.into(), states: states.to_vec(), hold: Hold::ByOthers, ..has("", "w", idle()) };
    let worker = Worker { address: Some(pod.into()), ..on(host("-", ""), 0, in_slurm) };
    assert_eq!(actions(worker), expected);
}

#[rstest]
#[case::none("", "w", &[])]
#[case::new("gpu,ib", "w,fast", &["update w-0: features w,fast,k8s/gpu,k8s/ib"])]
#[case::there("gpu,ib", "k8s/ib,w,k8s/gpu", &[])]
#[case::one_goes("ib", "k8s/gpu,w,k8s/ib,fast", &["update w-0: features w,fast,k8s/ib"])]
#[case::all_go("", "k8s/gpu,w", &["update w-0: features w"])]
#[case::nothing_would_be_left_and_slurm_cannot_be_told_so("", "k8s/gpu", &[])]
fn features_of_ours_are_replaced_and_others_stay(#[case] wanted: &str, #[case] are: &str, #[case] expected: &[&str]) {
    assert_eq!(actions(on(host("-", wanted), 0, has("", are, idle()))), expected);
}

#[test]
fn what_is_active_is_kept_apart() {
    let record = InSlurm { active_features: list("w"), ..has("", "w,slow,k8s/gpu", idle()) };
    assert_eq!(actions(on(host("-", "gpu"), 0, record)), ["update w-0: features w,slow,k8s/gpu, active w,k8s/gpu"]);
}

#[rstest]
#[case::busy(on(host("t:s2", ""), 0, has("", "w", busy())), true)]
#[case::drained(on(host("t:s2", ""), 0, has("", "w", drained())), true)]
#[case::held_by_others(on(host("t:s2", ""), 0, InSlurm { hold: Hold::ByOthers, ..has("", "w", idle()) }), true)]
#[case::unknown(on(host("t:s2", "gpu"), 0, has("", "w", unknown())), false)]
#[case::just_told(on(host("t:s2", "gpu"), 0, InSlurm { hold: Hold::Unknown, ..has("", "w", idle()) }), false)]
#[case::not_registered(on(host("t:s2", "gpu"), 0, unregistered()), false)]
#[case::starting(Worker { stage: Stage::Starting, ..on(host("t:s2", "gpu"), 0, has("", "w", idle())) }, false)]
#[case::going(Worker { stage: Stage::Going, ..on(host("t:s2", "gpu"), 0, has("", "w", idle())) }, false)]
#[case::no_host_yet(on(None::<Host>, 0, has("t:s1", "w,k8s/gpu", idle())), false)]
#[case::the_kubernetes_node_is_not_known(on(Host { name: "k1".into(), ..Host::default() }, 0, has("t:s1", "w,k8s/gpu", idle())), false)]
fn only_a_registered_worker_of_which_all_is_known_is_placed(#[case] worker: Worker, #[case] is_told: bool) {
    assert_eq!(!actions(worker).is_empty(), is_told);
}

#[test]
fn one_call_does_for_all_that_are_told_the_same() {
    let workers: Vec<Worker> = (0..6).map(|n| on(host(if n % 2 == 0 { "t:s0" } else { "t:s1" }, "gpu"), n, has("", "w", idle()))).collect();
    let expected = [
        "update w-0, w-2, w-4: topology t:s0",
        "update w-1, w-3, w-5: topology t:s1",
        "update w-0, w-1, w-2, w-3, w-4, w-5: features w,k8s/gpu",
    ];
    assert_eq!(planned(&workers, Moves::Now).0, expected);
}

fn wrong(features: Option<Result<BTreeSet<String>, String>>) -> Host {
    Host { topology: Some(Err("annotation `t` is wrong".into())), features, ..host("-", "") }
}

#[test]
fn a_wrong_annotation_keeps_nothing_else_from_being_done() {
    let features = host("-", "gpu").features;
    let workers = [on(wrong(features), 0, has("t:s1", "w", idle())), on(host("t:s2", ""), 1, has("", "w", idle()))];
    assert_eq!(planned(&workers, Moves::Now).0, ["update w-1: topology t:s2", "update w-0: features w,k8s/gpu"]);
    let workers = [on(wrong(Some(Err("annotation `f` is wrong".into()))), 0, has("t:s1", "w,k8s/ib", idle()))];
    assert_eq!(planned(&workers, Moves::Now).0, [""; 0]);
}

fn refused(attribute: NodeAttribute, in_slurm: InSlurm) -> InSlurm {
    InSlurm { refusals: vec![Refusal { attribute, why: "no such unit".into(), again_in: MINUTE }], ..in_slurm }
}

#[rstest]
#[case::the_same("t:s9", &[], Some(MINUTE))]
#[case::another_by_now("t:s1", &["update w-0: topology t:s1"], None)]
#[case::gone_by_now("-", &[], None)]
fn what_slurm_refused_is_not_repeated_until_something_changes(
    #[case] wanted: &str,
    #[case] expected: &[&str],
    #[case] wake: Option<Duration>,
) {
    let record = refused(NodeAttribute::Topology("t:s9".into()), has("", "w", idle()));
    let (actions, woken) = planned(&[on(host(wanted, ""), 0, record)], Moves::Now);
    assert_eq!((actions.as_slice(), woken), (expected.iter().map(|&text| text.to_owned()).collect::<Vec<_>>().as_slice(), wake));
}

fn misplaced(features: &str, wanted: &str) -> Worker {
    on(host("-", wanted), 0, InSlurm { is_misplaced: true, ..has("", features, idle()) })
}

#[rstest]
#[case::it_has_its_features(misplaced("w,k8s/gpu", "gpu"), Moves::Now, &["reconfigure Slurm: the features of node w-0 ask for other partitions than those it is in"], None)]
#[case::it_gets_others_first(misplaced("w,k8s/gpu", "ib"), Moves::Now, &["update w-0: features w,k8s/ib"], None)]
#[case::slurm_just_read_it(misplaced("w", ""), Moves::After(MINUTE), &[], Some(MINUTE))]
#[case::it_does_not_help(misplaced("w", ""), Moves::Never, &[], None)]
#[case::just_told(Worker { in_slurm: InSlurm { hold: Hold::Unknown, ..misplaced("w", "").in_slurm }, ..misplaced("w", "") }, Moves::Now, &[], None)]
fn slurm_reads_its_configuration_for_nodes_that_should_be_elsewhere(
    #[case] worker: Worker,
    #[case] moves: Moves,
    #[case] expected: &[&str],
    #[case] wake: Option<Duration>,
) {
    let (actions, woken) = planned(&[worker], moves);
    assert_eq!(actions, expected);
    assert_eq!(woken, wake);
}

#[test]
fn many_nodes_that_should_be_elsewhere_need_one_reading() {
    let workers: Vec<Worker> = (0..3).map(|n| Worker { node: format!("w-{n}"), ..misplaced("w", "") }).collect();
    let expected = ["reconfigure Slurm: the features of 3 nodes, such as w-0, ask for other partitions than those they are in"];
    assert_eq!(planned(&workers, Moves::Now).0, expected);
}

#[rstest]
#[case::nothing_is_written(&[on(host("-", ""), 0, has("", "w", idle()))], None, true)]
#[case::all_is_there(&[on(host("t:s1", "gpu"), 0, has("t:s1", "w,k8s/gpu", idle()))], Some((ConditionStatus::True, "the nodes in Slurm have")), true)]
#[case::on_its_way(&[on(host("t:s1", ""), 0, has("", "w", idle()))], Some((ConditionStatus::True, "the nodes in Slurm have")), false)]
#[case::slurm_is_unknown(&[on(host("t:s1", ""), 0, unknown())], Some((ConditionStatus::True, "the nodes in Slurm have")), false)]
#[case::wrong(
    &[on(wrong(None), 0, has("", "w", idle())), on(wrong(None), 1, has("", "w", idle()))],
    Some((ConditionStatus::False, "Kubernetes node `k1`: annotation `t` is wrong; node `w-0` in Slurm keeps what it has; likewise 1 more")),
    true
)]
#[case::refused(
    &[on(host("t:s9", ""), 0, refused(NodeAttribute::Topology("t:s9".into()), has("", "w", idle())))],
    Some((ConditionStatus::False, "Kubernetes node `k1`: Slurm does not take topology t:s9 for node `w-0`: no such unit; name topologies and units that")),
    true
)]
#[case::refused_and_changed(
    &[on(host("t:s1", ""), 0, refused(NodeAttribute::Topology("t:s9".into()), has("t:s1", "w", idle())))],
    Some((ConditionStatus::True, "the nodes in Slurm have")),
    true
)]
#[case::refused_to_take_one_away(
    &[on(host("-", ""), 0, refused(NodeAttribute::Features { all: list("w"), active: list("w") }, has("", "w,k8s/x", idle())))],
    Some((ConditionStatus::False, "Kubernetes node `k1`: Slurm does not take features w for node `w-0`: no such unit")),
    true
)]
#[case::whoever_goes_is_not_judged(&[Worker { stage: Stage::Going, ..on(wrong(None), 0, idle()) }], None, true)]
fn a_condition_says_whether_all_is_applied(
    #[case] workers: &[Worker],
    #[case] expected: Option<(ConditionStatus, &str)>,
    #[case] settled: bool,
) {
    let (condition_update, is_settled) = annotations_applied(workers);
    assert_eq!(is_settled, settled);
    assert_eq!(condition_update.as_ref().map(|condition_update| condition_update.status), expected.map(|(status, _)| status));
    let message = condition_update.map(|condition_update| condition_update.message).unwrap_or_default();
    assert!(message.starts_with(expected.map_or("", |(_, words)| words)), "{message}");
}

#[test]
fn a_worker_that_is_deleted_is_not_placed() {
    let leaves = [on(
        host("t:s1", ""),
        0,
        has("", "w", InSlurm { reason: "slurm-operator: Pod is pending termination for scale-in".into(), ..drained() }),
    )];
    let plan = nodeset(observed(&leaves, 0));
    assert!(plan.actions.iter().any(|action| matches!(action, Action::DeleteWorker { .. })), "{:?}", plan.actions);
    assert!(!plan.actions.iter().any(|action| matches!(action, Action::SetAttribute { .. })), "{:?}", plan.actions);
}

proptest! {
    #[test]
    fn once_slurm_has_what_it_was_told_there_is_nothing_more_to_tell(
        topology in "(-|t:s[12])", wanted in "(a|b|c)(,(a|b|c)){0,2}", is in "t:s[12]",
        features in "w(,(k8s/a|k8s/d|x|y)){0,3}", active in "w(,(k8s/a|x)){0,2}",
    ) {
        let record = InSlurm { active_features: list(&active), ..has(&is, &features, idle()) };
        let mut worker = on(host(&topology, &wanted), 0, record);
        let others = |list: &[String]| list.iter().filter(|feature| !is_ours(feature)).cloned().collect::<Vec<_>>();
        let before = (others(&worker.in_slurm.features), others(&worker.in_slurm.active_features));
        for attribute in differences(&worker) {
            prop_assert!(attribute.fits(&worker.in_slurm.features, &worker.in_slurm.active_features));
            match attribute {
                NodeAttribute::Topology(attribute) => worker.in_slurm.topology = attribute,
                NodeAttribute::Features { all, active } => (worker.in_slurm.features, worker.in_slurm.active_features) = (all, active),
                NodeAttribute::Address(address) => worker.in_slurm.address = address,
            }
        }
        prop_assert_eq!(differences(&worker), vec![]);
        prop_assert_eq!(before, (others(&worker.in_slurm.features), others(&worker.in_slurm.active_features)));
    }
}
