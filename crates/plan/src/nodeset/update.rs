//! Choice of workers to replace because the template has changed.

use std::collections::BTreeSet;

use slipway_api::slurm_node::UPDATE;

use super::{Finish, Observed, Policy, Stage, Worker, scale_in::ranked};
use crate::gate::Answer;

/// Rollout strategy for a changed template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// A few workers at a time.
    Rolling,
    /// Each worker when someone deletes its pod.
    OnDelete,
    /// All workers in a maintenance.
    Scheduled,
}

/// Chooses outdated workers to drain and replace, among those that stay.
///
/// Every worker that does not serve counts against the budget, whatever the cause: it is missing, does not start, or is not registered in Slurm. So a
/// broken template breaks no more workers than the budget, and those are replaced first when it is fixed. While no worker can be created, for example
/// because a Secret is missing, none is chosen.
///
/// A chosen worker stays chosen until it is replaced, with one exception: a job that started at the moment of the choice could use up the budget for
/// days while other workers are idle. Such a worker is released for an idle one, never for another busy one, because otherwise every new job would
/// change the plan. Its drain counts against the budget until Slurm has lifted it.
///
/// In a maintenance all outdated workers are replaced, but only while it lasts: a worker that still has a job at its end takes new jobs again until
/// the next maintenance.
pub(super) fn choose<'a>(observed: &Observed<'a>, leaving: &BTreeSet<String>) -> Vec<&'a Worker> {
    let Observed { now, policy: Policy { replicas, max_unavailable, update, .. }, .. } = *observed;
    if observed.problem.is_some() {
        return Vec::new();
    }
    let mut staying = observed.counted();
    staying.retain(|worker| worker.stage != Stage::Going && !leaving.contains(&worker.name));
    // The hostname of a Kubernetes node is not part of the template. Changing it is itself the request to replace the worker.
    let is_replaced = |worker: &Worker| match update {
        Update::Rolling => observed.is_outdated(worker),
        Update::Scheduled => observed.is_outdated(worker) && (observed.slurm.maintenance.has(worker) || never_came_up(worker)),
        Update::OnDelete => observed.is_misnamed(worker),
    };
    let outdated = || staying.iter().copied().filter(|worker| is_replaced(worker));
    if update == Update::Scheduled {
        return outdated().collect();
    }
    let is_chosen = |worker: &Worker| is_replaced(worker) && was_chosen(worker);

    let (busy, mut chosen): (Vec<&Worker>, Vec<&Worker>) =
        outdated().filter(|worker| is_chosen(worker)).partition(|worker| worker.in_slurm.is_busy == Answer::Yes);
    let idle = outdated().filter(|worker| !is_chosen(worker) && worker.serves(now) && worker.in_slurm.finish == Finish::Free).count();
    let kept = busy.len().saturating_sub(idle);
    let released = busy.len() - kept;
    chosen.extend(ranked(busy).into_iter().take(kept));
    let mut serving = staying.iter().filter(|worker| worker.serves(now) && !is_chosen(worker)).count();
    // Replacements in progress: new workers that do not serve yet, and slots without a worker.
    let coming =
        staying.iter().filter(|worker| !is_replaced(worker) && !worker.serves(now)).count() + replicas.saturating_sub(staying.len());
    let has_room = |chosen: &[&Worker]| coming + released + chosen.len() < max_unavailable;

    let broken: Vec<&Worker> = outdated().filter(|worker| !is_chosen(worker) && !worker.serves(now)).collect();
    for worker in ranked(broken) {
        if has_room(&chosen) {
            chosen.push(worker);
        }
    }
    let sound: Vec<&Worker> = outdated().filter(|worker| !is_chosen(worker) && worker.serves(now)).collect();
    for worker in ranked(sound) {
        if has_room(&chosen) && replicas.saturating_sub(serving) < max_unavailable {
            chosen.push(worker);
            serving -= 1;
        }
    }
    chosen
}

/// Number of workers that must stay available during a replacement. In a maintenance it is zero.
pub(super) fn floor(observed: &Observed<'_>) -> usize {
    match observed.policy.update {
        Update::Scheduled => 0,
        Update::Rolling | Update::OnDelete => observed.policy.replicas.saturating_sub(observed.policy.max_unavailable),
    }
}

/// True if the pod does not start and Slurm has no node there that could run a job. It need not wait for a maintenance: deleting it affects no one.
fn never_came_up(worker: &Worker) -> bool {
    worker.stage == Stage::Starting && (worker.in_slurm.is_registered == Answer::No || worker.in_slurm.has("Down"))
}

