//! Plan for a Controller.

mod pod;
mod proof;
mod publication;

use std::{fmt::Write, time::Duration};

use jiff::Timestamp;
use serde_json::Value;
use slipway_api::{
    annotation,
    child::{Child, ChildKey, ChildKind},
    condition::{CONFIGURATION_APPLIED, ConditionStatus, ConditionUpdate, Reason},
};

use crate::{
    Action, Plan, Wait,
    active_controller::ActiveController,
    drift::{self, SeenChildren},
    gate::Clearance,
    workload::{self, troubled},
};

pub use crate::{controller_pod::ControllerPod, workload::has_ready_pod};
pub use proof::{Behind, Proof};
pub use publication::Candidate;

use publication::Step;

/// Builds the StatefulSet for a configuration hash, or returns what it waits for.
pub type Workload<'a> = &'a dyn Fn(&str) -> Result<Child, Wait>;

/// Desired and observed state.
pub struct Observed<'a> {
    /// The Services.
    pub services: Vec<Child>,
    /// Our Services that no pod uses any more, with their UIDs.
    pub surplus: Vec<(ChildKey, String)>,
    /// The checked configuration that the spec asks for, or what it waits for.
    pub candidate: Result<Candidate, Wait>,
    /// Hash of the published configuration.
    pub published: Option<String>,
    /// Time of its publication, if this process published it.
    pub published_at: Option<Timestamp>,
    /// Builds the StatefulSet for a configuration hash; absent if slurmctld is external.
    pub workload: Option<Workload<'a>>,
    /// True if slurmctld reads a new configuration in place instead of in a new pod.
    pub in_place: bool,
    pub pods: &'a [ControllerPod],
    /// The active slurmctld, if there are several.
    pub active_controller: ActiveController,
    /// Configuration that slurmctld and the workers run.
    pub proof: &'a Proof,
    /// True if the status already reports that all daemons run the configuration.
    pub was_proven: bool,
    pub seen: &'a SeenChildren,
    /// Problem that keeps a pod from becoming ready, if the kubelet or the scheduler reported one.
    pub trouble: Option<String>,
    pub created: Option<Timestamp>,
    pub now: Timestamp,
}

/// Plans for a Controller.
///
/// A missing reference holds back what depends on it and changes nothing that exists: a Secret deleted by mistake does not restart slurmctld.
pub fn controller(observed: Observed<'_>) -> Plan {
    let Observed {
        services,
        surplus,
        candidate,
        published,
        published_at,
        workload,
        in_place,
        pods,
        active_controller,
        proof,
        was_proven,
        seen,
        trouble,
        created,
        now,
    } = observed;
    let mut plan = Plan::default();
    drift::plan_children(services, seen, now, &mut plan);
    plan.actions.extend(surplus.into_iter().map(|(key, uid)| Action::Remove { key, uid }));

    let statefulset = seen.iter().find(|(key, _)| key.kind == ChildKind::StatefulSet).and_then(|(_, seen)| seen.live.as_deref());
    let mut rollout = Rollout { statefulset, is_outdated: false, pods, is_troubled: trouble.is_some() };
    let is_replacing = workload.is_some() && !in_place && rollout.is_young();
    let step = publication::step(candidate, published.as_deref(), is_replacing, created, now);
    // Without a new publication, slurmctld keeps the configuration it runs with. The published files may hold someone else's edit.
    let running = statefulset.and_then(running_hash).or_else(|| published.clone());
    let hash = match step {
        Step::Publish { child, hash, clearance } => {
            publish(*child, clearance, seen, now, &mut plan);
            Some(hash)
        }
        Step::Hold(wait, wake) => {
            plan.report.waits.push(wait);
            if let Some(wake) = wake {
                plan.wake_within(wake);
            }
            running
        }
    };
    let is_refused = plan.report.waits.first().is_some_and(|wait| wait.reason == Reason::ConfigurationRefused);
    let Some(workload) = workload else {
        if statefulset.is_some() {
            // Two slurmctld for one cluster lose jobs, and the operator cannot know which one has the valid state.
            let why = "spec.external is true, and the slurmctld that was started here before still runs: \
                       delete its StatefulSet once the one outside has taken over its state";
            plan.report.wait(Reason::InvalidSpec, why);
        }
        plan.report.summary.push_str("the configuration for a slurmctld outside this Kubernetes is published");
        return plan;
    };

    if let Some(hash) = &hash {
        match workload(hash) {
            Ok(child) => {
                rollout.is_outdated = workload::is_outdated(&child, seen, now);
                drift::plan_children(vec![child], seen, now, &mut plan);
            }
            // The first wait usually has the same cause: a reference that both need.
            Err(wait) if plan.report.is_ready() => plan.report.waits.push(wait),
            Err(_) => {}
        }
    }
    plan.actions.extend(pod::replace_stuck(&rollout));
    plan.actions.extend(active_controller.actions);
    if let Some(wake) = active_controller.wake_after {
        plan.wake_within(wake);
    }
    match statefulset {
        Some(live) => {
            if let Some(progress) = workload::progress(live, rollout.is_outdated) {
                plan.report.wait(Reason::PodsNotReady, format!("slurmctld: {progress}{}", troubled(trouble)));
            }
        }
        None if plan.report.is_ready() => plan.report.wait(Reason::Progressing, "slurmctld is being started"),
        None => {}
    }
    plan.report.waits.extend(active_controller.wait);
    plan.report.summary.push_str("slurmctld is up");
    if !active_controller.active.is_empty() {
        let _ = write!(plan.report.summary, ", `{}` is active", active_controller.active);
    }

    let condition_update = match &hash {
        Some(hash) if !is_refused && published.as_ref() == Some(hash) => {
            let current = proof::Current { hash, published_at, in_place, pods, rollout: rollout.stage(), was_proven };
            proof::judge(proof, &current, now, &mut plan)
        }
        _ => unpublished(&plan),
    };
    plan.report.condition_updates.push(condition_update);
    plan
}

