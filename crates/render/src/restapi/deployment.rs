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
    Invalid,
    controller::statefulset::key_source,
    merge,
    metadata::{Marks, selector},
    probe,
};

pub(super) fn deployment(restapi: &RestApi, references: &References) -> Result<Child, Invalid> {
    let (namespace, name) = crate::identity(&restapi.metadata);
    let template = restapi.spec.template.as_ref();
    let marks =
        Marks::inherited(&restapi.metadata).with(template.and_then(|template| template.metadata.as_ref())).of(Component::RestApi, name);
    let object = marks.of_object(&[owner::controller_of(restapi)]);
    // slurmrestd reads slurm.conf and its key only at its start: a change of either replaces the pods, and no other file does.
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
    let container = container(restapi, references)?;
    let name = container["name"].clone();
    let base = json!({
        "automountServiceAccountToken": false,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": image::NOBODY_UID,
            "runAsGroup": image::NOBODY_UID,
            "fsGroup": image::NOBODY_UID,
        },
        "containers": [container],
        "volumes": [{ "name": volume::ETC, "projected": { "defaultMode": 0o600, "sources": [
            { "configMap": { "name": config, "items": [{ "key": image::SLURM_CONF, "path": image::SLURM_CONF }] } },
            key_source(key, "spec.slurmKeyRef of the Controller", image::SLURM_KEY_FILE)?,
        ]}}],
    });
    let mut spec = merge::pod_spec(base, restapi.spec.template.as_ref().and_then(|template| template.spec.as_ref()));
    listen(&mut spec, &name);
    Ok(spec)
}

fn container(restapi: &RestApi, references: &References) -> Result<Value, Invalid> {
    let daemon = Component::RestApi.daemon();
    crate::image(restapi.spec.slurmrestd.as_ref(), "spec.slurmrestd")?;
    let mut base = json!({
        "name": daemon,
        "env": [
            { "name": env::SLURM_JWT, "value": env::SLURM_JWT_VALUE },
            { "name": env::SLURMRESTD_SECURITY, "value": env::SLURMRESTD_SECURITY_VALUE },
        ],
        "ports": [{ "name": daemon, "containerPort": image::SLURMRESTD_PORT, "protocol": "TCP" }],
        "volumeMounts": [{ "name": volume::ETC, "mountPath": image::CONFIG_DIR, "readOnly": true }],
    });
    if !has_accounting(references) {
        // Without this slurmrestd also loads the plug-in that needs slurmdbd, and exits.
        base["args"] = json!(["-s", "openapi/slurmctld"]);
    }
    probe::add(&mut base, probe::tcp(daemon));
    Ok(merge::container(base, restapi.spec.slurmrestd.as_ref()))
}

/// True if slurmrestd finds a slurmdbd: a reference that leads to none is not enough.
fn has_accounting(References { controller, has_accounting, .. }: &References) -> bool {
    let is_referred = controller.spec.accounting_ref.as_ref().is_some_and(|reference| !reference.name.is_empty());
    is_referred && *has_accounting
}

/// Appends the listen address. It is slurmrestd's only positional argument, so it must follow all options, including the user's.
fn listen(spec: &mut Value, container: &Value) {
    let containers = spec["containers"].as_array_mut().into_iter().flatten();
    for slurmrestd in containers.filter(|found| found["name"] == *container) {
        let options = slurmrestd["args"].as_array().cloned().unwrap_or_default();
        let address = format!("0.0.0.0:{}", image::SLURMRESTD_PORT).into();
        slurmrestd["args"] = options.into_iter().chain([address]).collect();
    }
}
