use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::{Action, drift::Seen, unmet};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap()
}

fn child(kind: ChildKind) -> Child {
    Child::new(kind, "n", "x", json!({"spec": {"replicas": 1}}))
}

fn observed(seen: &SeenChildren) -> Observed<'_> {
    Observed {
        services: vec![child(ChildKind::Service)],
        workload: Ok(vec![child(ChildKind::ConfigMap), child(ChildKind::StatefulSet)]),
        seen,
        trouble: None,
        dropped_partitions: vec![],
        dropped_partitions_have_jobs: Answer::Unknown("nobody asked".into()),
        created: Some(at(0)),
        now: at(60_000),
    }
}

fn live(child: &Child, ready: i64) -> Seen {
    let mut body = child.body.clone();
    body["metadata"]["generation"] = 1.into();
    body["status"] = json!({"observedGeneration": 1, "updatedReplicas": ready, "readyReplicas": ready});
    Seen { live: Some(Arc::new(body)), accepted: None }
}

fn everything(ready: i64) -> SeenChildren {
    [ChildKind::Service, ChildKind::ConfigMap, ChildKind::StatefulSet]
        .into_iter()
        .map(|kind| (child(kind).key, live(&child(kind), ready)))
        .collect()
}

fn kinds(plan: &Plan) -> Vec<ChildKind> {
    plan.actions
        .iter()
        .map(|action| match action {
            Action::Apply(child) => child.key.kind,
            other => panic!("{other}"),
        })
        .collect()
}

#[test]
fn a_new_controller_gets_everything() {
    let plan = controller(observed(&SeenChildren::new()));
    assert_eq!(kinds(&plan), [ChildKind::Service, ChildKind::ConfigMap, ChildKind::StatefulSet]);
    assert_eq!(plan.report.reason(), Reason::Progressing);
}

#[test]
fn nothing_is_done_when_all_is_there() {
    let seen = everything(1);
    let plan = controller(observed(&seen));
    assert_eq!(plan.actions, []);
    assert!(plan.report.is_ready());
    assert_eq!(plan.report.message(), "slurmctld is up");
}

#[test]
fn pods_that_are_not_ready_are_counted() {
    let seen = everything(0);
    let plan = controller(observed(&seen));
    assert_eq!((plan.report.reason(), plan.report.message().as_str()), (Reason::PodsNotReady, "slurmctld: 0 of 1 pods are ready"));
    let troubled = controller(Observed { trouble: Some("pod `x-0`: no node".into()), ..observed(&seen) });
    assert_eq!(troubled.report.message(), "slurmctld: 0 of 1 pods are ready: pod `x-0`: no node");
}

#[test]
fn a_missing_secret_holds_back_the_workload_and_touches_nothing_else() {
    let seen = SeenChildren::new();
    let plan = controller(Observed { workload: Err(unmet::no_secret("n", "keys", "spec.slurmKeyRef")), ..observed(&seen) });
    assert_eq!(kinds(&plan), [ChildKind::Service]);
    assert_eq!(plan.report.reason(), Reason::SecretMissing);
    assert_eq!(plan.report.message(), "Secret `n/keys` does not exist: create it or point spec.slurmKeyRef elsewhere");
}

#[test]
fn a_newborn_waits_for_its_node_sets_once() {
    let seen = SeenChildren::new();
    let newborn = controller(Observed { now: at(400), ..observed(&seen) });
    assert_eq!(kinds(&newborn), [ChildKind::Service]);
    assert_eq!(newborn.wake_after, Some(Duration::from_millis(1100)));
    let with_wrong_clock = controller(Observed { now: at(-5_000), ..observed(&seen) });
    assert_eq!(kinds(&with_wrong_clock).len(), 3);
    let started = everything(1);
    let edited_at_once = controller(Observed { now: at(400), ..observed(&started) });
    assert!(edited_at_once.report.is_ready());
}

#[test]
fn a_partition_is_dropped_only_when_no_job_would_end() {
    let seen = SeenChildren::new();
    let drop =
        |jobs| controller(Observed { dropped_partitions: vec!["gpu".into()], dropped_partitions_have_jobs: jobs, ..observed(&seen) });
    assert_eq!(kinds(&drop(Answer::No)).len(), 3);
    for jobs in [Answer::Yes, Answer::Unknown("Slurm does not answer".into())] {
        let plan = drop(jobs);
        assert_eq!(kinds(&plan), [ChildKind::Service], "slurm.conf stays as it is");
        assert_eq!(plan.report.reason(), Reason::WaitingForSlurm);
        assert!(plan.report.message().contains("drop partition gpu"), "{}", plan.report.message());
    }
}
