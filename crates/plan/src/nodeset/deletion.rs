//! Deletion of a NodeSet: its workers are drained and deleted without losing a job, its partition stays closed while a job names it, then its records
//! are deleted, and then the NodeSet.

use jiff::{SignedDuration, Timestamp};
use slipway_api::{
    annotation::{DRAIN_DEADLINE, FORCE_DELETE},
    condition::Reason,
    slurm_node::DELETED,
};

use super::{
    Hold, JobPolicy, Maintenance, Needed, Stage, StaleNode, Worker,
    record::{self, Fate},
    stale_node,
};
use crate::{
    Action, Plan,
    gate::{Answer, Clearance, Deed, Verdict, gate},
};

/// Number of jobs a message names before it counts the rest.
const NAMED: usize = 5;

/// Wait after the last record is deleted. slurmctld saves its nodes with up to five seconds of delay. If it is killed before, it restores the deleted
/// ones. The request reaches it a moment after the decision.
const SAVED_AFTER: SignedDuration = SignedDuration::from_secs(8);

/// The last step, for the gate.
const RELEASE: &str = "remove the finalizer of the NodeSet";

/// The remains of a NodeSet that is being deleted.
pub struct Remains<'a> {
    pub workers: &'a [Worker],
    /// Its records in Slurm without a pod, or why they are unknown.
    pub stale_nodes: Result<&'a [StaleNode], String>,
    /// Time of the last request to Slurm to delete one of them.
    pub forgotten_at: Option<Timestamp>,
    /// Jobs that have not ended and name its partition or one of its nodes, or why they are unknown.
    pub jobs: Result<Vec<String>, String>,
    /// Its partition, for the message about jobs.
    pub partition: &'a str,
    /// Its reservation in Slurm.
    pub maintenance: &'a Maintenance,
    /// True if its Controller is gone or terminating, and no slurmctld of it is left.
    pub cluster_is_gone: bool,
    /// True if its deletion orphans the workers.
    pub is_orphaning: bool,
    /// True if pods like its workers exist without an owner.
    pub has_orphans: bool,
    /// Treatment of running jobs, for the whole NodeSet.
    pub job_policy: JobPolicy,
    pub now: Timestamp,
}

impl Remains<'_> {
    /// True if there is nothing to protect. Without workers, no job and no record outlives the cluster. A deletion that orphans the workers leaves them
    /// alone. Kubernetes removes the `orphan` finalizer when the NodeSet owns no worker any more, so orphans without workers mean the same. An orphan
    /// beside workers does not.
    fn is_moot(&self) -> bool {
        self.is_orphaning || (self.workers.is_empty() && (self.cluster_is_gone || self.has_orphans))
    }

    /// Answers if deleting the pod would kill jobs. Without slurmctld no job starts any more, but one that was running continues, and only the pod
    /// still shows it.
    fn would_end_jobs(&self, worker: &Worker) -> Answer {
        match worker.in_slurm.would_end_jobs(worker.stage == Stage::Ended) {
            Answer::Unknown(_) if self.cluster_is_gone && !worker.shows_job() => Answer::No,
            Answer::Unknown(_) if self.cluster_is_gone => {
                Answer::Unknown("its slurmctld is gone, and a job was running there when it last answered".to_owned())
            }
            answer => answer,
        }
    }
}

/// Plans the next step. The last one is [`Action::Release`].
///
/// Order matters: Slurm kills jobs that name a partition or a node when it is removed. So pods are deleted first, then jobs are waited for, then
/// records are deleted. Only then, when the NodeSet is gone, are the lines in slurm.conf removed, both in one write.
pub fn deletion(remains: &Remains<'_>) -> Plan {
    let mut plan = Plan::default();
    if remains.is_moot() {
        // No job is left to be killed, or the pods stay.
        plan.actions.extend(release(&Deed::new(RELEASE.to_owned(), Answer::No)));
        return plan;
    }
    // At once: Slurm deletes no reserved node, and no worker is updated any more.
    let reservation = remains.maintenance.plan_end(&mut plan);
    if remains.workers.is_empty() {
        plan_end(remains, reservation, &mut plan);
    } else {
        plan_worker_deletions(remains, &mut plan);
    }
    plan
}

