use serde_json::json;
use slipway_api::{
    RestApi,
    child::{Child, ChildKind},
    image,
    label::Component,
    name, owner,
};

use crate::{
    metadata::{Marks, selector},
    service,
};

pub(super) fn service(restapi: &RestApi) -> Child {
    let (namespace, name) = crate::identity(&restapi.metadata);
    let user = restapi.spec.service.as_ref();
    let pods = selector(Component::RestApi.selector(name));
    let marks = Marks::default().with(user.and_then(|user| user.metadata.as_ref())).of(Component::RestApi, name);
    let body = json!({
        "metadata": marks.of_object(&[owner::controller_of(restapi)]),
        "spec": service::spec(user, &pods, Component::RestApi.daemon(), image::SLURMRESTD_PORT),
    });
    Child::new(ChildKind::Service, namespace, &name::restapi_workload(name), body)
}
