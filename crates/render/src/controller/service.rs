use serde_json::json;
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

/// Gives each slurmctld pod a DNS name.
pub(super) fn headless(controller: &SlurmController) -> Child {
    let (namespace, name) = crate::identity(&controller.metadata);
    let pods = selector(Component::Controller.selector(name));
    let spec = service::headless(&pods, PORT, image::SLURMCTLD_PORT);
    child(controller, namespace, &name::controller_headless_service(name), &spec)
}

/// Leads to the active slurmctld.
pub(super) fn client(controller: &SlurmController) -> Child {
    let (namespace, name) = crate::identity(&controller.metadata);
    let mut pods = selector(Component::Controller.selector(name));
    pods[label::CONTROLLER_ACTIVE] = "true".into();
    let spec = service::spec(controller.spec.service.as_ref(), &pods, PORT, image::SLURMCTLD_PORT);
    child(controller, namespace, &name::controller_service(name), &spec)
}

fn child(controller: &SlurmController, namespace: &str, service: &str, spec: &serde_json::Value) -> Child {
    let user = controller.spec.service.as_ref().and_then(|service| service.metadata.as_ref());
    let marks = Marks::inherited(&controller.metadata).with(user).of(Component::Controller, crate::identity(&controller.metadata).1);
    let body = json!({ "metadata": marks.of_object(&[owner::controller_of(controller)]), "spec": spec });
    Child::new(ChildKind::Service, namespace, service, body)
}
