//! Plan for a RestApi.

use jiff::Timestamp;
use slipway_api::{
    child::{Child, ChildKind},
    condition::Reason,
};

use crate::{
    Plan, Wait,
    drift::{self, SeenChildren},
    workload::{self, troubled},
};

/// Desired and observed state.
pub struct Observed<'a> {
    /// `None` if it cannot have its name; then the Deployment waits for the same reason.
    pub service: Option<Child>,
    /// The Deployment, or what it waits for.
    pub deployment: Result<Child, Wait>,
    pub seen: &'a SeenChildren,
    /// Problem that keeps a pod from becoming ready, if the kubelet or the scheduler reported one.
    pub trouble: Option<String>,
    pub now: Timestamp,
}

/// Plans for a RestApi. A child that waits for a reference stays as it is.
pub fn restapi(observed: Observed<'_>) -> Plan {
    let Observed { service, deployment, seen, trouble, now } = observed;
    let mut plan = Plan::default();
    drift::plan_children(Vec::from_iter(service), seen, now, &mut plan);
    let mut is_outdated = false;
    match deployment {
        Ok(child) => {
            is_outdated = workload::is_outdated(&child, seen, now);
            drift::plan_children(vec![child], seen, now, &mut plan);
        }
        Err(wait) => plan.report.waits.push(wait),
    }
    let live = seen.iter().find(|(key, _)| key.kind == ChildKind::Deployment).and_then(|(_, seen)| seen.live.as_deref());
    match live {
        Some(live) => {
            if let Some(progress) = workload::progress(live, is_outdated) {
                plan.report.wait(Reason::PodsNotReady, format!("slurmrestd: {progress}{}", troubled(trouble)));
            }
        }
        None if plan.report.is_ready() => plan.report.wait(Reason::Progressing, "slurmrestd is being started"),
        None => {}
    }
    let has_none = live.is_some_and(|live| live["spec"]["replicas"] == 0);
    plan.report.summary.push_str(if has_none { "no slurmrestd runs, as spec.replicas is 0" } else { "slurmrestd is up" });
    plan
}

/// Wait for an auth/slurm key. A Controller with an external slurmctld may omit it; slurmrestd needs it.
pub fn no_slurm_key(namespace: &str, controller: &str) -> Wait {
    let why = format!(
        "Controller `{namespace}/{controller}` names no auth/slurm key, and slurmctld listens to no slurmrestd without it: \
         recreate the Controller with a spec.slurmKeyRef that names a copy of the key, as it cannot be added later"
    );
    Wait::new(Reason::SecretMissing, why)
}

/// Wait for the Controller's configuration to be restored: nothing restarts for an edit that is about to be undone.
pub fn edited_configuration(namespace: &str, controller: &str) -> Wait {
    let why = format!(
        "the configuration of Controller `{namespace}/{controller}` was edited in its ConfigMap and is being put back: \
         if this stays, the Ready condition of the Controller says why; change the Controller instead"
    );
    Wait::new(Reason::ControllerNotReady, why)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{drift::Seen, missing};

    fn child(kind: ChildKind) -> Child {
        Child::new(kind, "n", "x-restapi", json!({"spec": {"replicas": 2}}))
    }

    fn seen(ready: i64) -> SeenChildren {
        let live = |kind| {
            let mut body = child(kind).body;
            body["metadata"]["generation"] = 3.into();
            body["status"] = json!({"observedGeneration": 3, "updatedReplicas": 2, "readyReplicas": ready});
            (child(kind).key, Seen { live: Some(Arc::new(body)), accepted: None })
        };
        [live(ChildKind::Service), live(ChildKind::Deployment)].into()
    }

    fn plan(seen: &SeenChildren, deployment: Result<Child, Wait>) -> Plan {
        restapi(Observed { service: Some(child(ChildKind::Service)), deployment, seen, trouble: None, now: Timestamp::UNIX_EPOCH })
    }

    #[test]
    fn service_and_deployment_are_made_and_then_left_alone() {
        let first = plan(&SeenChildren::new(), Ok(child(ChildKind::Deployment)));
        assert_eq!(first.actions.len(), 2);
        let settled = plan(&seen(2), Ok(child(ChildKind::Deployment)));
        assert_eq!(settled.actions, []);
        assert!(settled.report.is_ready());
    }

    #[test]
    fn none_at_all_is_told_as_such() {
        let mut seen = seen(0);
        for seen in seen.values_mut() {
            let mut none = seen.live.as_deref().unwrap().clone();
            none["spec"]["replicas"] = 0.into();
            none["status"]["updatedReplicas"] = 0.into();
            seen.live = Some(Arc::new(none));
        }
        let mut none = child(ChildKind::Deployment);
        none.body["spec"]["replicas"] = 0.into();
        let report = plan(&seen, Ok(none)).report;
        assert!(report.is_ready() && report.message().contains("spec.replicas is 0"), "{report:?}");
    }

    #[test]
    fn readiness_counts_pods() {
        let report = plan(&seen(1), Ok(child(ChildKind::Deployment))).report;
        assert_eq!((report.reason(), report.message().as_str()), (Reason::PodsNotReady, "slurmrestd: 1 of 2 pods are ready"));
    }

    #[test]
    fn a_changed_deployment_is_not_ready_by_its_old_pods() {
        let mut changed = child(ChildKind::Deployment);
        changed.body["spec"]["template"]["spec"]["priorityClassName"] = "high".into();
        let plan = plan(&seen(2), Ok(changed));
        assert_eq!(plan.actions.len(), 1);
        assert_eq!(plan.report.message(), "slurmrestd: its new spec is being rolled out");
    }

    #[test]
    fn without_a_controller_a_running_deployment_stays_as_it_is() {
        let plan = plan(&seen(2), Err(missing::no_controller("n", "gone")));
        assert_eq!(plan.actions, []);
        assert_eq!(plan.report.reason(), Reason::ControllerMissing);
    }
}
