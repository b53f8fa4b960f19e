use crate::digest;

use super::form::{Form, Unfit, fit_all};

/// Headless Service shared by all workers of a Controller.
pub fn worker_service(controller: &str) -> String {
    format!("slurm-workers-{controller}")
}

/// Disruption budget shared by all workers of a Controller.
pub fn worker_budget(controller: &str) -> String {
    format!("slurm-workers-pdb-{controller}")
}

/// An ordinal as written in names: with leading zeros up to `padding` digits.
pub fn padded(ordinal: u32, padding: usize) -> String {
    format!("{ordinal:0padding$}")
}

/// Worker pod with this ordinal, in StatefulSet mode.
pub fn worker_pod(nodeset: &str, ordinal: u32) -> String {
    padded_worker_pod(nodeset, ordinal, 0)
}

/// [`worker_pod`] with an ordinal of at least `padding` digits.
pub fn padded_worker_pod(nodeset: &str, ordinal: u32, padding: usize) -> String {
    format!("{nodeset}-{}", padded(ordinal, padding))
}

/// `generateName` of a worker pod, in DaemonSet mode.
pub fn worker_generate_name(nodeset: &str) -> String {
    format!("{nodeset}-")
}

/// Worker pod of this Kubernetes node, in DaemonSet mode. The name looks like one that the server generates, but is always the same for a node, so
/// that a repeated creation makes no second pod.
pub fn daemon_pod(nodeset: &str, node: &str) -> String {
    format!("{}{}", worker_generate_name(nodeset), digest::short_of_json(&node.into()))
}

/// The ordinal in a worker pod's name, or `None` if [`padded_worker_pod`] does not give that name with any padding. When a NodeSet's padding changes,
/// its earlier pods are still its pods. So `w-7` and `w-007` have the same ordinal, and both may exist.
pub fn worker_ordinal(nodeset: &str, pod: &str) -> Option<u32> {
    let ordinal = pod.strip_prefix(nodeset)?.strip_prefix('-')?;
    // `parse` would accept a sign, which names never have.
    ordinal.bytes().all(|byte| byte.is_ascii_digit()).then(|| ordinal.parse().ok())?
}

/// Hostname of a worker, which is also its Slurm node name, in StatefulSet mode.
pub fn worker_hostname(nodeset: &str, template_hostname: Option<&str>, ordinal: u32) -> String {
    padded_worker_hostname(nodeset, template_hostname, ordinal, 0)
}

/// [`worker_hostname`] with an ordinal of at least `padding` digits.
pub fn padded_worker_hostname(nodeset: &str, template_hostname: Option<&str>, ordinal: u32, padding: usize) -> String {
    match template_hostname {
        Some(prefix) => format!("{prefix}{}", padded(ordinal, padding)),
        None => padded_worker_pod(nodeset, ordinal, padding),
    }
}

/// Hostname of a worker, which is also its Slurm node name, in DaemonSet mode: the node's override, else its name up to the first dot.
pub fn daemon_hostname<'a>(node: &'a str, hostname_override: Option<&'a str>) -> &'a str {
    hostname_override.unwrap_or_else(|| node.split('.').next().unwrap_or_default())
}

/// Name of a NodeSet in Slurm: of its node set, its baseline feature and its partition.
pub fn slurm_nodeset(nodeset: &str, template_hostname: Option<&str>) -> String {
    template_hostname.map(|prefix| prefix.trim_matches('-')).filter(|name| !name.is_empty()).unwrap_or(nodeset).to_owned()
}

/// Claim of a worker; `worker` is its padded ordinal, or its hostname in DaemonSet mode.
pub fn worker_claim(template: &str, nodeset: &str, worker: &str) -> String {
    format!("{template}-{nodeset}-{worker}")
}

/// Suffix of claim names, in DaemonSet mode.
pub fn worker_claimant(nodeset: &str, hostname: &str) -> String {
    format!("{nodeset}-{hostname}")
}

/// The [`worker_claimant`] that a claim was created for from this template, in DaemonSet mode, or `None` if it is not the NodeSet's.
pub fn daemon_claimant<'a>(template: &str, nodeset: &str, claim: &'a str) -> Option<&'a str> {
    let claimant = claim.strip_prefix(template)?.strip_prefix('-')?;
    let hostname = claimant.strip_prefix(nodeset)?.strip_prefix('-')?;
    (!hostname.is_empty()).then_some(claimant)
}

/// Claim of this worker pod, in StatefulSet mode: the same as [`worker_claim`], because the pod's name ends the same way.
pub fn pod_claim(template: &str, pod: &str) -> String {
    format!("{template}-{pod}")
}

/// The worker pod that a claim was created for from this template, in StatefulSet mode, or `None` if it is not the NodeSet's.
pub fn claimant<'a>(template: &str, nodeset: &str, claim: &'a str) -> Option<&'a str> {
    let pod = claim.strip_prefix(template)?.strip_prefix('-')?;
    worker_ordinal(nodeset, pod).map(|_| pod)
}

/// ConfigMap with a worker's sshd_config.
pub fn worker_ssh_config(nodeset: &str) -> String {
    format!("{nodeset}-ssh-config")
}

/// ControllerRevision with this hash.
pub fn worker_revision(nodeset: &str, hash: &str) -> String {
    format!("{nodeset}-{hash}")
}

/// Reservation in Slurm for a scheduled update.
pub fn worker_reservation(nodeset: &str) -> String {
    format!("SlurmOperatorMaint-{nodeset}")
}

/// Checks every name derived from a NodeSet, except those of its pods: their length depends on the number of pods, so they are checked one by one.
pub fn check_nodeset(nodeset: &str) -> Result<(), Unfit> {
    fit_all([
        ("label value", nodeset.to_owned(), Form::Labelled),
        ("ConfigMap", worker_ssh_config(nodeset), Form::Subdomain),
        ("ControllerRevision", worker_revision(nodeset, "0123456789"), Form::Subdomain),
    ])
}

/// Checks that a claim can be created from a template of this name, which also names a volume of the pod.
pub fn check_claim(template: &str, claim: &str) -> Result<(), Unfit> {
    fit_all([("volume", template.to_owned(), Form::Hostname), ("claim", claim.to_owned(), Form::Subdomain)])
}

/// Checks that a worker pod can have this name and this hostname.
pub fn check_worker(pod: &str, hostname: &str) -> Result<(), Unfit> {
    fit_all([("pod", pod.to_owned(), Form::Labelled), ("hostname", hostname.to_owned(), Form::Hostname)])
}
