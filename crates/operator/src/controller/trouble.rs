//! Why slurmctld's pods do not run.

use kube::ResourceExt;
use slipway_api::{SlurmController, label::Component, name, volume};
use slipway_render::controller::replicas;

use crate::{context::Context, error::Error, observe::observe_unbound_claim};

/// How the scheduler calls claims.
const CLAIM: &str = "PersistentVolumeClaim";

/// What keeps a pod from getting ready, if the kubelet or the scheduler said so. The scheduler says of a claim only that some claim is not bound:
/// which, and of what class, is added.
pub(super) async fn observe(controller: &SlurmController, namespace: &str, context: &Context) -> Result<Option<String>, Error> {
    let trouble = context.stores.trouble(namespace, Component::Controller, &controller.name_any());
    let Some(trouble) = trouble else { return Ok(None) };
    if !trouble.contains(CLAIM) {
        return Ok(Some(trouble));
    }
    for claim in claims(controller) {
        if let Some(class) = observe_unbound_claim(context, namespace, &claim).await? {
            let class = if class.is_empty() { "without a storage class".to_owned() } else { format!("of storage class `{class}`") };
            let remedy = "`kubectl describe pvc` tells why: mend that, or make the class";
            return Ok(Some(format!("{trouble}; claim `{namespace}/{claim}` {class} is not bound: {remedy}")));
        }
    }
    Ok(Some(trouble))
}

/// The claims that the state is on: the one that the user brings, or one for each pod.
fn claims(controller: &SlurmController) -> Vec<String> {
    let given = controller.spec.persistence.as_ref().and_then(|persistence| persistence.existing_claim.clone());
    if let Some(claim) = given.filter(|claim| !claim.is_empty()) {
        return vec![claim];
    }
    let pods = (0..replicas(controller)).map(|index| name::controller_pod(&controller.name_any(), index));
    pods.map(|pod| format!("{}-{pod}", volume::STATESAVE)).collect()
}
