//! Choice of workers to delete when a NodeSet is scaled in.

use proptest::prelude::*;
use rstest::rstest;

use super::{model::fleet, *};

fn order(workers: &[Worker]) -> Vec<u32> {
    plan_scale_in(workers, workers.len()).filter_map(|worker| worker.slot.ordinal()).collect()
}

fn ready(ordinal: u32) -> Worker {
    Worker { host: Some(Host::default()), ..worker(ordinal, Stage::Ready, idle()) }
}

fn until(seconds: i64) -> InSlurm {
    InSlurm { finish: Finish::At(at(seconds)), ..busy() }
}

/// In each pair the first is deleted first, although all criteria of lower priority favor the other.
#[rstest]
#[case::unassigned_before_assigned(Worker { host: None, ..ready(0) }, Worker { phase: Phase::Pending, stage: Stage::Starting, ..ready(1) })]
#[case::pending_before_unknown(Worker { phase: Phase::Pending, ..ready(0) }, Worker { phase: Phase::Unknown, stage: Stage::Starting, ..ready(1) })]
#[case::unknown_before_running(Worker { phase: Phase::Unknown, ..ready(0) }, Worker { stage: Stage::Starting, ..ready(1) })]
#[case::not_ready_before_ready(Worker { stage: Stage::Starting, deletion_cost: 9, ..ready(0) }, ready(1))]
#[case::cheap_before_dear(Worker { deletion_cost: -1, in_slurm: busy(), ..ready(0) }, ready(1))]
#[case::idle_before_busy(ready(0), Worker { in_slurm: held(until(1)), ..ready(1) })]
#[case::soonest_finished_first(Worker { in_slurm: until(100), ..ready(0) }, Worker { in_slurm: held(until(200)), ..ready(1) })]
#[case::a_limit_before_none(Worker { in_slurm: until(100), ..ready(0) }, Worker { in_slurm: busy(), ..ready(1) })]
#[case::cordoned_before_open(Worker { is_cordoned: true, ..ready(0) }, ready(1))]
#[case::on_a_cordoned_host_before_open(Worker { host: Some(Host { name: "k".into(), cordon: Some("fan".into()), ..Host::default() }), ..ready(0) }, ready(1))]
#[case::drained_by_others_before_open(Worker { in_slurm: by_others(idle()), ..ready(0) }, ready(1))]
#[case::drained_by_us_before_open(Worker { in_slurm: emptied(), ..ready(0) }, ready(1))]
#[case::chosen_before_cordoned(Worker { in_slurm: emptied(), ..ready(0) }, Worker { is_cordoned: true, ..ready(1) })]
#[case::highest_ordinal_first(ready(10), ready(9))]
fn the_first_difference_decides(#[case] first: Worker, #[case] second: Worker) {
    assert_eq!(order(&[first.clone(), second.clone()]), [first.slot.ordinal().unwrap(), second.slot.ordinal().unwrap()]);
    assert_eq!(order(&[second.clone(), first.clone()]), [first.slot.ordinal().unwrap(), second.slot.ordinal().unwrap()]);
}

#[test]
fn one_that_goes_already_is_not_chosen() {
    assert_eq!(order(&[Worker { stage: Stage::Going, ..ready(3) }, ready(0)]), [0]);
}

#[test]
fn a_choice_lasts_while_slurm_is_told_of_it_and_while_jobs_end() {
    let told = InSlurm { hold: Hold::Unknown, ..idle() };
    for chosen in [idle(), told, emptied()] {
        let workers = [Worker { in_slurm: chosen, ..ready(2) }, ready(1), ready(0)];
        assert_eq!(order(&workers)[0], 2);
    }
    let workers = [Worker { in_slurm: held(until(100)), ..ready(1) }, Worker { in_slurm: until(100), ..ready(2) }];
    assert_eq!(order(&workers), [1, 2], "the other one has a higher ordinal and just as much to do");
}

proptest! {
    #[test]
    fn the_same_workers_leave_in_whichever_order_they_are_listed(
        (fleet, shuffled) in fleet().prop_flat_map(|fleet| (Just(fleet.clone()), Just(fleet).prop_shuffle())),
        excess in 0..12_usize,
    ) {
        let chosen = |fleet: &[Worker]| plan_scale_in(fleet, excess).map(|worker| worker.name.clone()).collect::<Vec<_>>();
        prop_assert_eq!(chosen(&fleet), chosen(&shuffled));
    }

    #[test]
    fn no_busy_worker_leaves_before_its_idle_equal(fleet in fleet()) {
        let order: Vec<&Worker> = plan_scale_in(&fleet, fleet.len()).collect();
        for pair in order.windows(2) {
            let alike = |worker: &Worker| (worker.host.is_some(), worker.phase, worker.stage == Stage::Ready, worker.deletion_cost);
            if alike(pair[0]) == alike(pair[1]) {
                prop_assert!(pair[0].in_slurm.finish <= pair[1].in_slurm.finish);
            }
        }
    }
}