/// Drains all workers in one command, and deletes those without jobs.
fn plan_worker_deletions(remains: &Remains<'_>, plan: &mut Plan) {
    let Remains { workers, now, .. } = remains;
    let (mut to_drain, mut waits) = (Vec::new(), Vec::new());
    for worker in workers.iter().filter(|worker| worker.stage != Stage::Going) {
        let deed = Deed {
            what: format!("delete pod `{}`", worker.name),
            is_ours: true,
            ends_jobs: remains.would_end_jobs(worker),
            may_end_jobs: worker.job_policy.may_kill_jobs(*now),
            room: None, // all workers are to be deleted
        };
        match gate(&deed) {
            Verdict::Allowed(clearance) => {
                plan.actions.push(Action::DeleteWorker { name: worker.name.clone(), uid: worker.uid.clone(), clearance });
            }
            Verdict::Wait(why) | Verdict::Refused(why) => waits.push((why, worker.job_policy)),
        }
        let is_told = worker.in_slurm.hold == Hold::DrainedByUs && worker.in_slurm.our_reason() == Some(DELETED);
        let is_ours_to_tell = worker.in_slurm.may_get_jobs() || worker.in_slurm.hold == Hold::DrainedByUs;
        if is_ours_to_tell && !is_told {
            to_drain.push(worker.node.clone());
        }
    }
    if !to_drain.is_empty() {
        plan.actions.push(Action::Drain { nodes: to_drain, reason: DELETED.to_owned() });
    }
    let deadlines = workers.iter().filter_map(|worker| match worker.job_policy {
        JobPolicy::KillAfter(deadline) if deadline > *now => Some(deadline),
        _ => None,
    });
    if let Some(next) = deadlines.min() {
        plan.wake_within(next.duration_since(*now).unsigned_abs());
    }
    let words = match waits.first() {
        Some((first, _)) => {
            let more = if waits.len() > 1 { format!("; and {} more like it", waits.len() - 1) } else { String::new() };
            format!(
                "is being deleted and {first}{more}; deletion continues when the jobs have ended; to continue sooner and kill the jobs, annotate the \
                 NodeSet with `{FORCE_DELETE}: \"true\"` or with `{DRAIN_DEADLINE}` and a time"
            )
        }
        None => format!("is being deleted: {} workers are left", workers.len()),
    };
    plan.report.wait(Reason::Deleting, words);
}

