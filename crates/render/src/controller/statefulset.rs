use serde_json::{Value, json};
use slipway_api::{
    Persistence, SecretKeyRef, SlurmController, annotation,
    child::{Child, ChildKind},
    image,
    label::{self, Component},
    name, owner, volume,
};
use slipway_slurm::conf::SlurmConf;

use super::{LAYOUT, References, reconfigure, replicas};
use crate::{
    Invalid, merge,
    metadata::{Marks, selector},
    probe, sidecar,
};

/// The StatefulSet that runs slurmctld.
pub(super) fn statefulset(controller: &SlurmController, references: &References, config_hash: &str) -> Result<Child, Invalid> {
    let (namespace, name) = crate::identity(&controller.metadata);
    let spec = &controller.spec;
    let marks = Marks::inherited(&controller.metadata)
        .with(spec.template.as_ref().and_then(|template| template.metadata.as_ref()))
        .of(Component::Controller, name);
    let mut body = json!({
        "metadata": marks.of_object(&[owner::controller_of(controller)]),
        "spec": {
            "replicas": replicas(controller),
            "revisionHistoryLimit": 0,
            "serviceName": name::controller_headless_service(name),
            "selector": { "matchLabels": selector(Component::Controller.selector(name)) },
            "template": {
                "metadata": pod_marks(marks, controller, references, config_hash).of_template(),
                "spec": pod_spec(controller)?,
            },
        },
    });
    let persistence = spec.persistence.clone().unwrap_or_default();
    if replicas(controller) > 1 && claim_name(&persistence).is_none() {
        let problem = "is not in use, and several slurmctld share their state: name a claim with access mode ReadWriteMany there, \
                       and leave spec.persistence.enabled true";
        return Err(Invalid::new("spec.persistence.existingClaim", problem));
    }
    if persistence.enabled && claim_name(&persistence).is_none() {
        body["spec"]["volumeClaimTemplates"] = json!([{ "metadata": { "name": volume::STATESAVE }, "spec": claim_spec(persistence) }]);
    }
    Ok(Child::new(ChildKind::StatefulSet, namespace, &name::controller_workload(name), body))
}

/// Labels and annotations of the pod. A changed hash replaces the pod.
fn pod_marks(marks: Marks, controller: &SlurmController, references: &References, config_hash: &str) -> Marks {
    let mut marks = marks
        .annotation(annotation::DEFAULT_CONTAINER, Component::Controller.daemon())
        .annotation(annotation::SLURM_KEY_HASH, &references.slurm_key_hash)
        .annotation(annotation::JWT_KEY_HASH, &references.jwt_key_hash);
    if replicas(controller) == 1 {
        // A single slurmctld is active from the start: its Service need not wait for the operator to label it.
        marks = marks.label(label::CONTROLLER_ACTIVE, "true");
    }
    if !controller.spec.inplace_reconfigure {
        marks = marks.annotation(annotation::SLURM_CONFIG_HASH, config_hash);
    }
    marks
}

fn pod_spec(controller: &SlurmController) -> Result<Value, Invalid> {
    let name = crate::identity(&controller.metadata).1;
    let spec = &controller.spec;
    let image = crate::image(spec.slurmctld.as_ref(), "spec.slurmctld")?;
    let mut sidecars = Vec::new();
    if spec.inplace_reconfigure {
        sidecars.push(reconfigure::container(spec.reconfigure.as_ref(), image, replicas(controller)));
    }
    sidecars.push(sidecar::container(spec.logfile.as_ref(), image, image::SLURMCTLD_LOG));
    let base = json!({
        "automountServiceAccountToken": false,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": image::SLURM_UID,
            "runAsGroup": image::SLURM_UID,
            "fsGroup": image::SLURM_UID,
        },
        "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": { "matchLabels": selector(Component::Controller.selector(name)) },
        }]}},
        "initContainers": sidecars,
        "containers": [container(controller)?],
        "volumes": volumes(controller)?,
    });
    Ok(merge::pod_spec(base, spec.template.as_ref().and_then(|template| template.spec.as_ref())))
}

