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

/// An ordinal as it stands in names: with leading zeros up to `padding` digits.
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

/// What the server completes to the name of a worker pod, in DaemonSet mode.
pub fn worker_generate_name(nodeset: &str) -> String {
    format!("{nodeset}-")
}

/// The worker pod of this Kubernetes node, in DaemonSet mode: such a name as the server would complete, but always the same for a node. So a pod that was
/// created twice is created once.
pub fn daemon_pod(nodeset: &str, node: &str) -> String {
    format!("{}{}", worker_generate_name(nodeset), digest::short_of_json(&node.into()))
}

/// The ordinal in a worker pod's name, if it is one that [`padded_worker_pod`] gives with any padding: when a NodeSet's padding changes, its pods of
/// before are still its pods. So `w-7` and `w-007` have the same ordinal, and may both be there.
pub fn worker_ordinal(nodeset: &str, pod: &str) -> Option<u32> {
    let ordinal = pod.strip_prefix(nodeset)?.strip_prefix('-')?;
    // Numbers may have a sign where they are read, and none in a name.
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

/// Hostname of a worker, which is also its Slurm node name, in DaemonSet mode: the node's own word, else its name up to the first dot.
pub fn daemon_hostname<'a>(node: &'a str, hostname_override: Option<&'a str>) -> &'a str {
    hostname_override.unwrap_or_else(|| node.split('.').next().unwrap_or_default())
}

/// Slurm's name for the nodes of a NodeSet: its node set, its baseline feature and its partition.
pub fn slurm_nodeset(nodeset: &str, template_hostname: Option<&str>) -> String {
    template_hostname.map(|prefix| prefix.trim_matches('-')).filter(|name| !name.is_empty()).unwrap_or(nodeset).to_owned()
}

/// Claim of a worker; `worker` is its padded ordinal, or its hostname in DaemonSet mode.
pub fn worker_claim(template: &str, nodeset: &str, worker: &str) -> String {
    format!("{template}-{nodeset}-{worker}")
}

/// What names of claims end with, in DaemonSet mode.
pub fn worker_claimant(nodeset: &str, hostname: &str) -> String {
    format!("{nodeset}-{hostname}")
}

/// What the claim was made for from this template, in DaemonSet mode: a [`worker_claimant`] of the NodeSet.
pub fn daemon_claimant<'a>(template: &str, nodeset: &str, claim: &'a str) -> Option<&'a str> {
    let claimant = claim.strip_prefix(template)?.strip_prefix('-')?;
    let hostname = claimant.strip_prefix(nodeset)?.strip_prefix('-')?;
    (!hostname.is_empty()).then_some(claimant)
}

/// Claim of this worker pod, in StatefulSet mode: a [`worker_claim`], as the pod's name has the same end.
pub fn pod_claim(template: &str, pod: &str) -> String {
    format!("{template}-{pod}")
}

/// The worker pod that a claim was made for from this template, in StatefulSet mode.
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

/// Slurm's reservation for a scheduled update.
pub fn worker_reservation(nodeset: &str) -> String {
    format!("SlurmOperatorMaint-{nodeset}")
}

/// Whether everything that is named after a NodeSet can be. Its pods are checked one by one: how long their names are depends on how many
/// there are.
pub fn check_nodeset(nodeset: &str) -> Result<(), Unfit> {
    fit_all([
        ("label value", nodeset.to_owned(), Form::Labelled),
        ("ConfigMap", worker_ssh_config(nodeset), Form::Subdomain),
        ("ControllerRevision", worker_revision(nodeset, "0123456789"), Form::Subdomain),
    ])
}

/// Whether a claim can be made from a template of this name, which also names a volume of the pod.
pub fn check_claim(template: &str, claim: &str) -> Result<(), Unfit> {
    fit_all([("volume", template.to_owned(), Form::Hostname), ("claim", claim.to_owned(), Form::Subdomain)])
}

/// Whether a worker pod can have this name and this hostname.
pub fn check_worker(pod: &str, hostname: &str) -> Result<(), Unfit> {
    fit_all([("pod", pod.to_owned(), Form::Labelled), ("hostname", hostname.to_owned(), Form::Hostname)])
}
