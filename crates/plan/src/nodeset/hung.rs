//! Workers whose slurmd hangs. It often recovers, and its jobs run on in the meantime, so nothing restarts it while there may be one.

use std::collections::BTreeSet;

use super::{Hold, Observed, Worker, registration::can_be_made, removal::Leaving};
use crate::{
    Action, Plan,
    gate::{Clearance, Deed, gate},
};

const HUNG: &str = "slurmd does not respond to its kubelet; its jobs are not affected: see its log and the load of its Kubernetes node; its pod is \
                    replaced when slurmctld has set the node DOWN and reports no job there";
const SILENT: &str = "the kubelet of its Kubernetes node does not report; its jobs are not affected";

/// Message about a worker that was up, or `None` if it is not hung.
pub(super) fn trouble(worker: &Worker) -> Option<&'static str> {
    if worker.is_hung() { Some(HUNG) } else { worker.is_silent().then_some(SILENT) }
}

/// Replaces hung workers that Slurm has given up and that have no job, if the gate allows it. Returns the UIDs of the deleted pods.
///
/// Slurm sets a node DOWN after its `SlurmdTimeout`, and no job starts there before slurmd responds again. A node that a person has drained is left to
/// that person.
pub(super) fn plan_hung(observed: &Observed<'_>, leaving: &Leaving, plan: &mut Plan) -> BTreeSet<String> {
    if !can_be_made(observed) {
        return BTreeSet::new();
    }
    let is_given_up = |worker: &&Worker| {
        let in_slurm = &worker.in_slurm;
        let is_left_to_others = in_slurm.has("Drain") && in_slurm.hold == Hold::ByOthers;
        in_slurm.has("Down") && in_slurm.has("NotResponding") && !is_left_to_others
    };
    let hung = observed.workers.iter().filter(|worker| worker.is_hung() && !leaving.contains(&worker.name)).filter(is_given_up);
    let cleared = hung.filter_map(|worker| Some((worker, clearance(worker)?))).take(observed.policy.max_unavailable.max(1));
    let mut deleted = BTreeSet::new();
    for (worker, clearance) in cleared {
        deleted.insert(worker.uid.clone());
        plan.actions.push(Action::DeleteWorker { name: worker.name.clone(), uid: worker.uid.clone(), clearance });
    }
    deleted
}

/// The clearance to delete the pod, if the gate gives it. A hung worker is not available, so there is no room to keep.
fn clearance(worker: &Worker) -> Option<Clearance> {
    gate(&Deed::new(format!("delete pod `{}`", worker.name), worker.in_slurm.would_end_jobs(false))).clearance()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::{
        gate::Answer,
        nodeset::{
            Containers, InSlurm, Phase, Stage, nodeset,
            tests::{busy, idle, observed, unknown, words, worker},
        },
    };

    /// Given up by slurmctld, with its reason.
    fn given_up(in_slurm: InSlurm) -> InSlurm {
        InSlurm { states: vec!["Down", "NotResponding"], hold: Hold::ByOthers, reason: "Not responding".into(), ..in_slurm }
    }

    fn hung(in_slurm: InSlurm) -> Worker {
        Worker { phase: Phase::Running, containers: Containers::Hung, ..worker(0, Stage::Starting, in_slurm) }
    }

    #[rstest]
    #[case::given_up(hung(given_up(idle())), &["delete pod `w-0`"])]
    #[case::with_a_job(hung(given_up(busy())), &[])]
    #[case::perhaps_with_a_job(hung(InSlurm { is_busy: Answer::Unknown("old".into()), ..given_up(idle()) }), &[])]
    #[case::not_given_up(hung(InSlurm { states: vec!["Idle", "NotResponding"], ..idle() }), &[])]
    #[case::unknown(hung(InSlurm { states: Vec::new(), ..given_up(unknown()) }), &[])]
    #[case::drained_by_a_person(hung(InSlurm { states: vec!["Down", "NotResponding", "Drain"], ..given_up(idle()) }), &[])]
    #[case::silent_kubelet(Worker { containers: Containers::Ready, ..hung(given_up(idle())) }, &[])]
    #[case::not_ready_yet(Worker { containers: Containers::NotReady, ..hung(given_up(idle())) }, &[])]
    #[case::ready(Worker { stage: Stage::Ready, ..hung(given_up(idle())) }, &[])]
    fn a_hung_worker_is_replaced_when_slurm_gave_it_up_and_no_job_is_there(#[case] worker: Worker, #[case] expected: &[&str]) {
        let workers = [worker];
        let plan = nodeset(observed(&workers, 1));
        let deletions: Vec<String> = words(&plan).into_iter().filter(|action| action.starts_with("delete")).collect();
        assert_eq!(deletions, expected);
    }

    #[rstest]
    #[case::hung(Containers::Hung, "slurmd does not respond to its kubelet")]
    #[case::silent(Containers::Ready, "the kubelet of its Kubernetes node does not report")]
    fn a_worker_that_was_up_says_why_it_is_not_ready(#[case] containers: Containers, #[case] expected: &str) {
        let workers = [Worker { containers, ..hung(InSlurm { states: vec!["Mixed"], ..busy() }) }];
        let plan = nodeset(observed(&workers, 1));
        assert!(plan.report.message().contains(expected), "{}", plan.report.message());
    }
}
