use proptest::prelude::*;
use rstest::rstest;
use slipway_api::slurm_node::{POD_GONE, REASON_PREFIX, UPDATE};

use super::{
    super::{
        nodeset,
        tests::{busy, drained, idle, observed, unknown, words, worker},
    },
    *,
};

/// Set DOWN by us after its pod was gone.
fn gone() -> InSlurm {
    let reason = format!("{REASON_PREFIX}{POD_GONE}");
    InSlurm { hold: Hold::ByOthers, reason, states: vec!["Down", "NotResponding"], ..idle() }
}

/// Drained by us and empty. A slurmctld that was killed restores this state for a node that went DOWN a moment later.
fn left_drained() -> InSlurm {
    InSlurm { reason: format!("{REASON_PREFIX}{UPDATE}"), states: vec!["Idle", "Drain", "NotResponding"], ..drained() }
}

fn free(differences: &[&str]) -> Record {
    Record { differences: differences.iter().map(|it| (*it).to_owned()).collect(), is_curable: true, needed: Needed::ByNone }
}

fn stale_node(ordinal: u32, in_slurm: InSlurm, record: Record) -> StaleNode {
    StaleNode { record, ..super::super::tests::stale_node(ordinal, in_slurm) }
}

fn needed(by: &str) -> Record {
    Record { needed: Needed::By(by.to_owned()), ..free(&[]) }
}

fn said(plan: &Plan) -> String {
    let condition_update = plan.report.condition_updates.iter().find(|condition_update| condition_update.type_ == RECORDS_CURRENT);
    condition_update.map(|condition_update| condition_update.message.clone()).unwrap_or_default()
}

#[rstest]
#[case::gone(gone(), &["forget w-3"])]
#[case::drained_and_empty(left_drained(), &["forget w-3"])]
#[case::it_came_back_and_takes_jobs(idle(), &["drain w-3: Pod is gone"])]
#[case::busy(InSlurm { is_busy: Answer::Yes, ..gone() }, &[])]
#[case::unknown(InSlurm { states: vec!["Down"], hold: Hold::DownByUs, ..unknown() }, &[])]
#[case::just_told(InSlurm { hold: Hold::Unknown, ..gone() }, &[])]
#[case::held_by_others(InSlurm { reason: "bad disk".into(), ..gone() }, &[])]
#[case::drained_by_others_without_a_word(InSlurm { reason: String::new(), states: vec!["Down", "Drain"], ..gone() }, &[])]
#[case::down_by_slurm(InSlurm { reason: "Not responding".into(), ..gone() }, &["forget w-3"])]
fn a_stale_record_is_pruned_when_it_is_surely_out_of_use(#[case] in_slurm: InSlurm, #[case] actions: &[&str]) {
    let (workers, stale_nodes) = ([worker(0, Stage::Ready, idle())], [stale_node(3, in_slurm, free(&[]))]);
    let plan = nodeset(observed(&workers, 1).with(|it| {
        it.policy.prunes = true;
        it.slurm.stale_nodes = &stale_nodes;
    }));
    assert_eq!(words(&plan), actions);
    assert!(plan.report.is_ready(), "{:?}", plan.report);
}

#[rstest]
#[case::reserved(needed("reservation `r` names it"), "record of node `w-3` stays: reservation `r` names it")]
#[case::required(needed("job 7 requires it"), "record of node `w-3` stays: job 7 requires it")]
#[case::nobody_knows(Record { needed: Needed::Unknown("the queue is old".into()), ..free(&[]) }, "")]
fn what_others_need_stays_and_it_is_said_why(#[case] record: Record, #[case] message: &str) {
    let (workers, stale_nodes) = ([worker(0, Stage::Ready, idle())], [stale_node(3, gone(), record)]);
    let plan = nodeset(observed(&workers, 1).with(|it| {
        it.policy.prunes = true;
        it.slurm.stale_nodes = &stale_nodes;
    }));
    assert_eq!(words(&plan), [""; 0]);
    assert_eq!(said(&plan), message);
}

#[test]
fn nothing_is_pruned_where_nobody_asked_or_the_worker_is_wanted() {
    let stale_nodes = [stale_node(0, gone(), free(&[])), stale_node(3, gone(), free(&[]))];
    let plan = nodeset(observed(&[], 0).with(|it| it.slurm.stale_nodes = &stale_nodes));
    assert_eq!(words(&plan), [""; 0]);
    let plan = nodeset(observed(&[], 1).with(|it| {
        it.policy.prunes = true;
        it.slurm.stale_nodes = &stale_nodes;
    }));
    assert_eq!(words(&plan), ["create pod `w-0`", "forget w-3"]);
}

#[test]
fn a_record_that_says_something_else_is_deleted_before_its_pod_is_made() {
    let stale_nodes = [stale_node(0, gone(), free(&["RealMemory is 1 and not 2"])), stale_node(1, gone(), free(&[]))];
    let plan = nodeset(observed(&[], 2).with(|it| it.slurm.stale_nodes = &stale_nodes));
    assert_eq!(words(&plan), ["forget w-0", "create pod `w-1`"]);
    assert_eq!(
        plan.report.message(),
        "waits to create pod `w-0` until Slurm has deleted the record of node `w-0`, which would not change: RealMemory is 1 and not 2"
    );
}