fn container(controller: &SlurmController) -> Result<Value, Invalid> {
    let daemon = Component::Controller.daemon();
    let state = SlurmConf::state_save_location(&super::cluster_name(controller)?, &LAYOUT);
    let mut base = json!({
        "name": daemon,
        "ports": [{ "name": daemon, "containerPort": image::SLURMCTLD_PORT, "protocol": "TCP" }],
        "securityContext": { "runAsNonRoot": true, "runAsUser": image::SLURM_UID, "runAsGroup": image::SLURM_UID },
        // The last log line of a slurmctld that exited contains the cause, so that the Controller can report it.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            { "name": volume::ETC, "mountPath": image::CONFIG_DIR, "readOnly": true },
            { "name": volume::RUN, "mountPath": volume::RUN_PATH },
            { "name": volume::STATESAVE, "mountPath": state },
            { "name": volume::AUTH_SOCKET, "mountPath": volume::AUTH_SOCKET_PATH },
            sidecar::mount(),
        ],
    });
    probe::add(&mut base, probe::slurmctld(daemon, replicas(controller) > 1));
    Ok(merge::container(base, controller.spec.slurmctld.as_ref()))
}

fn volumes(controller: &SlurmController) -> Result<Value, Invalid> {
    let (_, name) = crate::identity(&controller.metadata);
    let spec = &controller.spec;
    let (jwt_key, jwt_field) = spec.jwt_key();
    // No ConfigMap of the user is mounted directly: slurmctld reads only files that were checked.
    let sources = [
        json!({ "configMap": { "name": name::controller_config(name) } }),
        key_source(spec.slurm_key_ref.as_ref(), "spec.slurmKeyRef", image::SLURM_KEY_FILE)?,
        key_source(jwt_key, jwt_field, image::JWT_KEY_FILE)?,
    ];
    let mut volumes = vec![
        json!({ "name": volume::ETC, "projected": { "defaultMode": 0o610, "sources": sources } }),
        sidecar::volume(),
        json!({ "name": volume::RUN, "emptyDir": { "medium": "Memory" } }),
        json!({ "name": volume::AUTH_SOCKET, "emptyDir": {} }),
    ];
    if spec.inplace_reconfigure {
        volumes.push(reconfigure::volume());
    }
    let persistence = spec.persistence.clone().unwrap_or_default();
    match claim_name(&persistence) {
        Some(claim) => volumes.push(json!({ "name": volume::STATESAVE, "persistentVolumeClaim": { "claimName": claim } })),
        None if !persistence.enabled => volumes.push(json!({ "name": volume::STATESAVE, "emptyDir": {} })),
        None => {} // the claim template adds its own volume
    }
    Ok(volumes.into())
}

/// Volume source with one key of a Secret as one file.
pub(crate) fn key_source(key: Option<&SecretKeyRef>, field: &str, file: &str) -> Result<Value, Invalid> {
    let Some(key) = key.filter(|key| !key.name.is_empty()) else {
        return Err(Invalid::new(field, "is not set: name the Secret and the key that hold it"));
    };
    Ok(json!({ "secret": { "name": key.name, "items": [{ "key": key.key, "path": file }] } }))
}

fn claim_name(persistence: &Persistence) -> Option<&str> {
    persistence.existing_claim.as_deref().filter(|claim| persistence.enabled && !claim.is_empty())
}

/// The user's claim spec, with defaults for required fields.
fn claim_spec(persistence: Persistence) -> Value {
    let mut spec = Value::from(persistence.claim);
    if spec.get("accessModes").is_none() {
        spec["accessModes"] = json!(["ReadWriteOnce"]);
    }
    if spec.get("resources").is_none() {
        spec["resources"] = json!({ "requests": { "storage": "4Gi" } });
    }
    spec
}
