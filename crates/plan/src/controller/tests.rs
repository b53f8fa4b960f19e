use std::sync::Arc;

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{Action, PodId, drift::Seen, gate::Answer, missing};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap()
}

fn child(kind: ChildKind) -> Child {
    Child::new(kind, "n", "x", json!({"spec": {"replicas": 1}}))
}

const WANTED: &str = "wanted";

fn candidate() -> Candidate {
    Candidate {
        child: child(ChildKind::ConfigMap),
        hash: WANTED.into(),
        refusals: vec![],
        stable_for: Duration::from_mins(1),
        differs_for: Duration::from_mins(1),
        dropped_partitions: vec![],
        dropped_partitions_have_jobs: Answer::Unknown("nobody asked".into()),
    }
}

/// A StatefulSet for this configuration.
#[allow(clippy::unnecessary_wraps, reason = "the planner is given a function that can fail")]
fn workload(hash: &str) -> Result<Child, Wait> {
    let annotations = json!({ annotation::SLURM_CONFIG_HASH: hash });
    let body = json!({"spec": {"replicas": 1, "template": {"metadata": {"annotations": annotations}}}});
    Ok(Child::new(ChildKind::StatefulSet, "n", "x", body))
}

fn pod() -> ControllerPod {
    ControllerPod {
        id: PodId { namespace: "n".into(), name: "x-0".into(), uid: "u".into() },
        is_ready: true,
        is_going: false,
        age: Duration::from_mins(10),
        revision: "new".into(),
        told: None,
        is_active: true,
    }
}

fn proof() -> Proof {
    Proof { read_at: Ok(at(0)), workers: 2, behind: vec![], nudges: 0, repeats: 0, repeated_at: None }
}

/// Everything is published and runs.
fn observed<'a>(seen: &'a SeenChildren, pods: &'a [ControllerPod], proof: &'a Proof) -> Observed<'a> {
    Observed {
        services: vec![child(ChildKind::Service)],
        surplus: vec![],
        candidate: Ok(candidate()),
        published: Some(WANTED.into()),
        published_at: None,
        workload: Some(&workload),
        in_place: false,
        pods,
        active_controller: ActiveController::default(),
        proof,
        was_proven: false,
        seen,
        trouble: None,
        created: Some(at(0)),
        now: at(60_000),
    }
}

fn live(child: &Child, ready: i64) -> Seen {
    let mut body = child.body.clone();
    body["metadata"]["generation"] = 1.into();
    body["status"] = json!({"observedGeneration": 1, "updatedReplicas": ready, "readyReplicas": ready, "updateRevision": "new"});
    Seen { live: Some(Arc::new(body)), accepted: None }
}

fn everything(ready: i64) -> SeenChildren {
    let children = [child(ChildKind::Service), child(ChildKind::ConfigMap), workload(WANTED).unwrap()];
    children.into_iter().map(|child| (child.key.clone(), live(&child, ready))).collect()
}

fn kinds(plan: &Plan) -> Vec<ChildKind> {
    let kind = |action: &Action| if let Action::Apply(child) = action { Some(child.key.kind) } else { None };
    plan.actions.iter().filter_map(kind).collect()
}

fn applied(plan: &Plan) -> (ConditionStatus, Reason, String) {
    let condition_update =
        plan.report.condition_updates.iter().find(|condition_update| condition_update.type_ == CONFIGURATION_APPLIED).unwrap();
    (condition_update.status, condition_update.reason, condition_update.message.clone())
}

#[test]
fn a_new_controller_gets_everything() {
    let plan = controller(Observed { published: None, ..observed(&SeenChildren::new(), &[], &proof()) });
    assert_eq!(kinds(&plan), [ChildKind::Service, ChildKind::ConfigMap, ChildKind::StatefulSet]);
    assert_eq!(plan.report.reason(), Reason::Progressing);
    assert_eq!(applied(&plan).0, ConditionStatus::False);
}

