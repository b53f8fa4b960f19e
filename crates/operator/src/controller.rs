//! The pass over a Controller.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use slipway_api::{
    SlurmController,
    child::{ChildKey, ChildKind},
    condition::Reason,
    image,
    label::Component,
    name,
};
use slipway_plan::{
    Wait, controller as plan,
    finding::{self, Finding, Kind, refusal},
    gate::Answer,
    unmet,
};
use slipway_render::controller as render;
use slipway_runtime::{
    failure::Failure,
    queue::{Next, Reconcile},
};
use slipway_slurm::conf::partitions;

use crate::{
    act::act,
    context::Context,
    error::Error,
    observe::{observe_claim, observe_config_files, observe_key},
    obstacle::report_obstacle,
    status,
};

/// Secrets and the user's ConfigMaps are not watched, so they are looked at from time to time; sooner while one is missing.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
const LOOK_SOON: Duration = Duration::from_secs(3);

/// Brings Controllers to where they should be.
pub(crate) struct Controllers(pub(crate) Arc<Context>);

impl Reconcile<SlurmController> for Controllers {
    type Error = Error;

    async fn pass(&self, controller: Arc<SlurmController>) -> Result<Next, Error> {
        let context = self.0.as_ref();
        if controller.metadata.deletion_timestamp.is_some() {
            return Ok(Next::OnChange); // its children go with it
        }
        let (namespace, name) = (controller.namespace().unwrap_or_default(), controller.name_any());
        let (references, findings) = observe(&controller, &namespace, &name, context).await?;
        status::note_findings(controller.as_ref(), &findings, context);
        if report_obstacle(controller.as_ref(), Kind::Controller, &findings, context).await? {
            return Ok(Next::After(LOOK_AGAIN));
        }
        let references = match refusal(&findings) {
            Some(refusal) => Err(Wait::new(Reason::InvalidSpec, refusal.words.clone())),
            None => references,
        };
        let seen = context.seen(children(&namespace, &name));

        let (services, workload) = match render::services(&controller) {
            Ok(services) => {
                let workload =
                    references.and_then(|found| render::workload(&controller, &found).map_err(|invalid| unmet::invalid(&invalid)));
                (services, workload)
            }
            Err(invalid) => (Vec::new(), Err(unmet::invalid(&invalid))),
        };
        let dropped_partitions = match &workload {
            Ok(wanted) => dropped_partitions(context, &namespace, &name, wanted),
            Err(_) => Vec::new(),
        };
        let mut plan = plan::controller(plan::Observed {
            services,
            workload,
            seen: &seen,
            trouble: context.stores.trouble(&namespace, Component::Controller, &name),
            dropped_partitions,
            dropped_partitions_have_jobs: Answer::Unknown(format!(
                "the operator cannot ask Slurm yet; to go ahead, delete ConfigMap `{namespace}/{}`",
                name::controller_config(&name)
            )),
            created: controller.metadata.creation_timestamp.as_ref().map(|time| time.0),
            now: context.clock.now(),
        });

        plan.report.findings = findings;
        act(&plan.actions, None, context).await?;
        status::report(controller.as_ref(), &plan.report, |_| {}, context).await?;
        let is_missing_something = matches!(plan.report.reason(), Reason::SecretMissing | Reason::ConfigMapMissing);
        let look = if is_missing_something { LOOK_SOON } else { LOOK_AGAIN };
        Ok(Next::After(plan.wake_after.map_or(look, |wake| wake.min(look))))
    }

    async fn report_failure(&self, controller: Arc<SlurmController>, failure: &Failure<Error>) {
        status::report_failure(controller.as_ref(), failure, &self.0).await;
    }
}

fn children(namespace: &str, name: &str) -> [ChildKey; 4] {
    [
        ChildKey::new(ChildKind::Service, namespace, &name::controller_headless_service(name)),
        ChildKey::new(ChildKind::Service, namespace, &name::controller_service(name)),
        ChildKey::new(ChildKind::ConfigMap, namespace, &name::controller_config(name)),
        ChildKey::new(ChildKind::StatefulSet, namespace, &name::controller_workload(name)),
    ]
}

/// Everything the Controller refers to, or the first thing that is missing; and what there is to say about it.
async fn observe(
    controller: &SlurmController,
    namespace: &str,
    name: &str,
    context: &Context,
) -> Result<(Result<render::References, Wait>, Vec<Finding>), Error> {
    let spec = &controller.spec;
    let slurm_key = observe_key(context, namespace, spec.slurm_key_ref.as_ref(), "spec.slurmKeyRef").await?;
    let (jwt_key, jwt_field) = spec.jwt_key();
    let jwt_key = observe_key(context, namespace, jwt_key, jwt_field).await?;
    let files = spec.config_file_refs.as_deref().unwrap_or_default();
    let config_files = observe_config_files(context, namespace, files, "spec.configFileRefs").await?;
    let findings = observe_findings(controller, namespace, config_files.as_deref().unwrap_or_default(), context).await?;
    let nodesets = context.stores.nodesets_of(namespace, name).iter().map(|nodeset| nodeset.as_ref().clone()).collect();
    let references =
        (|| Ok(render::References { slurm_key_hash: slurm_key?, jwt_key_hash: jwt_key?, config_files: config_files?, nodesets }))();
    Ok((references, findings))
}

/// What the webhook says too, from the same rules.
async fn observe_findings(
    controller: &SlurmController,
    namespace: &str,
    config_files: &[render::ConfigFiles],
    context: &Context,
) -> Result<Vec<Finding>, Error> {
    let object = serde_json::to_value(controller).unwrap_or_default();
    let mut found = finding::References {
        config_maps: config_files.iter().map(|files| (files.name.clone(), files.files.clone())).collect(),
        ..finding::References::default()
    };
    if let Some(claim) = finding::needs(Kind::Controller, &object).claim {
        let modes = observe_claim(&context.client, namespace, &claim).await;
        found.claims.extend(modes.map_err(Error::read(format!("claim `{namespace}/{claim}`")))?.map(|modes| (claim, modes)));
    }
    Ok(finding::findings(Kind::Controller, &object, &found))
}

/// Partitions in the slurm.conf that is there and not in the one that is wanted.
fn dropped_partitions(context: &Context, namespace: &str, name: &str, wanted: &[slipway_api::child::Child]) -> Vec<String> {
    let key = ChildKey::new(ChildKind::ConfigMap, namespace, &name::controller_config(name));
    let Some(live) = context.stores.child(&key) else { return Vec::new() };
    let text = |body: &serde_json::Value| body["data"][image::SLURM_CONF].as_str().unwrap_or_default().to_owned();
    let wanted = wanted.iter().find(|child| child.key == key).map(|child| text(&child.body)).unwrap_or_default();
    let wanted = partitions(&wanted);
    partitions(&text(&live)).into_iter().filter(|partition| !wanted.contains(partition)).map(str::to_owned).collect()
}