/// Writes the configuration, unless it is published already. That takes a clearance: Slurm kills the jobs of a partition that it lacks.
fn publish(configuration: Child, _: Clearance, seen: &SeenChildren, now: Timestamp, plan: &mut Plan) {
    drift::plan_children(vec![configuration], seen, now, plan);
}

/// The condition while the desired configuration is not published.
fn unpublished(plan: &Plan) -> ConditionUpdate {
    let (reason, message) = match plan.report.waits.first() {
        Some(wait) if wait.reason == Reason::ConfigurationRefused => (wait.reason, wait.why.clone()),
        Some(wait) => (Reason::ConfigurationPending, wait.why.clone()),
        None => (Reason::ConfigurationPending, "the configuration is being published".to_owned()),
    };
    ConditionUpdate { type_: CONFIGURATION_APPLIED, status: ConditionStatus::False, reason, message }
}

/// The configuration hash that slurmctld's pods were created for.
fn running_hash(statefulset: &Value) -> Option<String> {
    let hash = statefulset["spec"]["template"]["metadata"]["annotations"][annotation::SLURM_CONFIG_HASH].as_str()?;
    Some(hash.to_owned())
}

/// Progress of the pods toward their StatefulSet's revision.
struct Rollout<'a> {
    statefulset: Option<&'a Value>,
    /// True if it is about to change, so that its status is about the old pods.
    is_outdated: bool,
    pods: &'a [ControllerPod],
    is_troubled: bool,
}

impl Rollout<'_> {
    /// Stage of the rollout. A pod of the newest revision that is killed keeps its configuration, so it is not `Rolling`.
    fn stage(&self) -> proof::Stage {
        let Some(live) = self.statefulset else { return proof::Stage::Rolling };
        let number = |path: &str| live.pointer(path).and_then(Value::as_i64);
        let newest = live["status"]["updateRevision"].as_str().unwrap_or_default();
        let has_seen_spec = number("/status/observedGeneration") >= number("/metadata/generation");
        match workload::progress(live, self.is_outdated) {
            _ if self.is_outdated || !has_seen_spec || self.pods.iter().any(|pod| pod.revision != newest) => proof::Stage::Rolling,
            Some(_) => proof::Stage::Down,
            None => proof::Stage::Up,
        }
    }

    /// True if a replacement has just started and goes well: another one now would be a needless second restart.
    fn is_young(&self) -> bool {
        const YOUNG: Duration = Duration::from_secs(30);
        let is_on_its_way = self.statefulset.is_some_and(|live| workload::progress(live, self.is_outdated).is_some());
        is_on_its_way && !self.is_troubled && self.pods.iter().any(|pod| pod.is_going || (!pod.is_ready && pod.age < YOUNG))
    }
}

/// Annotates a pod so that the kubelet updates its published files now. `since` is the time from which it could read them.
fn nudge(pod: &ControllerPod, hash: &str, since: Timestamp) -> Action {
    mark(pod, [(annotation::CONFIG_HASH, hash.to_owned()), (annotation::CONFIG_SINCE, written(since))])
}

/// Annotates a pod once more, for a kubelet that synced too early. The time from which it could read the files stays.
fn nudge_again(pod: &ControllerPod, now: Timestamp) -> Action {
    mark(pod, [(annotation::CONFIG_TOLD_AGAIN, written(now))])
}

fn mark<const N: usize>(pod: &ControllerPod, annotations: [(&str, String); N]) -> Action {
    let annotations = annotations.map(|(key, value)| (key.to_owned(), Some(value))).into();
    Action::MarkPod { pod: pod.id.clone(), marks: crate::Marks { annotations, ..crate::Marks::default() } }
}

fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests;