/// Waits for jobs once no pod is left, then deletes the records, then releases the NodeSet.
fn plan_end(remains: &Remains<'_>, reservation: Option<Result<(), String>>, plan: &mut Plan) {
    let Remains { stale_nodes, forgotten_at, jobs, partition, job_policy, now, .. } = remains;
    let is_forced = job_policy.may_kill_jobs(*now);
    // First, because jobs on such a node would never end.
    let out_of_use = stale_nodes.as_ref().map(|stale_nodes| stale_node::without_jobs(stale_nodes.iter())).unwrap_or_default();
    if !out_of_use.is_empty() {
        plan.actions.extend(out_of_use);
        return plan.report.wait(Reason::Deleting, "is being deleted: its nodes are drained or set DOWN in Slurm".to_owned());
    }
    match jobs {
        _ if is_forced => {}
        Err(why) => {
            let words = format!(
                "is being deleted and waits: whether a job still names partition `{partition}` is unknown, as {why}; annotate the NodeSet with \
                 `{FORCE_DELETE}: \"true\"` to continue anyway"
            );
            return plan.report.wait(Reason::Deleting, words);
        }
        Ok(jobs) if !jobs.is_empty() => {
            let named = jobs.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if jobs.len() > NAMED { format!(" and {} more", jobs.len() - NAMED) } else { String::new() };
            let words = format!(
                "is being deleted and waits: jobs {named}{more} still name partition `{partition}` or its nodes, and Slurm would kill them with it; cancel \
                 them or move them (`scontrol update jobid=... partition=...`)"
            );
            return plan.report.wait(Reason::Deleting, words);
        }
        Ok(_) => {}
    }
    let stale_nodes: &[StaleNode] = match stale_nodes {
        Ok(stale_nodes) => stale_nodes,
        Err(_) if is_forced => &[],
        Err(why) => {
            return plan.report.wait(Reason::Deleting, format!("is being deleted and waits: its records in Slurm are unknown, as {why}"));
        }
    };
    if let Some(left) = reservation.filter(|_| !is_forced) {
        let why = left.err().unwrap_or_else(|| format!("reservation `{}` is being deleted", remains.maintenance.name));
        return plan.report.wait(Reason::Deleting, format!("is being deleted and waits: {why}"));
    }
    // A node drained by someone else keeps its record and reason, and does no harm.
    let ours: Vec<&StaleNode> = stale_nodes.iter().filter(|stale_node| record::is_ours(&stale_node.in_slurm)).collect();
    let is_unsaved = forgotten_at.map(|at| at + SAVED_AFTER).filter(|saved_at| saved_at > now && !is_forced);
    if ours.is_empty()
        && let Some(saved_at) = is_unsaved
    {
        plan.wake_within(saved_at.duration_since(*now).unsigned_abs());
        return plan
            .report
            .wait(Reason::Deleting, "is being deleted: Slurm has deleted the records of its nodes and is about to save that".to_owned());
    }
    if ours.is_empty() {
        let ends_jobs = match jobs {
            Ok(jobs) if jobs.is_empty() => Answer::No,
            Ok(_) => Answer::Yes,
            Err(why) => Answer::Unknown(why.clone()),
        };
        plan.actions.extend(release(&Deed { may_end_jobs: is_forced, ..Deed::new(RELEASE.to_owned(), ends_jobs) }));
        return;
    }
    let fates: Vec<(&str, Fate)> = ours.iter().map(|stale_node| (stale_node.node.as_str(), record::fate(stale_node))).collect();
    let clearance = |stale_node: &StaleNode| match record::fate(stale_node) {
        Fate::Goes(clearance) => Some(clearance),
        // A forced deletion ignores who needs the record. Slurm itself still keeps a node that is reserved or has a job.
        Fate::Waits(_) | Fate::Stays(_) if is_forced => record::fate_if(stale_node, &Needed::ByNone).clearance(),
        Fate::Waits(_) | Fate::Stays(_) => None,
    };
    let cleared = Clearance::for_all(ours.iter().filter_map(|stale_node| Some((stale_node.node.clone(), clearance(stale_node)?))));
    let kept = fates.iter().find_map(|(node, fate)| match fate {
        Fate::Stays(why) => Some(format!("the record of node `{node}` stays: {why}")),
        Fate::Waits(_) | Fate::Goes(_) => None,
    });
    let waits = || fates.iter().find_map(|(_, fate)| if let Fate::Waits(why) = fate { Some(why.clone()) } else { None });
    let words = if let Some(why) = kept.or_else(waits) {
        format!("is being deleted and waits: {why}")
    } else {
        let nodes = cleared.as_ref().map(|(nodes, _)| nodes.join(", ")).unwrap_or_default();
        format!("is being deleted: Slurm is asked to delete the records of {nodes}")
    };
    plan.report.wait(Reason::Deleting, words);
    plan.actions.extend(cleared.map(|(nodes, clearance)| Action::Forget { nodes, clearance }));
}