#[rstest]
#[case::by_a_new_pod(false)]
#[case::in_place(true)]
fn nothing_is_done_when_all_is_there(#[case] in_place: bool) {
    let told = ControllerPod { told: Some((WANTED.into(), at(-1000))), ..pod() };
    let plan = controller(Observed { in_place, ..observed(&everything(1), &[told], &proof()) });
    assert_eq!(plan.actions, []);
    assert!(plan.report.is_ready());
    assert_eq!(plan.report.message(), "slurmctld is up");
    assert_eq!(applied(&plan), (ConditionStatus::True, Reason::AllReady, "slurmctld and its workers run the configuration".into()));
    assert_eq!(plan.wake_after, None);
}

#[test]
fn pods_that_are_not_ready_are_counted() {
    let (seen, proof) = (everything(0), proof());
    let plan = controller(observed(&seen, &[], &proof));
    assert_eq!((plan.report.reason(), plan.report.message().as_str()), (Reason::PodsNotReady, "slurmctld: 0 of 1 pods are ready"));
    let troubled = controller(Observed { trouble: Some("pod `x-0`: no node".into()), ..observed(&seen, &[], &proof) });
    assert_eq!(troubled.report.message(), "slurmctld: 0 of 1 pods are ready: pod `x-0`: no node");
}

#[test]
fn a_changed_workload_is_not_ready_by_its_old_pods() {
    let changed = |hash: &str| {
        let mut child = workload(hash)?;
        child.body["spec"]["template"]["spec"]["priorityClassName"] = "high".into();
        Ok(child)
    };
    let (seen, proof) = (everything(1), proof());
    let plan = controller(Observed { workload: Some(&changed), was_proven: true, ..observed(&seen, &[pod()], &proof) });
    assert_eq!(kinds(&plan), [ChildKind::StatefulSet]);
    assert_eq!(
        (plan.report.reason(), plan.report.message().as_str()),
        (Reason::PodsNotReady, "slurmctld: its new spec is being rolled out")
    );
    assert_eq!((applied(&plan).0, applied(&plan).1), (ConditionStatus::False, Reason::ConfigurationPending));
}

#[test]
fn a_missing_secret_holds_back_the_workload_and_touches_nothing_else() {
    let missing = || missing::no_secret("n", "keys", "spec.slurmKeyRef");
    let no_workload = |_: &str| Err(missing());
    let plan = controller(Observed {
        candidate: Err(missing()),
        workload: Some(&no_workload),
        published: None,
        ..observed(&SeenChildren::new(), &[], &proof())
    });
    assert_eq!(kinds(&plan), [ChildKind::Service]);
    assert_eq!(plan.report.reason(), Reason::SecretMissing);
    assert_eq!(plan.report.message(), "Secret `n/keys` does not exist: create it or point spec.slurmKeyRef elsewhere");
}

#[test]
fn a_newborn_waits_for_its_node_sets_once() {
    let (seen, proof) = (SeenChildren::new(), proof());
    let newborn = controller(Observed { published: None, now: at(400), ..observed(&seen, &[], &proof) });
    assert_eq!(kinds(&newborn), [ChildKind::Service]);
    assert_eq!(newborn.wake_after, Some(Duration::from_millis(1100)));
    let with_wrong_clock = controller(Observed { published: None, now: at(-5_000), ..observed(&seen, &[], &proof) });
    assert_eq!(kinds(&with_wrong_clock).len(), 3);
    let started = everything(1);
    let edited_at_once = controller(Observed { now: at(400), ..observed(&started, &[], &proof) });
    assert!(edited_at_once.report.is_ready());
}

/// A Controller whose configuration differs from the published one.
fn changed<'a>(candidate: Candidate, seen: &'a SeenChildren, pods: &'a [ControllerPod], proof: &'a Proof) -> Observed<'a> {
    Observed { candidate: Ok(candidate), published: Some("old".into()), ..observed(seen, pods, proof) }
}

fn running_old() -> SeenChildren {
    let children = [child(ChildKind::Service), workload("old").unwrap()];
    children.into_iter().map(|child| (child.key.clone(), live(&child, 1))).collect()
}

