use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::nodeset::{
    InSlurm, nodeset,
    tests::{busy, drained, idle, observed, unknown, words, worker},
};

const DELETE: Retention = Retention::Delete;
const RETAIN: Retention = Retention::Retain;

fn claim(ordinal: u32, keeper: Keeper) -> Claim {
    let (name, uid) = (format!("data-w-{ordinal}"), format!("uid-of-data-{ordinal}"));
    Claim { name, uid, pod: format!("w-{ordinal}"), is_going: false, keeper }
}

fn plan_with(workers: &[Worker], replicas: usize, claims: &[Claim], when_deleted: Retention, when_scaled: Retention) -> Plan {
    nodeset(observed(workers, replicas).with(|it| {
        it.kubernetes.claims = claims;
        it.policy.retention = ClaimRetention { when_deleted, when_scaled };
    }))
}

/// Planned actions on pods and claims.
fn deeds(plan: &Plan) -> Vec<String> {
    words(plan)
        .into_iter()
        .filter(|words| !words.starts_with("show") && !words.starts_with("describe") && !words.starts_with("mark"))
        .collect()
}

fn its_pod(ordinal: u32) -> Keeper {
    Keeper::Pod(format!("uid-{ordinal}"))
}

#[rstest]
#[case::for_ever(RETAIN, Keeper::Unowned, &[])]
#[case::with_the_node_set(DELETE, Keeper::NodeSet, &[])]
#[case::policy_was_made_stricter(DELETE, Keeper::Unowned, &["let `data-w-0` go with the NodeSet"])]
#[case::policy_was_relaxed(RETAIN, Keeper::NodeSet, &["keep `data-w-0` for ever"])]
#[case::a_scale_in_was_taken_back(RETAIN, its_pod(0), &["keep `data-w-0` for ever"])]
#[case::a_scale_in_was_taken_back_and_it_goes_with_the_node_set(DELETE, its_pod(0), &["let `data-w-0` go with the NodeSet"])]
#[case::somebody_elses(DELETE, Keeper::Other("Deployment `d`".into()), &[])]
#[case::of_a_node_set_that_is_gone(DELETE, Keeper::Former, &[])]
fn a_claim_has_the_owner_that_the_policy_says(
    #[case] when_deleted: Retention,
    #[case] keeper: Keeper,
    #[case] actions: &[&str],
    #[values(RETAIN, DELETE)] when_scaled: Retention,
) {
    let workers = [worker(0, Stage::Ready, idle())];
    let plan = plan_with(&workers, 1, &[claim(0, keeper)], when_deleted, when_scaled);
    assert_eq!(deeds(&plan), actions);
}

#[test]
fn claims_of_workers_that_left_follow_the_policy_too() {
    let plan = plan_with(&[], 0, &[claim(7, Keeper::Unowned)], DELETE, RETAIN);
    assert_eq!(deeds(&plan), ["let `data-w-7` go with the NodeSet"]);
}

#[rstest]
#[case::kept(RETAIN, RETAIN, Keeper::Unowned, &["delete pod `w-1`"])]
#[case::kept_until_the_node_set_goes(DELETE, RETAIN, Keeper::NodeSet, &["delete pod `w-1`"])]
#[case::goes(RETAIN, DELETE, Keeper::Unowned, &["let `data-w-1` go with pod `w-1`", "delete pod `w-1`"])]
#[case::goes_before_the_node_set(DELETE, DELETE, Keeper::NodeSet, &["let `data-w-1` go with pod `w-1`", "delete pod `w-1`"])]
#[case::was_handed_over_before_a_crash(RETAIN, DELETE, its_pod(1), &["delete pod `w-1`"])]
#[case::somebody_elses(RETAIN, DELETE, Keeper::Other("Job `j`".into()), &["delete pod `w-1`"])]
fn a_worker_that_leaves_takes_its_claim_along_where_the_user_wants_that(
    #[case] when_deleted: Retention,
    #[case] when_scaled: Retention,
    #[case] keeper: Keeper,
    #[case] actions: &[&str],
) {
    let workers = [worker(0, Stage::Ready, idle()), worker(1, Stage::Ready, drained())];
    let plan = plan_with(&workers, 1, &[claim(1, keeper)], when_deleted, when_scaled);
    assert_eq!(deeds(&plan), actions);
}

