//! Reasons why slurmctld's pods do not run.

use kube::ResourceExt;
use slipway_api::{SlurmController, label::Component, name, volume};
use slipway_render::controller::replicas;

use crate::world::{context::Context, error::Error, observe::observe_unbound_claim};

/// The scheduler's name for claims.
const CLAIM: &str = "PersistentVolumeClaim";

/// The reason why a pod does not become ready, if the kubelet or the scheduler reports one. The scheduler only reports that some claim is not bound:
/// its name and storage class are added.
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

/// Claims with the state: the user's own one, or one per pod.
fn claims(controller: &SlurmController) -> Vec<String> {
    let given = controller.spec.persistence.as_ref().and_then(|persistence| persistence.existing_claim.clone());
    if let Some(claim) = given.filter(|claim| !claim.is_empty()) {
        return vec![claim];
    }
    let pods = (0..replicas(controller)).map(|index| name::controller_pod(&controller.name_any(), index));
    pods.map(|pod| format!("{}-{pod}", volume::STATESAVE)).collect()
}