#[rstest]
#[case::reserved(Record { needed: Needed::By("reservation `r` names it".into()), ..free(&["x"]) }, gone(), &["create pod `w-0`"])]
#[case::held_by_others(free(&["x"]), InSlurm { reason: "bad disk".into(), ..gone() }, &["create pod `w-0`"])]
#[case::soon_known(Record { needed: Needed::Unknown("it is read again".into()), ..free(&["x"]) }, gone(), &[])]
#[case::still_up(free(&["x"]), idle(), &["drain w-0: Pod is gone"])]
fn a_record_that_has_to_stay_keeps_no_worker_from_coming(#[case] record: Record, #[case] in_slurm: InSlurm, #[case] actions: &[&str]) {
    let stale_nodes = [stale_node(0, in_slurm, record)];
    assert_eq!(words(&nodeset(observed(&[], 1).with(|it| it.slurm.stale_nodes = &stale_nodes))), actions);
}

/// A worker from the current template, with this state in Slurm.
fn live(in_slurm: InSlurm, record: Record) -> Worker {
    Worker { record, ..worker(0, Stage::Ready, in_slurm) }
}

#[rstest]
#[case::differs(live(idle(), free(&["x"])), true)]
#[case::differs_and_is_busy(live(busy(), free(&["x"])), true)]
#[case::how_old_the_queue_is_does_not_matter_yet(live(idle(), Record { needed: Needed::default(), ..free(&["x"]) }), true)]
#[case::agrees(live(idle(), free(&[])), false)]
#[case::perhaps_for_ever(live(idle(), Record { is_curable: false, ..free(&["x"]) }), false)]
#[case::reserved(live(idle(), Record { needed: Needed::By("r".into()), ..free(&["x"]) }), false)]
#[case::held_by_others(live(InSlurm { hold: Hold::ByOthers, ..idle() }, free(&["x"])), false)]
#[case::unknown(live(unknown(), free(&["x"])), false)]
fn a_worker_whose_record_says_something_else_is_outdated(#[case] worker: Worker, #[case] expected: bool) {
    let mut workers = [worker];
    note_outdated(&mut workers, &ReplacementBackoff::new());
    assert_eq!(!workers[0].is_current, expected);
}

#[test]
fn it_is_drained_and_replaced_like_any_other() {
    let mut workers = [live(idle(), free(&["x"]))];
    note_outdated(&mut workers, &ReplacementBackoff::new());
    let plan = nodeset(observed(&workers, 1));
    assert_eq!(words(&plan), ["drain w-0: Pod is pending termination for update"]);
    let message = "the Slurm record of node `w-0` differs from its pod (x): both are replaced when its jobs have ended";
    assert_eq!(said(&plan), message);
    let drained = InSlurm { reason: format!("{REASON_PREFIX}{UPDATE}"), states: vec!["Idle", "Drain"], ..drained() };
    let mut workers = [live(drained, free(&["x"]))];
    note_outdated(&mut workers, &ReplacementBackoff::new());
    assert_eq!(words(&nodeset(observed(&workers, 1))), ["delete pod `w-0`"]);
}

#[test]
fn what_does_not_help_is_not_done_for_ever_and_it_is_said() {
    let workers = [live(idle(), free(&["RealMemory is 1 and not 2"]))];
    let delete = [Action::delete_worker("w-0", "uid-0")];
    let now = observed(&workers, 1).now;
    let mut backoff = ReplacementBackoff::new();
    for _ in 0..MOST_TRIES {
        let mut again = workers.clone();
        backoff.saw(&again, now);
        note_outdated(&mut again, &backoff);
        assert!(!again[0].is_current);
        backoff.count(&delete, &again, now);
    }
    let mut last = workers;
    backoff.saw(&last, now);
    note_outdated(&mut last, &backoff);
    assert!(last[0].is_current);
    let plan = nodeset(observed(&last, 1).with(|it| it.backoff = &backoff));
    assert_eq!(words(&plan), [""; 0]);
    assert!(
        said(&plan).contains("the Slurm record of node `w-0` differs from its pod (RealMemory is 1 and not 2), and 2 new ones did too")
    );
    // A matching record resets the counter.
    let well = [live(idle(), free(&[]))];
    backoff.saw(&well, now);
    assert_eq!(backoff.reregistered("w-0"), 0);
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![Just(Answer::Yes), Just(Answer::No), Just(Answer::Unknown("?".into()))]
}

proptest! {
    #[test]
    fn no_record_goes_that_is_not_ours_known_empty_and_unneeded(
        is_busy in any_answer(),
        hold in prop::sample::select(vec![Hold::Open, Hold::DrainedByUs, Hold::DownByUs, Hold::ByOthers, Hold::Unknown]),
        states in prop::sample::subsequence(vec!["Idle", "Down", "Drain", "NotResponding", "Allocated"], 0..5),
        reason in prop::sample::select(vec![String::new(), format!("{REASON_PREFIX}{POD_GONE}"), "bad disk".into(), "Not responding".into()]),
        needed in prop::sample::select(vec![Needed::ByNone, Needed::By("r".into()), Needed::default()]),
        differs in any::<bool>(),
        prunes in any::<bool>(),
        replicas in 0..2_usize,
    ) {
        let in_slurm = InSlurm { is_busy: is_busy.clone(), hold, states: states.clone(), reason: reason.clone(), ..idle() };
        let record = Record { differences: differs.then(|| "x".to_owned()).into_iter().collect(), is_curable: true, needed: needed.clone() };
        let stale_nodes = [stale_node(0, in_slurm, record)];
        let plan = nodeset(observed(&[], replicas).with(|it| { it.policy.prunes = prunes; it.slurm.stale_nodes = &stale_nodes; }));
        let forgets = plan.actions.iter().any(|action| matches!(action, Action::Forget { .. }));
        let is_safe = is_busy == Answer::No && needed == Needed::ByNone && reason != "bad disk" && hold != Hold::Unknown
            && ["Down", "Drain", "NotResponding"].iter().any(|state| states.contains(state));
        let is_asked = if replicas == 0 { prunes } else { differs };
        prop_assert!(!forgets || (is_safe && is_asked));
    }
}