#[rstest]
#[case::busy(worker(1, Stage::Ready, busy()))]
#[case::still_takes_jobs(worker(1, Stage::Ready, idle()))]
#[case::unknown(worker(1, Stage::Ready, unknown()))]
#[case::deleted_by_somebody_else(worker(1, Stage::Going, idle()))]
fn nothing_happens_to_the_claim_of_a_worker_that_only_may_leave(#[case] last: Worker) {
    let workers = [Worker { deletion_cost: 1, ..worker(0, Stage::Ready, idle()) }, last];
    for keeper in [Keeper::Unowned, Keeper::NodeSet] {
        let policy = if keeper == Keeper::NodeSet { DELETE } else { RETAIN };
        let plan = plan_with(&workers, 1, &[claim(1, keeper)], policy, DELETE);
        assert!(!deeds(&plan).iter().any(|words| words.contains("data")), "{:?}", deeds(&plan));
    }
}

#[rstest]
#[case::cordoned(Worker { is_cordoned: true, ..worker(0, Stage::Ready, drained()) }, 1)]
#[case::ended(worker(0, Stage::Ended, idle()), 1)]
#[case::deleted_by_somebody(worker(0, Stage::Going, drained()), 1)]
fn a_worker_that_is_replaced_keeps_its_claim(#[case] worker: Worker, #[case] replicas: usize) {
    let plan = plan_with(&[worker], replicas, &[claim(0, Keeper::NodeSet)], DELETE, DELETE);
    assert!(!deeds(&plan).iter().any(|words| words.contains("data")), "{:?}", deeds(&plan));
}

#[test]
fn a_worker_that_ended_and_is_too_many_takes_its_claim_along() {
    let workers = [worker(0, Stage::Ready, idle()), worker(1, Stage::Ended, idle())];
    let plan = plan_with(&workers, 1, &[claim(0, Keeper::Unowned), claim(1, Keeper::Unowned)], RETAIN, DELETE);
    assert_eq!(deeds(&plan), ["let `data-w-1` go with pod `w-1`", "delete pod `w-1`"]);
}

#[test]
fn of_two_workers_with_one_ordinal_only_the_one_that_leaves_takes_its_claim_along() {
    let padded = Worker { name: "w-001".into(), uid: "uid-001".into(), node: "w-001".into(), ..worker(1, Stage::Ended, drained()) };
    let workers = [padded, Worker { deletion_cost: 5, ..worker(1, Stage::Ended, drained()) }];
    let claims = [claim(1, Keeper::Unowned), Claim { pod: "w-001".into(), name: "data-w-001".into(), ..claim(1, Keeper::Unowned) }];
    let plan = plan_with(&workers, 1, &claims, RETAIN, DELETE);
    // Both ended, so both are deleted; one of them is recreated and needs its data.
    let handed: Vec<_> = deeds(&plan).into_iter().filter(|words| words.contains("data")).collect();
    assert_eq!(handed, ["let `data-w-001` go with pod `w-001`"]);
}

#[rstest]
#[case::being_deleted(Claim { is_going: true, ..claim(0, Keeper::Unowned) })]
#[case::its_worker_is_gone(claim(0, its_pod(9)))]
#[case::its_node_set_is_gone(claim(0, Keeper::Former))]
fn no_worker_is_made_on_a_claim_that_is_about_to_go(#[case] going: Claim) {
    let plan = plan_with(&[], 2, &[going], RETAIN, RETAIN);
    assert_eq!(deeds(&plan), ["create pod `w-1`"]);
    assert_eq!(plan.report.message(), "pod `w-0` waits until claim `data-w-0`, which is being deleted, is gone");
}

#[test]
fn a_claim_that_is_there_is_used_as_it_is() {
    for keeper in [Keeper::Unowned, Keeper::Other("Deployment `d`".into())] {
        assert_eq!(deeds(&plan_with(&[], 1, &[claim(0, keeper)], RETAIN, RETAIN)), ["create pod `w-0`"]);
    }
}

#[rstest]
#[case::nowhere_to_run_without_it(Some("claim not found"), &[], &["restore the claims of pod `w-0`"])]
#[case::nowhere_to_run_for_another_reason(Some("no room"), &[claim(0, Keeper::Unowned)], &[])]
#[case::on_its_way(None, &[], &[])]
fn a_claim_that_vanished_under_a_waiting_pod_is_made_anew(
    #[case] trouble: Option<&str>,
    #[case] claims: &[Claim],
    #[case] actions: &[&str],
) {
    let workers = [Worker { trouble: trouble.map(str::to_owned), ..worker(0, Stage::Starting, unknown()) }];
    let templates = ["data".to_owned()];
    assert_eq!(
        deeds(&nodeset(observed(&workers, 1).with(|it| {
            it.kubernetes.claims = claims;
            it.policy.claim_templates = &templates;
        }))),
        actions
    );
}

