//! Reconciles a Controller.

mod configuration;
mod monitor;
mod pods;
mod references;
mod trouble;

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use slipway_api::{
    SlurmController,
    child::{Child, ChildKey, ChildKind},
    condition::{CONFIGURATION_APPLIED, ConditionStatus, Reason},
    name,
};
use slipway_plan::{
    Action, Wait, controller as plan,
    finding::{Finding, Kind, Weight, refusal},
    missing,
};
use slipway_render::controller as render;
use slipway_runtime::{
    events,
    failure::Failure,
    queue::{Next, Reconcile},
};

use crate::world::{act::act, context::Context, error::Error, obstacle::report_obstacle, status};

use self::{configuration::Judged, monitor::keep_monitor, references::Found};

/// Secrets and the user's ConfigMaps are not watched, so they are read periodically, more often while one is missing.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
const LOOK_SOON: Duration = Duration::from_secs(3);

/// Reconciles Controllers.
pub(crate) struct Controllers(pub(crate) Arc<Context>);

impl Reconcile<SlurmController> for Controllers {
    type Error = Error;

    async fn pass(&self, controller: Arc<SlurmController>) -> Result<Next, Error> {
        let context = self.0.as_ref();
        if controller.metadata.deletion_timestamp.is_some() {
            return Ok(Next::OnChange); // its children are deleted with it
        }
        let (namespace, name) = (controller.namespace().unwrap_or_default(), controller.name_any());
        let Found { references, mut findings } = references::observe(&controller, &namespace, &name, context).await?;
        status::note_findings(controller.as_ref(), &findings, context);
        if report_obstacle(controller.as_ref(), Kind::Controller, &findings, context).await? {
            return Ok(Next::After(LOOK_AGAIN));
        }
        let references = match refusal(&findings) {
            Some(refusal) => Err(Wait::new(Reason::InvalidSpec, refusal.words.clone())),
            None => references,
        };
        let seen = context.seen(children(&controller, &namespace, &name));
        let pods = pods::observe(&namespace, &name, context);
        let trouble = trouble::observe(&controller, &namespace, context).await?;

        let (services, references) = match render::services(&controller) {
            Ok(services) => (services, references),
            Err(invalid) => (Vec::new(), references.and_then(|_| Err(missing::invalid(&invalid)))),
        };
        let published = context.stores.child(&config_key(&namespace, &name)).map(|live| render::Configuration::of_config_map(&live));
        let judged = references
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|found| configuration::judge(&controller, found, published.as_ref(), context));
        let candidate = match judged {
            Ok(Judged { candidate, doubts }) => {
                findings.extend(doubts);
                Ok(candidate)
            }
            Err(wait) => Err(wait),
        };
        let workload = |hash: &str| -> Result<Child, Wait> {
            let found = references.as_ref().map_err(Clone::clone)?;
            render::statefulset(&controller, found, hash).map_err(|invalid| missing::invalid(&invalid))
        };
        let hash = published.as_ref().map(render::Configuration::hash);
        let proof = pods::proof(&namespace, &name, hash.as_deref(), context);
        let mut plan = plan::controller(plan::Observed {
            services,
            surplus: surplus(&controller, &namespace, &name, context),
            candidate,
            published: hash.clone(),
            published_at: pods::published_at(&namespace, &name, hash.as_deref(), context),
            workload: (!controller.spec.external).then_some(&workload),
            in_place: controller.spec.inplace_reconfigure,
            pods: &pods,
            active_controller: pods::active_controller(&controller, &pods, context),
            proof: &proof,
            was_proven: was_proven(&controller),
            seen: &seen,
            trouble,
            created: controller.metadata.creation_timestamp.as_ref().map(|time| time.0),
            now: context.clock.now(),
        });

        act(&plan.actions, context).await?;
        let note = keep_monitor(&controller, slipway_render::monitor::monitor(&controller), context).await?;
        findings.extend(note.map(|words| Finding { weight: Weight::Warning, words }));
        plan.report.findings = findings;
        for action in &plan.actions {
            tell(controller.as_ref(), action, context);
            pods::follow_up(&namespace, &name, hash.as_deref().unwrap_or_default(), action, context);
        }
        // Everything is published and up; only Slurm's confirmation is missing.
        if plan.report.is_ready()
            && plan.report.condition_updates.iter().any(|condition_update| condition_update.reason == Reason::ConfigurationPending)
        {
            context.clusters.read_configuration_soon(&namespace, &name);
        }
        status::report(controller.as_ref(), &plan.report, |_| {}, context).await?;
        let look = if is_for_others_to_mend(plan.report.reason()) { LOOK_SOON } else { LOOK_AGAIN };
        Ok(Next::After(plan.wake_after.map_or(look, |wake| wake.min(look))))
    }

    async fn report_failure(&self, controller: Arc<SlurmController>, failure: &Failure<Error>) {
        status::report_failure(controller.as_ref(), failure, &self.0).await;
    }
}

/// True if an object that is not watched may be the cause: its user fixes it and waits for the effect.
fn is_for_others_to_mend(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::SecretMissing | Reason::ConfigMapMissing | Reason::ClaimUnfit | Reason::InvalidSpec | Reason::ConfigurationRefused
    )
}

/// Sends events about actions that concern users; the log has the rest.
fn tell(controller: &SlurmController, action: &Action, context: &Context) {
    match action {
        Action::Apply(child) if child.key.kind == ChildKind::ConfigMap => {
            context.say(controller, events::Kind::Normal, "ConfigurationPublished", "Update", "a new configuration is published");
        }
        Action::DeletePod { pod, why, .. } => {
            let message = format!("pod `{}` is deleted and recreated: {why}", pod.name);
            context.say(controller, events::Kind::Warning, "PodReplaced", "Delete", &message);
        }
        Action::Reconfigure { why, .. } => context.say(controller, events::Kind::Normal, "Reconfigured", "Update", why),
        _ => {}
    }
}

/// True if the Controller's status reports that its configuration runs everywhere.
fn was_proven(controller: &SlurmController) -> bool {
    let mut conditions = controller.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == CONFIGURATION_APPLIED && condition.status == ConditionStatus::True.as_str())
}

fn config_key(namespace: &str, name: &str) -> ChildKey {
    ChildKey::new(ChildKind::ConfigMap, namespace, &name::controller_config(name))
}

fn children(controller: &SlurmController, namespace: &str, name: &str) -> Vec<ChildKey> {
    let service = |service: &str| ChildKey::new(ChildKind::Service, namespace, service);
    let mut keys = vec![
        service(&name::controller_headless_service(name)),
        service(&name::controller_service(name)),
        config_key(namespace, name),
        ChildKey::new(ChildKind::StatefulSet, namespace, &name::controller_workload(name)),
    ];
    keys.extend((0..render::replicas(controller)).map(|index| service(&name::controller_pod(name, index))));
    keys
}

/// Per-pod Services that are no longer needed, as there are fewer slurmctld.
fn surplus(controller: &SlurmController, namespace: &str, name: &str, context: &Context) -> Vec<(ChildKey, String)> {
    let pods = render::replicas(controller);
    let wanted = if pods > 1 { pods } else { 0 };
    let named = |service: &str| service.strip_prefix(&format!("{}-", name::controller_workload(name)))?.parse::<i32>().ok();
    let owned = context.stores.owned(ChildKind::Service, namespace, &controller.uid().unwrap_or_default());
    let of_pods = owned.into_iter().filter(|(service, _)| named(service).is_some_and(|index| index >= wanted));
    of_pods.map(|(service, uid)| (ChildKey::new(ChildKind::Service, namespace, &service), uid)).collect()
}