#[rstest]
#[case::by_a_new_pod(false, &[ChildKind::ConfigMap, ChildKind::StatefulSet])]
#[case::in_place(true, &[ChildKind::ConfigMap])]
fn a_changed_configuration_is_published_and_makes_a_new_pod_only_where_that_is_wanted(
    #[case] in_place: bool,
    #[case] expected: &[ChildKind],
) {
    let in_place_workload = |_: &str| workload("old");
    let (seen, pods, proof) = (running_old(), [pod()], proof());
    let mut wanted = changed(candidate(), &seen, &pods, &proof);
    wanted.in_place = in_place;
    if in_place {
        wanted.workload = Some(&in_place_workload);
    }
    let plan = controller(wanted);
    assert_eq!(kinds(&plan), expected);
    assert_eq!(applied(&plan).1, Reason::ConfigurationPending);
}

#[test]
fn a_mistake_is_not_published_and_the_rest_goes_on() {
    let new_image = |hash: &str| {
        let mut child = workload(hash)?;
        child.body["spec"]["template"]["spec"] = json!({"image": "new"});
        Ok(child)
    };
    let mistaken = Candidate { refusals: vec!["slurm.conf line 30: bad".into(), "more".into()], ..candidate() };
    let (seen, pods, proof) = (running_old(), [pod()], proof());
    let plan = controller(Observed { workload: Some(&new_image), ..changed(mistaken, &seen, &pods, &proof) });
    assert_eq!(kinds(&plan), [ChildKind::StatefulSet], "the image changes, the configuration does not");
    let Action::Apply(child) = &plan.actions[0] else { panic!() };
    assert_eq!(running_hash(&child.body).as_deref(), Some("old"));
    let words = "the configuration is not published: slurm.conf line 30: bad; and 1 more; the last good configuration stays";
    assert_eq!((plan.report.reason(), plan.report.message().as_str()), (Reason::ConfigurationRefused, words));
    assert_eq!(applied(&plan), (ConditionStatus::False, Reason::ConfigurationRefused, words.into()));
}

#[rstest]
#[case::just_changed(200, 200, Some(800))]
#[case::keeps_changing(200, 4_900, Some(100))]
#[case::changed_for_long_enough(200, 5_000, None)]
#[case::stable(1_000, 1_000, None)]
fn a_burst_of_changes_is_published_once(#[case] stable: u64, #[case] differs: u64, #[case] waits: Option<u64>) {
    let edited = Candidate { stable_for: Duration::from_millis(stable), differs_for: Duration::from_millis(differs), ..candidate() };
    let (seen, pods, proof) = (running_old(), [pod()], proof());
    let plan = controller(changed(edited, &seen, &pods, &proof));
    assert_eq!(plan.wake_after.map(|wake| wake.as_millis()), waits.map(u128::from));
    assert_eq!(kinds(&plan).is_empty(), waits.is_some());
}

#[test]
fn a_change_waits_for_the_replacement_that_is_under_way_unless_that_fails() {
    let seen: SeenChildren = running_old().into_keys().map(|key| (key, live(&workload("old").unwrap(), 0))).collect();
    let (starting, proof) = ([ControllerPod { is_ready: false, age: Duration::from_secs(3), ..pod() }], proof());
    let plan = controller(changed(candidate(), &seen, &starting, &proof));
    assert!(!kinds(&plan).contains(&ChildKind::ConfigMap));
    let troubled = controller(Observed { trouble: Some("it crashes".into()), ..changed(candidate(), &seen, &starting, &proof) });
    assert!(kinds(&troubled).contains(&ChildKind::ConfigMap), "a configuration that ends slurmctld is mended at once");
}

#[test]
fn a_partition_is_dropped_only_when_no_job_would_end() {
    let (seen, pods, proof) = (running_old(), [pod()], proof());
    let drop = |jobs| {
        let candidate = Candidate { dropped_partitions: vec!["gpu".into()], dropped_partitions_have_jobs: jobs, ..candidate() };
        controller(changed(candidate, &seen, &pods, &proof))
    };
    assert_eq!(kinds(&drop(Answer::No)), [ChildKind::ConfigMap, ChildKind::StatefulSet]);
    for jobs in [Answer::Yes, Answer::Unknown("Slurm does not answer".into())] {
        let plan = drop(jobs);
        assert_eq!(kinds(&plan), [], "slurm.conf stays as it is");
        assert_eq!(plan.report.reason(), Reason::WaitingForSlurm);
        assert!(plan.report.message().contains("drop partition gpu"), "{}", plan.report.message());
    }
}

