use serde_json::{Value, json};
use slipway_api::{
    RestApi, annotation,
    child::{Child, ChildKind},
    env, image,
    label::Component,
    name, owner, volume,
};

use super::References;
use crate::{
    Invalid, controller, merge,
    metadata::{Marks, selector},
    probe,
};

pub(super) fn deployment(restapi: &RestApi, references: &References) -> Result<Child, Invalid> {
    let (namespace, name) = crate::identity(&restapi.metadata);
    let template = restapi.spec.template.as_ref();
    let marks =
        Marks::inherited(&restapi.metadata).with(template.and_then(|template| template.metadata.as_ref())).of(Component::RestApi, name);
    let object = marks.of_object(&[owner::controller_of(restapi)]);
    // slurmrestd reads its configuration and its key once: a change of either makes new pods.
    let pod_marks = marks
        .annotation(annotation::DEFAULT_CONTAINER, Component::RestApi.daemon())
        .annotation(annotation::SLURM_KEY_HASH, &references.slurm_key_hash)
        .annotation(annotation::SLURM_CONFIG_HASH, &references.config_hash);
    let body = json!({
        "metadata": object,
        "spec": {
            "replicas": restapi.spec.replicas,
            "revisionHistoryLimit": 0,
            "selector": { "matchLabels": selector(Component::RestApi.selector(name)) },
            "template": { "metadata": pod_marks.of_template(), "spec": pod_spec(restapi, references)? },
        },
    });
    Ok(Child::new(ChildKind::Deployment, namespace, &name::restapi_workload(name), body))
}

fn pod_spec(restapi: &RestApi, references: &References) -> Result<Value, Invalid> {
    let controller = &references.controller;
    let config = name::controller_config(crate::identity(&controller.metadata).1);
    let key = controller.spec.slurm_key_ref.as_ref();
    let base = json!({
        "automountServiceAccountToken": false,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": image::NOBODY_UID,
            "runAsGroup": image::NOBODY_UID,
            "fsGroup": image::NOBODY_UID,
        },
        "containers": [container(restapi)?],
        "volumes": [{ "name": volume::ETC, "projected": { "defaultMode": 0o600, "sources": [
            { "configMap": { "name": config, "items": [{ "key": image::SLURM_CONF, "path": image::SLURM_CONF }] } },
            controller::key_source(key, "spec.slurmKeyRef of the Controller", image::SLURM_KEY_FILE)?,
        ]}}],
    });
    Ok(merge::pod_spec(base, restapi.spec.template.as_ref().and_then(|template| template.spec.as_ref())))
}

fn container(restapi: &RestApi) -> Result<Value, Invalid> {
    let daemon = Component::RestApi.daemon();
    crate::image(restapi.spec.slurmrestd.as_ref(), "spec.slurmrestd")?;
    let mut base = json!({
        "name": daemon,
        // No accounting: without this slurmrestd also loads the plug-in that needs slurmdbd, and stops.
        "args": ["-s", "openapi/slurmctld"],
        "env": [
            { "name": env::SLURM_JWT, "value": env::SLURM_JWT_VALUE },
            { "name": env::SLURMRESTD_SECURITY, "value": env::SLURMRESTD_SECURITY_VALUE },
        ],
        "ports": [{ "name": daemon, "containerPort": image::SLURMRESTD_PORT, "protocol": "TCP" }],
        "volumeMounts": [{ "name": volume::ETC, "mountPath": image::CONFIG_DIR, "readOnly": true }],
    });
    probe::add(&mut base, probe::tcp(daemon));
    let mut container = merge::container(base, restapi.spec.slurmrestd.as_ref());
    // Where to listen is slurmrestd's only positional argument, so it stands behind the user's options.
    if let Some(args) = container["args"].as_array_mut() {
        args.push(format!("0.0.0.0:{}", image::SLURMRESTD_PORT).into());
    }
    Ok(container)
}
