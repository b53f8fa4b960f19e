//! State of slurmctld's pods, and of the configuration that Slurm runs with.

use jiff::Timestamp;
use kube::ResourceExt;
use slipway_api::{
    SlurmController, annotation,
    child::ChildKind,
    label::{self, Component},
};
use slipway_plan::{
    Action, PodId,
    active_controller::ActiveController,
    controller::{ControllerPod, Proof},
    gate::Answer,
};
use slipway_render::controller::{Configuration, replicas};
use slipway_runtime::view::PodView;
use slipway_slurm::hostlist::HostSet;
use tokio::time::Instant;

use crate::{
    slurm::{SlurmCommand, partitions_have_jobs, registered_nodes, workers_behind},
    world::context::Context,
};

/// The pods of slurmctld, sorted by name.
pub(super) fn observe(namespace: &str, name: &str, context: &Context) -> Vec<ControllerPod> {
    let mut pods: Vec<_> = context.stores.pods_of(namespace, Component::Controller, name).iter().map(|pod| view(pod, context)).collect();
    pods.sort_by(|a, b| a.id.name.cmp(&b.id.name));
    pods
}

fn view(pod: &PodView, context: &Context) -> ControllerPod {
    let now = context.clock.now();
    let uid = pod.uid().unwrap_or_default();
    let mut annotations = pod.annotations().clone();
    let mut labels = pod.labels().clone();
    // Writes of ours that the cache does not show yet.
    if let Some(marks) = context.memory.marked.unseen(&uid, pod.resource_version().as_deref(), now) {
        marks.put_on(&mut labels, &mut annotations);
    }
    let since = annotations.get(annotation::CONFIG_SINCE).and_then(|text| text.parse::<Timestamp>().ok());
    let created = pod.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    ControllerPod {
        id: PodId { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any(), uid },
        is_ready: pod.is_ready(),
        is_going: pod.is_going(),
        age: now.duration_since(created).unsigned_abs(),
        revision: labels.get(label::REVISION).cloned().unwrap_or_default(),
        told: annotations.get(annotation::CONFIG_HASH).cloned().zip(since),
        is_active: labels.get(label::CONTROLLER_ACTIVE).is_some_and(|active| active == "true"),
    }
}

/// The active one of several slurmctld.
pub(super) fn active_controller(controller: &SlurmController, pods: &[ControllerPod], context: &Context) -> ActiveController {
    if controller.spec.external || replicas(controller) < 2 {
        return ActiveController::default();
    }
    let roles = context.active_controllers.roles(&controller.namespace().unwrap_or_default(), &controller.name_any());
    slipway_plan::active_controller::choose_active(&roles, pods, context.clock.now())
}

/// Evidence of which daemons run which configuration.
pub(super) fn proof(namespace: &str, name: &str, hash: Option<&str>, context: &Context) -> Proof {
    let snapshot = context.clusters.snapshot(namespace, name);
    let known = context.clusters.configured_at(namespace, name).and_then(|read_at| {
        let (workers, behind) = workers_behind(snapshot.as_deref(), read_at, Instant::now())?;
        Ok((read_at, workers, behind))
    });
    let (key, hash) = (key(namespace, name), hash.unwrap_or_default());
    let (repeats, nudges) = (context.memory.repeats.of(&key, hash), context.memory.nudges.of(&key, hash));
    let (read_at, workers, behind) = match known {
        Ok((read_at, workers, behind)) => (Ok(read_at), workers, behind),
        Err(why) => (Err(why), 0, Vec::new()),
    };
    Proof {
        read_at,
        workers,
        behind,
        nudges: nudges.map_or(0, |nudges| nudges.count),
        repeats: repeats.as_ref().map_or(0, |repeats| repeats.count),
        repeated_at: repeats.map(|repeats| repeats.last),
    }
}

/// Answers if jobs name any of these partitions.
pub(super) fn have_jobs(namespace: &str, name: &str, partitions: &[String], context: &Context) -> Answer {
    if partitions.is_empty() {
        return Answer::No;
    }
    // A job may have been submitted since the last read.
    context.clusters.read_soon(namespace, name);
    partitions_have_jobs(context.clusters.snapshot(namespace, name).as_deref(), partitions, Instant::now())
}

/// Nodes that registered themselves.
pub(super) fn nodes(namespace: &str, name: &str, context: &Context) -> HostSet {
    registered_nodes(context.clusters.snapshot(namespace, name).as_deref())
}

/// Records what was done about a configuration, and sends a planned reconfigure to Slurm. The configuration is published and checked by now.
pub(super) fn follow_up(namespace: &str, name: &str, hash: &str, action: &Action, context: &Context) {
    let (key, now) = (key(namespace, name), context.clock.now());
    match action {
        Action::Apply(child) if child.key.kind == ChildKind::ConfigMap => {
            let published = Configuration::of_config_map(&child.body).hash();
            context.memory.published.insert(key, (published, now));
        }
        Action::MarkPod { marks, .. } if marks.annotations.contains_key(annotation::CONFIG_TOLD_AGAIN) => {
            context.memory.nudges.count(&key, hash, now);
        }
        Action::Reconfigure { why, .. } if context.clusters.send(namespace, name, SlurmCommand::Reconfigure(why.clone())) => {
            context.memory.repeats.count(&key, hash, now);
        }
        _ => {}
    }
}

/// Time of publication of the current configuration, or `None` if this process did not publish it.
pub(super) fn published_at(namespace: &str, name: &str, hash: Option<&str>, context: &Context) -> Option<Timestamp> {
    let (published, at) = context.memory.published.get(&key(namespace, name))?;
    (Some(published.as_str()) == hash).then_some(at)
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}