#[test]
fn an_external_slurmctld_has_a_configuration_and_no_pods() {
    let plan = controller(Observed { workload: None, published: None, services: vec![], ..observed(&SeenChildren::new(), &[], &proof()) });
    assert_eq!(kinds(&plan), [ChildKind::ConfigMap]);
    assert!(plan.report.is_ready());
    assert_eq!(plan.report.condition_updates, []);
    let moved = controller(Observed { workload: None, ..observed(&everything(1), &[pod()], &proof()) });
    assert_eq!((moved.actions.as_slice(), moved.report.reason()), (&[][..], Reason::InvalidSpec), "the one inside is left to its user");
}

#[test]
fn a_service_that_no_pod_has_any_more_goes() {
    let surplus = vec![(child(ChildKind::Service).key, "u".to_owned())];
    let plan = controller(Observed { surplus, ..observed(&everything(1), &[pod()], &proof()) });
    assert_eq!(plan.actions, [Action::Remove { key: child(ChildKind::Service).key, uid: "u".into() }]);
}

#[test]
fn a_stranger_s_edit_of_the_published_files_is_undone_and_restarts_nobody() {
    let mut seen = everything(1);
    let edited = Seen { live: Some(Arc::new(json!({"data": {"slurm.conf": "edited"}}))), accepted: None };
    seen.insert(child(ChildKind::ConfigMap).key, edited);
    let plan = controller(Observed { published: Some("edited".into()), ..observed(&seen, &[pod()], &proof()) });
    assert_eq!(kinds(&plan), [ChildKind::ConfigMap]);
}

#[rstest]
#[case::stuck(false, false, 60, "old", true)]
#[case::ready(true, false, 60, "old", false)]
#[case::going(false, true, 60, "old", false)]
#[case::too_young(false, false, 2, "old", false)]
#[case::newest(false, false, 60, "new", false)]
fn a_pod_that_its_stateful_set_would_wait_for_is_deleted(
    #[case] is_ready: bool,
    #[case] is_going: bool,
    #[case] age: u64,
    #[case] revision: &str,
    #[case] is_deleted: bool,
) {
    let pod = ControllerPod { is_ready, is_going, age: Duration::from_secs(age), revision: revision.into(), ..pod() };
    let plan = controller(observed(&everything(0), &[pod], &proof()));
    assert_eq!(plan.actions.iter().any(|action| matches!(action, Action::DeletePod { .. })), is_deleted);
}

#[test]
fn a_pod_is_told_of_the_published_configuration_once() {
    let (seen, proof) = (everything(1), proof());
    let plan = controller(Observed { in_place: true, ..observed(&seen, &[pod()], &proof) });
    let [Action::MarkPod { pod: id, marks }] = plan.actions.as_slice() else { panic!("{:?}", plan.actions) };
    assert_eq!(id.name, "x-0");
    assert_eq!(marks.annotations[annotation::CONFIG_HASH].as_deref(), Some(WANTED));
    assert_eq!(applied(&plan).1, Reason::ConfigurationPending);
    let told = |millis| ControllerPod { told: Some((WANTED.into(), at(millis))), ..pod() };
    let unread = controller(Observed { in_place: true, ..observed(&seen, &[told(50_000)], &proof) });
    assert_eq!((unread.actions.as_slice(), applied(&unread).1), (&[][..], Reason::ConfigurationPending));
    let late = controller(Observed { in_place: true, ..observed(&seen, &[told(40_000)], &proof) });
    let [Action::MarkPod { marks, .. }] = late.actions.as_slice() else { panic!("{:?}", late.actions) };
    assert!(!marks.annotations.contains_key(annotation::CONFIG_SINCE), "told again after a while, of files that are as old as before");
    let often = Proof { nudges: 3, ..proof };
    let never = controller(Observed { in_place: true, ..observed(&seen, &[told(-1_000_000)], &often) });
    assert_eq!(never.actions, [], "but not for ever");
}