fn release(deed: &Deed) -> Option<Action> {
    gate(deed).clearance().map(|clearance| Action::Release { clearance })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;
    use slipway_api::slurm_node::{POD_GONE, REASON_PREFIX};

    use super::{
        super::{
            InSlurm, Reserved, Seen, Told,
            tests::{busy, drained, idle, silent, stale_node, unknown, worker},
        },
        *,
    };

    static NO_MAINTENANCE: Maintenance = Maintenance::none(String::new());

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn remains<'a>(workers: &'a [Worker], stale_nodes: &'a [StaleNode], jobs: &[&str]) -> Remains<'a> {
        let jobs = Ok(jobs.iter().map(|job| (*job).to_owned()).collect());
        Remains {
            workers,
            stale_nodes: Ok(stale_nodes),
            forgotten_at: None,
            jobs,
            partition: "w",
            maintenance: &NO_MAINTENANCE,
            cluster_is_gone: false,
            is_orphaning: false,
            has_orphans: false,
            job_policy: JobPolicy::Wait,
            now: now(),
        }
    }

    fn words(remains: &Remains<'_>) -> Vec<String> {
        deletion(remains).actions.iter().map(ToString::to_string).collect()
    }

    /// A node that we set DOWN, and whose pod is gone.
    fn gone() -> InSlurm {
        let reason = format!("{REASON_PREFIX}{POD_GONE}");
        InSlurm { hold: Hold::ByOthers, reason, states: vec!["Down", "NotResponding"], ..idle() }
    }

    #[rstest]
    #[case::idle(idle(), Stage::Ready, &["drain w-0: NodeSet is being deleted"])]
    #[case::busy(busy(), Stage::Ready, &["drain w-0: NodeSet is being deleted"])]
    #[case::unknown(unknown(), Stage::Ready, &[])]
    #[case::going(busy(), Stage::Going, &[])]
    fn workers_are_drained_first(#[case] in_slurm: InSlurm, #[case] stage: Stage, #[case] actions: &[&str]) {
        let workers = [worker(0, stage, in_slurm)];
        let plan = deletion(&remains(&workers, &[], &[]));
        assert_eq!(plan.actions.iter().map(ToString::to_string).collect::<Vec<_>>(), actions);
        assert_eq!(plan.report.reason(), Reason::Deleting);
    }

    #[test]
    fn empty_ones_go_and_busy_ones_only_by_force() {
        let told = |in_slurm: InSlurm| InSlurm { hold: Hold::DrainedByUs, reason: format!("{REASON_PREFIX}{DELETED}"), ..in_slurm };
        let workers = [worker(0, Stage::Ready, told(drained())), worker(1, Stage::Ready, told(busy()))];
        assert_eq!(words(&remains(&workers, &[], &[])), ["delete pod `w-0`"]);
        let forced: Vec<Worker> = workers.iter().map(|worker| Worker { job_policy: JobPolicy::KillNow, ..worker.clone() }).collect();
        assert_eq!(words(&remains(&forced, &[], &[])), ["delete pod `w-0`", "delete pod `w-1`"]);
    }

    #[test]
    fn jobs_that_name_the_partition_are_waited_for_by_name() {
        let plan = deletion(&remains(&[], &[], &["7", "8"]));
        assert_eq!(plan.actions, []);
        assert!(plan.report.message().contains("jobs 7, 8 still name partition `w`"), "{}", plan.report.message());
    }

    #[test]
    fn not_knowing_waits() {
        let unknown_jobs = Remains { jobs: Err("Slurm does not respond".into()), ..remains(&[], &[], &[]) };
        assert_eq!(words(&unknown_jobs), [""; 0]);
        let unknown_records = Remains { stale_nodes: Err("Slurm does not respond".into()), ..remains(&[], &[], &[]) };
        assert_eq!(words(&unknown_records), [""; 0]);
        let forced =
            Remains { jobs: Err("?".into()), stale_nodes: Err("?".into()), job_policy: JobPolicy::KillNow, ..remains(&[], &[], &[]) };
        assert_eq!(words(&forced), ["release the NodeSet"]);
    }

    #[test]
    fn it_goes_when_slurm_has_saved_that_its_records_are_gone() {
        let just_now = Remains { forgotten_at: Some(now()), ..remains(&[], &[], &[]) };
        assert_eq!(words(&just_now), [""; 0]);
        assert_eq!(deletion(&just_now).wake_after, Some(SAVED_AFTER.unsigned_abs()));
        let forced = Remains { job_policy: JobPolicy::KillNow, ..just_now };
        assert_eq!(words(&forced), ["release the NodeSet"]);
        let saved = Remains { forgotten_at: Some(now() - SAVED_AFTER), ..remains(&[], &[], &[]) };
        assert_eq!(words(&saved), ["release the NodeSet"]);
        // slurmctld was killed and restored a deleted record.
        let stale_nodes = [stale_node(0, gone())];
        let found_again = Remains { forgotten_at: Some(now() - SAVED_AFTER), ..remains(&[], &stale_nodes, &[]) };
        assert_eq!(words(&found_again), ["forget w-0"]);
    }

    #[test]
    fn records_go_before_the_node_set_does() {
        let stale_nodes = [stale_node(0, gone()), stale_node(1, gone())];
        assert_eq!(words(&remains(&[], &stale_nodes, &[])), ["forget w-0, w-1"]);
        assert_eq!(words(&remains(&[], &[], &[])), ["release the NodeSet"]);
    }

    #[test]
    fn one_that_a_killed_slurmctld_remembers_as_drained_goes_too() {
        let reason = format!("{REASON_PREFIX}{DELETED}");
        let stale_nodes = [stale_node(0, InSlurm { reason, states: vec!["Idle", "Drain", "NotResponding"], ..drained() })];
        assert_eq!(words(&remains(&[], &stale_nodes, &[])), ["forget w-0"]);
    }

    #[rstest]
    #[case::reserved(Needed::By("reservation `r` names it".into()), "the record of node `w-0` stays: reservation `r` names it")]
    #[case::not_known(Needed::default(), "waits to delete the record of node `w-0`: cannot tell whether that would kill jobs")]
    fn a_record_that_is_needed_is_waited_for_and_only_force_tries(#[case] needed: Needed, #[case] message: &str) {
        let needed = super::super::Record { needed, ..Default::default() };
        let stale_nodes = [StaleNode { record: needed, ..stale_node(0, gone()) }];
        let plan = deletion(&remains(&[], &stale_nodes, &[]));
        assert_eq!(plan.actions, []);
        assert!(plan.report.message().contains(message), "{}", plan.report.message());
        assert_eq!(words(&Remains { job_policy: JobPolicy::KillNow, ..remains(&[], &stale_nodes, &[]) }), ["forget w-0"]);
    }

    #[test]
    fn one_that_still_takes_jobs_is_taken_out_of_use_first() {
        let stale_nodes = [stale_node(0, idle())];
        assert_eq!(words(&remains(&[], &stale_nodes, &[])), ["drain w-0: Pod is gone"]);
        let with_a_job = [stale_node(0, silent(busy()))];
        assert_eq!(words(&remains(&[], &with_a_job, &["7"])), ["set down w-0: Pod is gone"], "its job would never end");
    }

    #[test]
    fn a_drain_of_others_keeps_its_record() {
        let stale_nodes = [stale_node(0, InSlurm { reason: "bad disk".into(), ..gone() })];
        assert_eq!(words(&remains(&[], &stale_nodes, &[])), ["release the NodeSet"]);
    }

    fn maintenance(seen: Seen) -> Maintenance {
        Maintenance { seen, ..Maintenance::none("R".to_owned()) }
    }

    fn reserved(flags: &[&str]) -> Maintenance {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        maintenance(Seen::There(Reserved { start: now(), end: now(), flags, nodes: ["w-0".to_owned()].into() }))
    }

    #[test]
    fn its_reservation_goes_first_as_slurm_forgets_no_node_that_is_reserved() {
        let ours = reserved(&["MAINT"]);
        let (workers, stale_nodes) = ([worker(0, Stage::Ready, busy())], [stale_node(0, gone())]);
        let with = |maintenance, stale_nodes| Remains { maintenance, ..remains(&[], stale_nodes, &[]) };
        let busy = Remains { maintenance: &ours, ..remains(&workers, &[], &[]) };
        assert_eq!(words(&busy), ["unreserve `R`", "drain w-0: NodeSet is being deleted"]);
        assert_eq!(words(&with(&ours, &stale_nodes)), ["unreserve `R`"]);
        assert!(deletion(&with(&ours, &stale_nodes)).report.message().contains("reservation `R` is being deleted"));
        let unknown = maintenance(Seen::Unknown("Slurm does not respond".into()));
        assert_eq!(words(&with(&unknown, &stale_nodes)), [""; 0]);
        // A refusal is reported, and a forced deletion continues.
        let told = Told { booking: None, refusal: Some("error 2055".into()), again_in: Duration::from_secs(5) };
        let refused = Maintenance { told: Some(told), ..ours.clone() };
        assert!(deletion(&with(&refused, &stale_nodes)).report.message().contains("error 2055"));
        assert_eq!(words(&Remains { job_policy: JobPolicy::KillNow, ..with(&refused, &[]) }), ["release the NodeSet"]);
    }

    #[test]
    fn a_reservation_of_another_hand_stays() {
        assert_eq!(words(&Remains { maintenance: &reserved(&[]), ..remains(&[], &[], &[]) }), ["release the NodeSet"]);
    }

    #[test]
    fn where_there_is_nothing_to_protect_it_goes_at_once() {
        let workers = [worker(0, Stage::Ready, busy())];
        assert_eq!(words(&Remains { cluster_is_gone: true, ..remains(&[], &[], &["7"]) }), ["release the NodeSet"]);
        assert_eq!(words(&Remains { is_orphaning: true, ..remains(&workers, &[], &["7"]) }), ["release the NodeSet"]);
        assert_eq!(words(&Remains { has_orphans: true, ..remains(&[], &[], &["7"]) }), ["release the NodeSet"]);
    }

    /// Without slurmctld, only the pod still shows that a job was running there.
    #[rstest]
    #[case::idle(false, JobPolicy::Wait, &["delete pod `w-0`"])]
    #[case::busy(true, JobPolicy::Wait, &[])]
    #[case::busy_and_forced(true, JobPolicy::KillNow, &["delete pod `w-0`"])]
    fn a_job_outlives_its_slurmctld(#[case] shows_job: bool, #[case] job_policy: JobPolicy, #[case] actions: &[&str]) {
        let mut left = Worker { job_policy, ..worker(0, Stage::Ready, unknown()) };
        left.shown.is_protected = shows_job;
        let workers = [left];
        let gone = Remains { cluster_is_gone: true, ..remains(&workers, &[], &[]) };
        assert_eq!(words(&gone), actions);
        if actions.is_empty() {
            let message = deletion(&gone).report.message();
            assert!(message.contains("its slurmctld is gone, and a job was running there") && message.contains(FORCE_DELETE), "{message}");
        }
        let unreachable = Remains { cluster_is_gone: false, ..gone };
        assert!(job_policy == JobPolicy::KillNow || words(&unreachable).is_empty(), "a Slurm that does not answer may start jobs");
    }

    #[test]
    fn a_stray_pod_beside_workers_ends_no_job() {
        let workers = [worker(0, Stage::Ready, busy())];
        let actions = words(&Remains { has_orphans: true, ..remains(&workers, &[], &["7"]) });
        assert_eq!(actions, ["drain w-0: NodeSet is being deleted"]);
    }
}
