//! Reconciles a RestApi.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use slipway_api::{
    RestApi,
    child::{ChildKey, ChildKind},
    condition::Reason,
    label::Component,
    name,
};
use slipway_plan::{Wait, finding::Kind, missing, restapi as plan};
use slipway_render::restapi::{self as render, Published};
use slipway_runtime::{
    failure::Failure,
    queue::{Next, Reconcile},
};

use crate::world::{
    act::act,
    context::Context,
    error::Error,
    observe::{findings_of, observe_secret},
    status,
};

/// Secrets are not watched, so they are read periodically, more often while one is missing. A new key is seen as soon as slurmctld gets it.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
const LOOK_SOON: Duration = Duration::from_secs(3);

/// Reconciles RestApis.
pub(crate) struct RestApis(pub(crate) Arc<Context>);

impl Reconcile<RestApi> for RestApis {
    type Error = Error;

    async fn pass(&self, restapi: Arc<RestApi>) -> Result<Next, Error> {
        let context = self.0.as_ref();
        if restapi.metadata.deletion_timestamp.is_some() {
            return Ok(Next::OnChange); // its children are deleted with it
        }
        let (namespace, name) = (restapi.namespace().unwrap_or_default(), restapi.name_any());
        let references = observe(&restapi, &namespace, context).await?;
        let workload = name::restapi_workload(&name);
        let seen = context.seen([ChildKind::Service, ChildKind::Deployment].map(|kind| ChildKey::new(kind, &namespace, &workload)));

        let (service, deployment) = match render::service(&restapi) {
            Ok(service) => {
                let deployment =
                    references.and_then(|found| render::deployment(&restapi, &found).map_err(|invalid| missing::invalid(&invalid)));
                (Some(service), deployment)
            }
            Err(invalid) => (None, Err(missing::invalid(&invalid))),
        };
        let trouble = context.stores.trouble(&namespace, Component::RestApi, &name);
        let mut plan = plan::restapi(plan::Observed { service, deployment, seen: &seen, trouble, now: context.clock.now() });

        plan.report.findings = findings_of(Kind::RestApi, restapi.as_ref());
        status::note_findings(restapi.as_ref(), &plan.report.findings, context);
        act(&plan.actions, context).await?;
        status::report(restapi.as_ref(), &plan.report, |_| {}, context).await?;
        let look = if plan.report.reason() == Reason::SecretMissing { LOOK_SOON } else { LOOK_AGAIN };
        Ok(Next::After(plan.wake_after.map_or(look, |wake| wake.min(look))))
    }

    async fn report_failure(&self, restapi: Arc<RestApi>, failure: &Failure<Error>) {
        status::report_failure(restapi.as_ref(), failure, &self.0).await;
    }
}

/// Everything the RestApi refers to, or a `Wait` for the first missing object.
async fn observe(restapi: &RestApi, namespace: &str, context: &Context) -> Result<Result<render::References, Wait>, Error> {
    let controller = &restapi.spec.controller_ref.name;
    if controller.is_empty() {
        return Ok(Err(missing::no_reference("spec.controllerRef")));
    }
    let Some(found) = context.stores.controller(namespace, controller) else {
        return Ok(Err(missing::no_controller(namespace, controller)));
    };
    let Some(key) = found.spec.slurm_key_ref.as_ref().filter(|key| !key.name.is_empty()) else {
        return Ok(Err(plan::no_slurm_key(namespace, controller)));
    };
    // Only the key itself counts: its Secret may hold others, which slurmrestd does not read.
    let secret = observe_secret(context, &found.metadata, namespace, Some(key), "spec.slurmKeyRef of the Controller").await?;
    // A pod that mounts a missing ConfigMap is stuck for a minute or two, so the Deployment is created after the ConfigMap.
    let config = context.stores.child(&ChildKey::new(ChildKind::ConfigMap, namespace, &name::controller_config(controller)));
    Ok((|| {
        let slurm_key_hash = secret?.values.remove(&key.key).unwrap_or_default();
        let (config_hash, has_accounting) = match config.as_ref().map_or(Published::Nothing, Published::of_config_map) {
            Published::Conf { hash, has_accounting } => (hash, has_accounting),
            Published::Edited => return Err(plan::edited_configuration(namespace, controller)),
            Published::Nothing => return Err(missing::no_configuration(namespace, controller)),
        };
        Ok(render::References { controller: found.as_ref().clone(), slurm_key_hash, config_hash, has_accounting })
    })())
}
