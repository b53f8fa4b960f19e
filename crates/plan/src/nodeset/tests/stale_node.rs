//! Records in Slurm whose pod is gone.

use rstest::rstest;

use super::*;

fn plan_with(stale_nodes: &[StaleNode], workers: &[Worker], replicas: usize) -> Plan {
    nodeset(observed(workers, replicas).with(|it| it.slurm.stale_nodes = stale_nodes))
}

fn set_down(in_slurm: InSlurm) -> InSlurm {
    InSlurm { hold: Hold::ByOthers, states: vec!["Down", "NotResponding"], ..in_slurm }
}

const DOWN: &str = "set down w-0: Pod is gone";
const DRAIN: &str = "drain w-0: Pod is gone";
const CREATE: &str = "create pod `w-0`";

#[rstest]
#[case::idle(idle(), &[DRAIN])]
#[case::idle_and_silent(silent(idle()), &[DOWN])]
#[case::busy(busy(), &[DRAIN])]
#[case::busy_and_silent(silent(busy()), &[DOWN])]
#[case::draining_by_us(draining(), &[])]
#[case::draining_by_us_and_silent(silent(draining()), &[DOWN])]
#[case::drained_by_us_and_empty(emptied(), &[CREATE])]
#[case::drained_by_others_and_empty(by_others(emptied()), &[CREATE])]
#[case::drained_by_others_and_busy(by_others(draining()), &[])]
#[case::down(set_down(idle()), &[CREATE])]
#[case::terminated(down(), &[CREATE])]
#[case::just_told(InSlurm { hold: Hold::Unknown, ..idle() }, &[])]
#[case::unknown(unknown(), &[CREATE])]
#[case::no_record(unregistered(), &[CREATE])]
fn a_worker_is_made_anew_when_no_job_can_hang_on_its_node(#[case] in_slurm: InSlurm, #[case] actions: &[&str]) {
    assert_eq!(deeds(&plan_with(&[stale_node(0, in_slurm)], &[], 1)), actions);
}

#[rstest]
#[case::idle(idle(), &[DRAIN])]
#[case::busy(busy(), &[DRAIN])]
#[case::busy_and_silent(silent(busy()), &[DOWN])]
#[case::drained_by_us_and_empty(emptied(), &[])]
#[case::drained_by_others_and_busy(by_others(busy()), &[])]
#[case::down(set_down(idle()), &[])]
#[case::unknown(unknown(), &[])]
fn a_stale_node_gets_no_job_although_nobody_takes_its_place(#[case] in_slurm: InSlurm, #[case] actions: &[&str]) {
    assert_eq!(deeds(&plan_with(&[stale_node(0, in_slurm)], &[], 0)), actions);
}

#[test]
fn many_are_set_down_in_one_call_and_others_are_made_meanwhile() {
    let stale_nodes = [stale_node(2, silent(busy())), stale_node(0, silent(idle())), stale_node(3, busy()), stale_node(4, idle())];
    let actions = ["set down w-0, w-2: Pod is gone", "drain w-3, w-4: Pod is gone", "create pod `w-1`"];
    assert_eq!(deeds(&plan_with(&stale_nodes, &[], 3)), actions);
}

#[test]
fn only_a_wait_that_lasts_is_reported() {
    assert_eq!(plan_with(&[stale_node(0, busy())], &[], 1).report.reason(), Reason::PodsNotReady);
    let may_run = plan_with(&[stale_node(0, draining())], &[], 1).report.message();
    assert!(may_run.contains("its slurmd may still run") && may_run.contains("scontrol update nodename=w-0 state=down"), "{may_run}");
    let report = plan_with(&[stale_node(0, by_others(busy()))], &[], 1).report;
    assert_eq!(report.reason(), Reason::WaitingForSlurm);
    assert_eq!(
        report.message(),
        "waits to create pod `w-0`: in Slurm jobs of the deleted pod still hold node `w-0`, which someone else drained (`bad disk`), so it is not \
         changed; Slurm requeues them after its SlurmdTimeout, or sooner if you set the node DOWN"
    );
}
