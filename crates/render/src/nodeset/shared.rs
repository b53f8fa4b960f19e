use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};
use slipway_api::{
    NodeSet,
    child::{Child, ChildKind},
    image,
    label::{self, Component},
    name, owner,
};

use crate::{metadata::Marks, service};

/// Headless Service that gives every worker of a cluster a DNS name.
pub(super) fn service(namespace: &str, controller: &str, nodesets: &[NodeSet]) -> Child {
    let selector = json!({ (label::NAME): Component::Worker.daemon(), (label::CLUSTER): controller });
    let body = json!({
        "metadata": metadata(controller, nodesets),
        "spec": service::headless(&selector, Component::Worker.daemon(), image::SLURMD_PORT),
    });
    Child::new(ChildKind::Service, namespace, &name::worker_service(controller), body)
}

/// Disruption budget that prevents evictions of workers marked as busy, of which there are at most `protected`.
///
/// `minAvailable` is a number, because Kubernetes computes `maxUnavailable` and percentages from the replicas that the pods' owners request: some
/// busy workers could be evicted whenever there are more of them than that.
pub(super) fn budget(namespace: &str, controller: &str, nodesets: &[NodeSet], protected: usize) -> Child {
    let body = json!({
        "metadata": metadata(controller, nodesets),
        "spec": {
            "minAvailable": protected,
            "selector": { "matchLabels": { (label::POD_PROTECT): "true", (label::CLUSTER): controller } },
        },
    });
    Child::new(ChildKind::PodDisruptionBudget, namespace, &name::worker_budget(controller), body)
}

fn metadata(controller: &str, nodesets: &[NodeSet]) -> Value {
    let mut owners: Vec<OwnerReference> = nodesets.iter().map(owner::one_of_many).collect();
    owners.sort_by(|a, b| a.name.cmp(&b.name));
    Marks::default().of(Component::Worker, controller).label(label::CLUSTER, controller).of_object(&owners)
}
