use serde_json::{Value, json};
use slipway_api::{
    SlurmController,
    child::{Child, ChildKind},
    image,
    label::{self, Component},
    name, owner,
};

use crate::{
    metadata::{Marks, selector},
    service,
};

const PORT: &str = "slurmctld";
/// Name of the extra port if clients use another one: running daemons connect to 6817, because slurm.conf names it.
const DAEMON_PORT: &str = "slurmctld-6817";

/// Headless Service that gives each slurmctld pod a DNS name.
pub(super) fn headless(controller: &SlurmController) -> Child {
    let name = crate::identity(&controller.metadata).1;
    let pods = selector(Component::Controller.selector(name));
    let spec = service::headless(&pods, PORT, image::SLURMCTLD_PORT);
    child(controller, &name::controller_headless_service(name), &spec)
}

/// Service that leads to the active slurmctld.
pub(super) fn client(controller: &SlurmController) -> Child {
    let name = crate::identity(&controller.metadata).1;
    let mut pods = selector(Component::Controller.selector(name));
    pods[label::CONTROLLER_ACTIVE] = "true".into();
    let mut spec = service::spec(controller.spec.service.as_ref(), &pods, PORT, image::SLURMCTLD_PORT);
    if let Some(ports) = spec["ports"].as_array_mut()
        && !ports.iter().any(|port| port["port"] == image::SLURMCTLD_PORT)
    {
        ports.push(json!({ "name": DAEMON_PORT, "port": image::SLURMCTLD_PORT, "targetPort": PORT, "protocol": "TCP" }));
    }
    child(controller, &name::controller_service(name), &spec)
}

/// Service of one slurmctld of several. Its address remains while the pod is absent.
pub(super) fn of_pod(controller: &SlurmController, index: i32) -> Child {
    let name = crate::identity(&controller.metadata).1;
    let mut pods = selector(Component::Controller.selector(name));
    pods[label::STATEFULSET_POD] = name::controller_pod(name, index).into();
    let spec = json!({
        "publishNotReadyAddresses": true,
        "selector": pods,
        "ports": [{ "name": PORT, "port": image::SLURMCTLD_PORT, "targetPort": PORT, "protocol": "TCP" }],
    });
    child(controller, &name::controller_pod_service(name, index), &spec)
}

/// The port that clients of slurmctld use.
pub(super) fn port(controller: &SlurmController) -> i32 {
    controller.spec.service.as_ref().and_then(|service| service.port).filter(|port| *port != 0).unwrap_or(image::SLURMCTLD_PORT)
}

fn child(controller: &SlurmController, service: &str, spec: &Value) -> Child {
    let (namespace, name) = crate::identity(&controller.metadata);
    let user = controller.spec.service.as_ref().and_then(|service| service.metadata.as_ref());
    let mut marks = Marks::inherited(&controller.metadata).with(user).of(Component::Controller, name);
    if service == name::controller_headless_service(name) {
        marks = marks.label(label::SCRAPED, "true");
    }
    let body = json!({ "metadata": marks.of_object(&[owner::controller_of(controller)]), "spec": spec });
    Child::new(ChildKind::Service, namespace, service, body)
}