/// True if it was chosen in an earlier reconcile, as recorded in the drain reason of its node.
fn was_chosen(worker: &Worker) -> bool {
    worker.in_slurm.our_reason() == Some(UPDATE) && worker.in_slurm.has("Drain")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::super::tests::{busy, drained, idle, observed, unregistered, worker};
    use super::*;
    use crate::{
        missing,
        nodeset::{Hold, InSlurm},
    };
    use jiff::Timestamp;

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn old(ordinal: u32, stage: Stage, in_slurm: InSlurm) -> Worker {
        Worker { is_current: false, ..worker(ordinal, stage, in_slurm) }
    }

    fn for_update(in_slurm: InSlurm) -> InSlurm {
        let reason = format!("{}{UPDATE}", slipway_api::slurm_node::REASON_PREFIX);
        InSlurm { hold: Hold::DrainedByUs, reason, states: vec!["Drain"], ..in_slurm }
    }

    fn ordinals(workers: &[Worker], replicas: usize, max_unavailable: usize) -> Vec<u32> {
        let observed = observed(workers, replicas).with(|it| it.policy.max_unavailable = max_unavailable);
        choose(&observed, &BTreeSet::new()).iter().filter_map(|worker| worker.slot.ordinal()).collect()
    }

    #[rstest]
    #[case::idle_first(&[old(0, Stage::Ready, busy()), old(1, Stage::Ready, idle())], 1, &[1])]
    #[case::up_to_the_budget(&[old(0, Stage::Ready, idle()), old(1, Stage::Ready, idle()), old(2, Stage::Ready, idle())], 2, &[2, 1])]
    #[case::a_new_one_that_does_not_come_up_uses_the_budget(&[worker(0, Stage::Starting, unregistered()), old(1, Stage::Ready, idle())], 1, &[])]
    #[case::a_new_one_that_slurm_does_not_know_too(&[worker(0, Stage::Ready, unregistered()), old(1, Stage::Ready, idle())], 1, &[])]
    #[case::a_broken_old_one_goes_first(&[old(0, Stage::Starting, unregistered()), old(1, Stage::Ready, idle())], 1, &[0])]
    #[case::and_inside_the_budget(&[old(0, Stage::Starting, unregistered()), old(1, Stage::Starting, unregistered()), old(2, Stage::Ready, idle())], 1, &[1])]
    #[case::a_chosen_one_stays_so(&[old(0, Stage::Ready, for_update(drained())), old(1, Stage::Ready, idle())], 1, &[0])]
    #[case::and_is_not_exchanged_for_another_busy_one(&[old(0, Stage::Ready, for_update(busy())), old(1, Stage::Ready, busy())], 1, &[0])]
    #[case::a_busy_one_is_released_for_an_idle_one(&[old(0, Stage::Ready, for_update(busy())), old(1, Stage::Ready, idle())], 1, &[])]
    #[case::only_as_many_as_are_idle(&[old(0, Stage::Ready, for_update(busy())), old(1, Stage::Ready, for_update(busy())), old(2, Stage::Ready, idle())], 2, &[1])]
    #[case::which_is_chosen_when_slurm_has_lifted_the_drain(&[old(0, Stage::Ready, busy()), old(1, Stage::Ready, idle())], 1, &[1])]
    #[case::also_with_a_smaller_budget(&[old(0, Stage::Ready, for_update(busy())), old(1, Stage::Ready, for_update(busy()))], 1, &[1, 0])]
    #[case::new_ones_are_left_alone(&[worker(0, Stage::Ready, idle()), worker(1, Stage::Ready, drained())], 2, &[])]
    fn these_are_replaced(#[case] workers: &[Worker], #[case] max_unavailable: usize, #[case] expected: &[u32]) {
        assert_eq!(ordinals(workers, workers.len(), max_unavailable), expected);
    }

    #[test]
    fn a_missing_worker_uses_the_budget() {
        assert_eq!(ordinals(&[old(0, Stage::Ready, idle())], 2, 1), [0; 0]);
    }

    #[test]
    fn nobody_is_replaced_who_leaves_anyway_or_where_that_is_left_to_people_or_in_vain() {
        let workers = [old(0, Stage::Ready, idle())];
        assert_eq!(choose(&observed(&workers, 0), &BTreeSet::from(["w-0".to_owned()])), Vec::<&Worker>::new());
        let by_hand = observed(&workers, 1).with(|it| it.policy.update = Update::OnDelete);
        assert_eq!(choose(&by_hand, &BTreeSet::new()), Vec::<&Worker>::new());
        let in_vain = observed(&workers, 1).with(|it| it.problem = Some(missing::no_secret("n", "sssd", "spec.ssh.sssdConfRef")));
        assert_eq!(choose(&in_vain, &BTreeSet::new()), Vec::<&Worker>::new());
    }

    fn fleet() -> impl Strategy<Value = Vec<Worker>> {
        let stage = prop_oneof![Just(Stage::Starting), Just(Stage::Ready), Just(Stage::Ended), Just(Stage::Going)];
        let in_slurm = prop::sample::select(vec![idle(), busy(), drained(), unregistered()]);
        prop::collection::vec((stage, in_slurm, any::<bool>()), 0..12).prop_map(|fleet| {
            let worker = |(ordinal, (stage, in_slurm, is_current))| Worker { is_current, ..worker(ordinal, stage, in_slurm) };
            (0..).zip(fleet).map(worker).collect()
        })
    }

    proptest! {
        #[test]
        fn those_that_serve_never_fall_below_the_budget_by_our_hand(fleet in fleet(), max_unavailable in 1..5_usize) {
            let replicas = fleet.len();
            let chosen = ordinals(&fleet, replicas, max_unavailable);
            let serving = |fleet: &mut dyn Iterator<Item = &Worker>| fleet.filter(|worker| worker.serves(now())).count();
            let before = serving(&mut fleet.iter());
            let after = serving(&mut fleet.iter().filter(|worker| !worker.slot.ordinal().is_some_and(|ordinal| chosen.contains(&ordinal))));
            prop_assert!(after >= before.min(replicas - max_unavailable.min(replicas)));
        }

        #[test]
        fn no_more_are_on_their_way_than_the_budget(fleet in fleet(), max_unavailable in 1..5_usize) {
            let coming = fleet.iter().filter(|worker| worker.stage == Stage::Going || (worker.is_current && !worker.serves(now()))).count();
            let chosen = ordinals(&fleet, fleet.len(), max_unavailable);
            prop_assert!(chosen.is_empty() || chosen.len() + coming <= max_unavailable);
        }
    }
}