#[rstest]
#[case::born_with_it(None, 30, 30_000)]
#[case::published_after_its_birth(Some(50_000), 30, 50_000)]
#[case::published_before_its_birth(Some(10_000), 30, 30_000)]
fn a_pod_that_was_made_after_the_publication_need_not_read_it_twice(
    #[case] published_at: Option<i64>,
    #[case] age: u64,
    #[case] since: i64,
) {
    let (seen, proof) = (everything(1), proof());
    let pods = [ControllerPod { age: Duration::from_secs(age), ..pod() }];
    let plan = controller(Observed { in_place: true, published_at: published_at.map(at), ..observed(&seen, &pods, &proof) });
    let [Action::MarkPod { marks, .. }] = plan.actions.as_slice() else { panic!("{:?}", plan.actions) };
    let expected = at(since).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    assert_eq!(marks.annotations[annotation::CONFIG_SINCE], Some(expected));
}

#[test]
fn not_knowing_is_said() {
    let unknown = Proof { read_at: Err("no RestApi belongs to it".into()), ..proof() };
    let plan = controller(observed(&everything(1), &[pod()], &unknown));
    assert!(plan.report.is_ready());
    assert_eq!((applied(&plan).0, applied(&plan).1), (ConditionStatus::Unknown, Reason::ConfigurationUnverified));
}

#[rstest]
#[case::slurm_cannot_be_asked(Err("it is not up".to_owned()), 1, vec![])]
#[case::slurmctld_is_away(Ok(at(0)), 0, vec![])]
#[case::slurmctld_is_just_back(Ok(at(55_000)), 1, vec![Behind { node: "w-1".into(), answers: true }])]
fn what_was_proven_stays_so_while_there_is_no_news(
    #[case] read_at: Result<Timestamp, String>,
    #[case] ready: i64,
    #[case] behind: Vec<Behind>,
) {
    let (seen, pods) = (everything(ready), [pod()]);
    let proof = Proof { read_at, behind, ..proof() };
    let plan = controller(Observed { was_proven: true, ..observed(&seen, &pods, &proof) });
    assert_eq!(applied(&plan).0, ConditionStatus::True);
    let first = controller(observed(&seen, &pods, &proof));
    assert_ne!(applied(&first).0, ConditionStatus::True, "without a proof before there is none");
}

#[rstest]
#[case::of_the_slurmctld_before(10, false)]
#[case::of_this_one(70, true)]
fn a_reading_of_the_slurmctld_before_proves_nothing(#[case] age: u64, #[case] is_proof: bool) {
    let pods = [ControllerPod { age: Duration::from_secs(age), ..pod() }];
    let plan = controller(observed(&everything(1), &pods, &proof()));
    assert_eq!(applied(&plan).0 == ConditionStatus::True, is_proof);
}

#[test]
fn a_new_pod_in_place_is_no_news_and_a_new_configuration_is() {
    let (seen, proof) = (everything(1), proof());
    let applied_with = |told| {
        let pods = [ControllerPod { told, ..pod() }];
        applied(&controller(Observed { in_place: true, was_proven: true, ..observed(&seen, &pods, &proof) })).0
    };
    assert_eq!(applied_with(None), ConditionStatus::True);
    assert_eq!(applied_with(Some(("old".into(), at(0)))), ConditionStatus::False);
}

#[rstest]
#[case::it_answers(true, 0, None, true)]
#[case::it_is_silent(false, 0, None, false)]
#[case::told_a_moment_ago(true, 1, Some(50_000), false)]
#[case::told_long_ago(true, 1, Some(20_000), true)]
#[case::told_often_enough(true, 3, Some(0), false)]
fn a_worker_that_missed_it_is_told_again_a_few_times(
    #[case] answers: bool,
    #[case] repeats: u32,
    #[case] repeated_at: Option<i64>,
    #[case] is_told: bool,
) {
    let behind = vec![Behind { node: "w-1".into(), answers }];
    let proof = Proof { behind, repeats, repeated_at: repeated_at.map(at), ..proof() };
    let plan = controller(observed(&everything(1), &[pod()], &proof));
    assert_eq!(plan.actions.iter().any(|action| matches!(action, Action::Reconfigure { .. })), is_told);
    assert_eq!((applied(&plan).0, applied(&plan).1), (ConditionStatus::False, Reason::WorkersBehind));
    assert!(applied(&plan).2.contains("1 of 2 workers do not run the newest configuration yet (w-1)"), "{}", applied(&plan).2);
    assert!(plan.report.is_ready());
}