#[test]
fn owners_change_a_bounded_number_at_a_time() {
    let claims: Vec<_> = (0..1000).map(|ordinal| claim(ordinal, Keeper::Unowned)).collect();
    let plan = plan_with(&[], 0, &claims, DELETE, RETAIN);
    assert_eq!((plan.actions.len(), plan.wake_after), (MAX_CHANGES, Some(NEXT_CHANGES)));
}

#[test]
fn what_is_not_deleted_after_all_keeps_its_claims() {
    let workers = [worker(0, Stage::Ready, drained()), worker(1, Stage::Ready, drained())];
    let mut actions = plan_with(&workers, 0, &[claim(0, Keeper::Unowned), claim(1, Keeper::Unowned)], RETAIN, DELETE).actions;
    actions.retain(|action| !matches!(action, Action::DeleteWorker { uid, .. } if uid == "uid-0"));
    without_idle_handovers(&mut actions);
    let words: Vec<_> = actions.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["let `data-w-1` go with pod `w-1`", "delete pod `w-1`"]);
}

fn keeper() -> impl Strategy<Value = Keeper> {
    let others = [Keeper::Unowned, Keeper::NodeSet, Keeper::Former, Keeper::Other("x".into()), its_pod(0), its_pod(1), its_pod(99)];
    prop::sample::select(others.to_vec())
}

fn retention() -> impl Strategy<Value = Retention> {
    prop::sample::select(vec![RETAIN, DELETE])
}

fn fleet() -> impl Strategy<Value = Vec<Worker>> {
    let stage = prop::sample::select(vec![Stage::Starting, Stage::Ready, Stage::Ended, Stage::Going]);
    let in_slurm = prop::sample::select(vec![unknown(), idle(), busy(), drained()]);
    let one = (stage, in_slurm, any::<bool>());
    prop::collection::btree_map(0..6_u32, one, 0..6).prop_map(|fleet: BTreeMap<u32, (Stage, InSlurm, bool)>| {
        let worker = |(ordinal, (stage, in_slurm, is_cordoned))| Worker { is_cordoned, ..worker(ordinal, stage, in_slurm) };
        fleet.into_iter().map(worker).collect()
    })
}

proptest! {
    #[test]
    fn only_a_pod_that_is_deleted_next_and_is_too_many_gets_claims(
        fleet in fleet(),
        keepers in prop::collection::vec(keeper(), 6),
        replicas in 0..6_usize,
        when_deleted in retention(),
        when_scaled in retention(),
    ) {
        let claims: Vec<_> = (0..).zip(keepers).map(|(ordinal, keeper)| claim(ordinal, keeper)).collect();
        let actions = plan_with(&fleet, replicas, &claims, when_deleted, when_scaled).actions;
        for (index, action) in actions.iter().enumerate() {
            if let Action::HandOver { name, uid, claims: handed } = action {
                prop_assert_eq!(when_scaled, DELETE);
                prop_assert!(fleet.len() > replicas);
                prop_assert_eq!(&actions[index + 1], &Action::delete_worker(name, uid));
                for id in handed {
                    let claim = claims.iter().find(|claim| claim.uid == id.uid).unwrap();
                    prop_assert_eq!(&claim.pod, name);
                    prop_assert!(matches!(claim.keeper, Keeper::Unowned | Keeper::NodeSet));
                }
            }
        }
    }

    #[test]
    fn what_was_done_to_claims_is_not_done_again(
        fleet in fleet(),
        keepers in prop::collection::vec(keeper(), 6),
        replicas in 0..6_usize,
        when_deleted in retention(),
        when_scaled in retention(),
    ) {
        let mut claims: Vec<_> = (0..).zip(keepers).map(|(ordinal, keeper)| claim(ordinal, keeper)).collect();
        for action in plan_with(&fleet, replicas, &claims, when_deleted, when_scaled).actions {
            let mut give = |id: &ClaimId, keeper: Keeper| claims.iter_mut().find(|claim| claim.uid == id.uid).unwrap().keeper = keeper;
            match action {
                Action::HandOver { uid, claims, .. } => claims.iter().for_each(|id| give(id, Keeper::Pod(uid.clone()))),
                Action::KeepClaim { claim, with_nodeset, .. } => give(&claim, if with_nodeset { Keeper::NodeSet } else { Keeper::Unowned }),
                _ => {}
            }
        }
        let again = plan_with(&fleet, replicas, &claims, when_deleted, when_scaled).actions;
        let is_about_claims = |action: &Action| matches!(action, Action::HandOver { .. } | Action::KeepClaim { .. });
        prop_assert_eq!(again.into_iter().find(is_about_claims), None);
    }
}
