//! The claims of a worker, and the volumes by which its pod uses them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use slipway_api::{NodeSet, Raw, Retention, label::Component, name, owner, volume};

use super::ssh;
use crate::Invalid;

/// Fields that users may set in the metadata of a claim template besides its name.
const METADATA: [&str; 3] = ["annotations", "finalizers", "labels"];

/// A claim template, and the claim that one worker gets from it.
struct Named<'a> {
    template: &'a Raw,
    /// Also the name of the pod's volume.
    volume: &'a str,
    claim: String,
}

/// The claims of one worker.
pub(super) fn claims(nodeset: &NodeSet, pod: &str) -> Result<Vec<Value>, Invalid> {
    Ok(named(nodeset, pod)?.iter().map(|named| claim(nodeset, named)).collect())
}

/// The volumes of one worker's pod with those of its claims, which replace others of the same name.
pub(super) fn with_claims(volumes: &Value, nodeset: &NodeSet, pod: &str) -> Result<Value, Invalid> {
    let named = named(nodeset, pod)?;
    let is_claimed = |volume: &Value| named.iter().any(|named| volume["name"] == named.volume);
    let others = volumes.as_array().into_iter().flatten().filter(|volume| !is_claimed(volume)).cloned();
    let claimed = named.iter().map(|named| json!({ "name": named.volume, "persistentVolumeClaim": { "claimName": named.claim } }));
    Ok(others.chain(claimed).collect())
}

fn named<'a>(nodeset: &'a NodeSet, pod: &str) -> Result<Vec<Named<'a>>, Invalid> {
    let mut names = BTreeSet::new();
    let templates = nodeset.spec.volume_claim_templates.iter().flatten().enumerate();
    let named = templates.map(|(index, template)| {
        let field = format!("spec.volumeClaimTemplates[{index}].metadata.name");
        let wrong = |problem: String| Err(Invalid::new(&field, problem));
        let volume = template.0.get("metadata").and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
        match volume {
            "" => return wrong("is empty: name the claim, and the pod's volume with it".to_owned()),
            volume::ETC => return wrong(format!("is `{volume}`, the volume that holds the cluster's key: choose another name")),
            volume::SSH_CONFIG | volume::SSSD_CONF if ssh::enabled(nodeset).is_some() => {
                return wrong(format!("is `{volume}`, the volume that holds a file of spec.ssh: choose another name"));
            }
            _ if !names.insert(volume) => return wrong(format!("is `{volume}`, as that of another claim: give each a name of its own")),
            _ => {}
        }
        if template.0.get("metadata").is_some_and(|metadata| !matches!(metadata["labels"], Value::Null | Value::Object(_))) {
            return Err(Invalid::new(&format!("spec.volumeClaimTemplates[{index}].metadata.labels"), "is no map: write keys with values"));
        }
        let claim = name::pod_claim(volume, pod);
        name::check_claim(volume, &claim).map_err(|unfit| Invalid::name(&field, &unfit))?;
        Ok(Named { template, volume, claim })
    });
    named.collect()
}

/// The claim of one worker, as the user wrote it. Unknown fields are kept.
fn claim(nodeset: &NodeSet, Named { template, claim, .. }: &Named<'_>) -> Value {
    let (namespace, set) = crate::identity(&nodeset.metadata);
    let mut body = Value::from((*template).clone());
    let written = body["metadata"].take();
    body["apiVersion"] = "v1".into();
    body["kind"] = "PersistentVolumeClaim".into();
    body["metadata"] = json!({ "name": claim, "namespace": namespace });
    for field in METADATA.into_iter().filter(|field| !written[field].is_null()) {
        body["metadata"][field] = written[field].clone();
    }
    for (key, value) in Component::Worker.selector(set) {
        body["metadata"]["labels"][key] = value.into();
    }
    if is_deleted_with(nodeset) {
        body["metadata"]["ownerReferences"] = json!([owner::controller_of(nodeset)]);
    }
    if let Some(fields) = body.as_object_mut() {
        fields.remove("status");
    }
    body
}

/// True if claims are deleted with the NodeSet.
fn is_deleted_with(nodeset: &NodeSet) -> bool {
    nodeset.spec.persistent_volume_claim_retention_policy.is_some_and(|policy| policy.when_deleted == Retention::Delete)
}
