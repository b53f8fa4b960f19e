//! The pass over a RestApi.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use slipway_api::{
    RestApi, annotation,
    child::{ChildKey, ChildKind},
    label::Component,
    name,
};
use slipway_plan::{Wait, finding::Kind, restapi as plan, unmet};
use slipway_render::restapi as render;
use slipway_runtime::{
    failure::Failure,
    queue::{Next, Reconcile},
};

use crate::{
    act::act,
    context::Context,
    error::Error,
    observe::{findings_of, observe_key},
    status,
};

/// Secrets are not watched, so they are looked at from time to time.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Brings RestApis to where they should be.
pub(crate) struct RestApis(pub(crate) Arc<Context>);

impl Reconcile<RestApi> for RestApis {
    type Error = Error;

    async fn pass(&self, restapi: Arc<RestApi>) -> Result<Next, Error> {
        let context = self.0.as_ref();
        if restapi.metadata.deletion_timestamp.is_some() {
            return Ok(Next::OnChange); // its children go with it
        }
        let (namespace, name) = (restapi.namespace().unwrap_or_default(), restapi.name_any());
        let references = observe(&restapi, &namespace, context).await?;
        let workload = name::restapi_workload(&name);
        let seen = context.seen([ChildKind::Service, ChildKind::Deployment].map(|kind| ChildKey::new(kind, &namespace, &workload)));

        let (service, deployment) = match render::service(&restapi) {
            Ok(service) => {
                let deployment =
                    references.and_then(|found| render::deployment(&restapi, &found).map_err(|invalid| unmet::invalid(&invalid)));
                (Some(service), deployment)
            }
            Err(invalid) => (None, Err(unmet::invalid(&invalid))),
        };
        let trouble = context.stores.trouble(&namespace, Component::RestApi, &name);
        let mut plan = plan::restapi(plan::Observed { service, deployment, seen: &seen, trouble, now: context.clock.now() });

        plan.report.findings = findings_of(Kind::RestApi, restapi.as_ref());
        status::note_findings(restapi.as_ref(), &plan.report.findings, context);
        act(&plan.actions, None, context).await?;
        status::report(restapi.as_ref(), &plan.report, |_| {}, context).await?;
        Ok(Next::After(plan.wake_after.map_or(LOOK_AGAIN, |wake| wake.min(LOOK_AGAIN))))
    }

    async fn report_failure(&self, restapi: Arc<RestApi>, failure: &Failure<Error>) {
        status::report_failure(restapi.as_ref(), failure, &self.0).await;
    }
}

/// Everything the RestApi refers to, or the first thing that is missing.
async fn observe(restapi: &RestApi, namespace: &str, context: &Context) -> Result<Result<render::References, Wait>, Error> {
    let controller = &restapi.spec.controller_ref.name;
    if controller.is_empty() {
        return Ok(Err(unmet::no_reference("spec.controllerRef")));
    }
    let Some(found) = context.stores.controller(namespace, controller) else {
        return Ok(Err(unmet::no_controller(namespace, controller)));
    };
    let slurm_key = observe_key(context, namespace, found.spec.slurm_key_ref.as_ref(), "spec.slurmKeyRef of the Controller").await?;
    // A pod that mounts a ConfigMap before it exists is stuck for a minute or two, so the Deployment comes after it.
    let config = context.stores.child(&ChildKey::new(ChildKind::ConfigMap, namespace, &name::controller_config(controller)));
    // The hash is the one that slurmctld runs with: an edit of the ConfigMap that is about to be undone restarts nobody.
    let statefulset = context.stores.child(&ChildKey::new(ChildKind::StatefulSet, namespace, &name::controller_workload(controller)));
    Ok((|| {
        let config_hash = config
            .and(statefulset)
            .and_then(|live| Some(live["spec"]["template"]["metadata"]["annotations"][annotation::SLURM_CONFIG_HASH].as_str()?.to_owned()))
            .ok_or_else(|| unmet::no_configuration(namespace, controller))?;
        Ok(render::References { controller: found.as_ref().clone(), slurm_key_hash: slurm_key?, config_hash })
    })())
}
