//! Errors and doubts about an object that neither its schema nor its validation rules can detect.
//!
//! The admission webhook reports them to the user who writes the object; without a webhook, the `SpecAccepted` condition does.

mod cluster;
mod daemon;
mod kind;
mod known;

use std::collections::BTreeMap;

use serde_json::Value;
use slipway_api::{ScheduledUpdate, image, unserved::obstacle_in};

use crate::nodeset::{
    self, Schedule,
    gres::{self, Places},
};

pub use kind::Kind;

/// Files in `/etc/slurm` that a user may provide, besides scripts; any other name is most likely misspelled.
const CONFIG_FILES: [&str; 14] = [
    "acct_gather.conf",
    "burst_buffer.conf",
    "cgroup.conf",
    "cli_filter.lua",
    "gres.conf",
    "helpers.conf",
    "job_container.conf",
    "job_submit.lua",
    "mpi.conf",
    "namespace.yaml",
    "oci.conf",
    "plugstack.conf",
    "topology.conf",
    "topology.yaml",
];

/// Access mode that several slurmctld need on their shared claim.
const SHARED_ACCESS: &str = "ReadWriteMany";

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The object cannot work as it is.
    Refusal,
    /// The object works, but perhaps not as its user expects.
    Warning,
}

/// One issue of an object that its user should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub weight: Weight,
    /// The problem, its location and the fix.
    pub words: String,
}

/// Names of objects in the same namespace that findings depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub config_maps: Vec<String>,
    pub claim: Option<String>,
}

/// Content of those objects. Missing objects are left out: manifests are applied in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Keys of each ConfigMap.
    pub config_maps: BTreeMap<String, Vec<String>>,
    /// Access modes of each claim.
    pub claims: BTreeMap<String, Vec<String>>,
    /// Generic resources of a NodeSet.
    pub gres: Places,
}

/// Objects to look up before [`findings`].
pub fn needs(kind: Kind, object: &Value) -> Needs {
    if kind != Kind::Controller {
        return Needs::default();
    }
    let spec = &object["spec"];
    let mut config_maps: Vec<String> = names(&spec["configFileRefs"]);
    config_maps.sort_unstable();
    config_maps.dedup();
    Needs { config_maps, claim: shared_claim(spec).map(str::to_owned) }
}

/// All findings about `object`: refusals first, the rest in the order of the fields.
pub fn findings(kind: Kind, object: &Value, references: &References) -> Vec<Finding> {
    let spec = &object["spec"];
    let mut found = Vec::new();
    if kind == Kind::Controller {
        found.extend(about_config_files(spec, references));
        found.extend(about_claim(spec, references));
        // Only a warning: a cluster that already has this name keeps working.
        found.extend(cluster::too_long(object).map(warning));
    }
    found.extend(about_leaving(kind, object));
    found.extend(daemon::without_effect(kind, spec).map(warning));
    found.extend(about_schedule(kind, spec));
    found.extend(gres::findings_of_spec(&references.gres).into_iter().map(warning));
    found.extend(about_deprecated(kind, spec));
    found.extend(about_external_ips(kind, spec));
    found.extend(obstacle_in(kind.as_str(), spec).map(warning));
    found.extend(known::unknown_fields(kind, spec).into_iter().map(warning));
    found.sort_by_key(|finding| finding.weight);
    found
}

/// All findings about replacing `before` with `object`; `before` is null on creation.
pub fn findings_at_write(kind: Kind, object: &Value, before: &Value, references: &References) -> Vec<Finding> {
    let mut found = findings(kind, object, references);
    let words = match kind {
        Kind::Controller if before.is_null() => cluster::too_long(object),
        Kind::Controller => cluster::changed(before, object),
        _ => None,
    };
    if let Some(words) = words {
        found.retain(|finding| finding.words != words);
        found.insert(0, refused(words));
    }
    found
}

/// The first finding that keeps the object from working, or `None`.
pub fn refusal(findings: &[Finding]) -> Option<&Finding> {
    findings.iter().find(|finding| finding.weight == Weight::Refusal)
}

fn about_config_files(spec: &Value, references: &References) -> Vec<Finding> {
    let mut found = Vec::new();
    for config_map in names(&spec["configFileRefs"]) {
        for key in references.config_maps.get(&config_map).into_iter().flatten() {
            if let Some(instead) = image::instead_of_bringing(key) {
                found.push(refused(format!(
                    "spec.configFileRefs names ConfigMap `{config_map}` with a key `{key}`, a file that only the operator writes: \
                     take the key out and {instead}"
                )));
            } else if !CONFIG_FILES.contains(&key.as_str()) {
                found.push(warning(format!(
                    "spec.configFileRefs: `{key}` in ConfigMap `{config_map}` is no configuration file that Slurm reads by itself: check its name"
                )));
            }
        }
    }
    found
}

fn about_claim(spec: &Value, references: &References) -> Option<Finding> {
    let claim = shared_claim(spec)?;
    let modes = references.claims.get(claim)?;
    if modes.iter().any(|mode| mode == SHARED_ACCESS) {
        return None;
    }
    Some(refused(format!(
        "spec.persistence.existingClaim: claim `{claim}` has access modes [{}], and spec.ha needs {SHARED_ACCESS}: \
         name a claim that several nodes can mount, or switch spec.ha off",
        modes.join(", ")
    )))
}

fn about_leaving(kind: Kind, object: &Value) -> Vec<Finding> {
    let annotations = object["metadata"]["annotations"].as_object().filter(|_| kind == Kind::NodeSet);
    let texts = annotations.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    nodeset::doubts(&texts.collect()).into_iter().map(|words| warning(format!("metadata: {words}"))).collect()
}

/// Warns about an invalid maintenance. The rest of the NodeSet works without it, so it is no refusal.
fn about_schedule(kind: Kind, spec: &Value) -> Option<Finding> {
    let strategy = Some(&spec["updateStrategy"]).filter(|strategy| kind == Kind::NodeSet && strategy["type"] == "ScheduledUpdate")?;
    let written: ScheduledUpdate = serde_json::from_value(strategy["scheduledUpdate"].clone()).ok()?;
    Schedule::parse(&written).err().map(warning)
}

fn about_deprecated(kind: Kind, spec: &Value) -> Option<Finding> {
    let is_used = matches!(kind, Kind::Controller | Kind::Accounting | Kind::Token) && spec["jwtHs256KeyRef"].is_object();
    is_used.then(|| warning("spec.jwtHs256KeyRef is deprecated: move its content to spec.jwtKeyRef".to_owned()))
}

fn about_external_ips(kind: Kind, spec: &Value) -> Option<Finding> {
    let addresses = spec["service"]["spec"]["externalIPs"].as_array().filter(|_| kind.has_service())?;
    (!addresses.is_empty())
        .then(|| warning("spec.service.spec.externalIPs is dropped, as it lets anyone take over addresses: use a load balancer".to_owned()))
}

/// The claim that several slurmctld share, or `None` if there is only one or no such claim.
fn shared_claim(spec: &Value) -> Option<&str> {
    let is_on = |value: &Value, default: bool| value["enabled"].as_bool().unwrap_or(default);
    if !is_on(&spec["ha"], false) || !is_on(&spec["persistence"], true) {
        return None;
    }
    spec["persistence"]["existingClaim"].as_str().filter(|claim| !claim.is_empty())
}

/// The names in a list of references, in order.
fn names(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item["name"].as_str()).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn refused(words: String) -> Finding {
    Finding { weight: Weight::Refusal, words }
}

fn warning(words: String) -> Finding {
    Finding { weight: Weight::Warning, words }
}

#[cfg(test)]
mod tests;
