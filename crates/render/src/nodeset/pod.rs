use serde_json::{Value, json};
use slipway_api::{
    NodeSet, Raw, annotation, env, image,
    label::{self, Component},
    name, owner, quantity, slurm_node, volume,
};

use super::{
    References, claim, gres, padding,
    slurm::{self, is_on_host_network, node_items},
    ssh,
};
use crate::{
    Invalid,
    controller::{address::address, statefulset::key_source},
    merge,
    metadata::Marks,
    probe, sidecar,
};

/// preStop hook. It sets the node DOWN, so that its jobs are requeued immediately and not after a timeout. An administrator's reason stays: a new
/// pod of that name is still theirs to resume. Without slurmctld, Slurm's commands would wait until the pod's grace period ends, hence the
/// timeouts.
fn pre_stop_script() -> String {
    let (prefix, text) = (slurm_node::REASON_PREFIX, slurm_node::POD_TERMINATING);
    format!(
        r#"node=$(hostname)
reason=$(timeout 5 sinfo --noheader --nodes="$node" --format=%E | head -n 1)
case "$reason" in ''|none|'{prefix}'*) reason='{prefix}{text}' ;; esac
timeout 5 scontrol update nodename="$node" state=down reason="$reason"
"#
    )
}

/// Properties that one worker does not share with the others of its NodeSet.
struct Identity {
    pod: String,
    hostname: String,
    /// Padded ordinal, in StatefulSet mode.
    index: Option<String>,
    /// End of the names of its claims.
    claimant: String,
}

pub(super) fn pod(nodeset: &NodeSet, references: &References, ordinal: u32) -> Result<Value, Invalid> {
    let padding = padding(nodeset);
    slurm::slurm_lines(nodeset)?; // no worker starts with an invalid partition
    let pod = name::padded_worker_pod(crate::identity(&nodeset.metadata).1, ordinal, padding);
    let hostname = slurm::hostname(nodeset, &pod, ordinal)?;
    worker(nodeset, references, Identity { claimant: pod.clone(), pod, hostname, index: Some(name::padded(ordinal, padding)) })
}

/// The pod has the name and the tolerations that a DaemonSet's pod would have, and is not bound to a node yet.
pub(super) fn daemon_pod(nodeset: &NodeSet, references: &References, node: &str, hostname: &str) -> Result<Value, Invalid> {
    slurm::slurm_lines(nodeset)?;
    let name = crate::identity(&nodeset.metadata).1;
    let pod = name::daemon_pod(name, node);
    let claimant = name::worker_claimant(name, hostname);
    let mut body = worker(nodeset, references, Identity { pod, hostname: hostname.to_owned(), index: None, claimant })?;
    body["metadata"]["generateName"] = name::worker_generate_name(name).into();
    let mut tolerations = body["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    let is_on_host = is_on_host_network(nodeset.spec.template.as_ref().and_then(|template| template.spec.as_ref()));
    for toleration in daemon_tolerations(is_on_host) {
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    body["spec"]["tolerations"] = tolerations.into();
    Ok(body)
}

/// More tolerations that Kubernetes gives to the pods of its own DaemonSets: they are created for a node even while it is cordoned or under pressure.
fn daemon_tolerations(is_on_host_network: bool) -> impl Iterator<Item = Value> {
    let taints = ["disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"];
    let without_network = is_on_host_network.then_some("network-unavailable");
    taints.into_iter().chain(without_network).map(|taint| toleration(taint, "NoSchedule"))
}

fn toleration(taint: &str, effect: &str) -> Value {
    json!({ "key": format!("node.kubernetes.io/{taint}"), "operator": "Exists", "effect": effect })
}

fn worker(nodeset: &NodeSet, references: &References, identity: Identity) -> Result<Value, Invalid> {
    let Identity { pod, hostname, index, claimant } = identity;
    let (namespace, name) = crate::identity(&nodeset.metadata);
    let template = nodeset.spec.template.as_ref();
    let marks = Marks::inherited(&nodeset.metadata)
        .with(template.and_then(|template| template.metadata.as_ref()))
        .of(Component::Worker, name)
        .label(label::CLUSTER, crate::identity(&references.controller.metadata).1)
        .label(label::POD_NAME, &pod)
        .label(label::POD_HOSTNAME, &hostname)
        .label(label::SCALING_MODE, if index.is_some() { label::NUMBERED } else { label::PER_NODE })
        .label(label::TEMPLATE_HASH, references.hash.as_str())
        .annotation(annotation::DEFAULT_CONTAINER, Component::Worker.daemon());
    let marks = match index {
        Some(index) => marks.label(label::POD_INDEX, index),
        None => marks,
    };
    let marks = ssh::marked(marks, nodeset, references);
    let gres = gres::derived(nodeset, references.gres.as_ref(), &hostname);
    let items = node_items(nodeset, marks.annotation_value(annotation::TOPOLOGY), gres.as_ref())?;
    let mut spec = pod_spec(nodeset, references, &items)?;
    // The template's hostname is a prefix. Merging put it in place of the full hostname.
    spec["hostname"] = hostname.into();
    spec["volumes"] = claim::with_claims(&spec["volumes"], nodeset, &claimant)?;
    let mut body = json!({ "metadata": marks.of_object(&[owner::controller_of(nodeset)]), "spec": spec });
    body["apiVersion"] = "v1".into();
    body["kind"] = "Pod".into();
    body["metadata"]["name"] = pod.into();
    body["metadata"]["namespace"] = namespace.into();
    Ok(body)
}

/// Pins a pod by node name, as the scheduler knows it: several nodes can have the same labels.
pub(super) fn pinned(mut pod: Value, node: &str) -> Value {
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({ "nodeSelectorTerms": [{
        "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }],
    }]});
    pod
}

fn pod_spec(nodeset: &NodeSet, references: &References, items: &str) -> Result<Value, Invalid> {
    let controller = &references.controller;
    let (namespace, cluster) = crate::identity(&controller.metadata);
    let spec = &nodeset.spec;
    let user = spec.template.as_ref().and_then(|template| template.spec.as_ref());
    let image = crate::image(spec.slurmd.as_ref(), "spec.slurmd")?;
    let service = name::worker_service(cluster);
    let mut base = json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "subdomain": service,
        // Slurm addresses its nodes by bare hostnames.
        "dnsConfig": { "searches": [format!("{service}.{namespace}.svc.{}", references.cluster_domain)] },
        "tolerations": [
            { "key": label::WORKER_TAINT, "operator": "Equal", "effect": "NoExecute" },
            // By default Kubernetes deletes the pods of a node whose kubelet it has not heard of for five minutes. Their jobs may run on, and a kubelet
            // that comes back would kill them. What Slurm has lost is for Slurm to say.
            toleration("not-ready", "NoExecute"),
            toleration("unreachable", "NoExecute"),
        ],
        "initContainers": [sidecar::container(spec.logfile.as_ref(), image, image::SLURMD_LOG)],
        "containers": [container(nodeset, references, items, user)?],
        "volumes": [
            { "name": volume::ETC, "projected": { "defaultMode": 0o600, "sources": [
                key_source(controller.spec.slurm_key_ref.as_ref(), "spec.slurmKeyRef of the Controller", image::SLURM_KEY_FILE)?,
            ]}},
            sidecar::volume(),
        ],
    });
    ssh::add_volumes(&mut base, nodeset, references);
    if !spec.oversubscribe_node {
        base["affinity"] = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": { "matchExpressions": [{ "key": label::NAME, "operator": "In", "values": [Component::Worker.daemon()] }] },
        }]}});
    }
    if is_on_host_network(user) {
        // By default such a pod uses the DNS server of its host, which cannot resolve slurmctld.
        base["dnsPolicy"] = "ClusterFirstWithHostNet".into();
    }
    Ok(merge::pod_spec(base, user))
}

fn container(nodeset: &NodeSet, references: &References, items: &str, pod: Option<&Raw>) -> Result<Value, Invalid> {
    let daemon = Component::Worker.daemon();
    let user = nodeset.spec.slurmd.as_ref();
    let mut base = json!({
        "name": daemon,
        "args": [
            "-Z",
            "--conf-server",
            address(&references.controller)?,
            "--conf",
            quoted(items),
        ],
        "env": [
            { "name": env::TOPOLOGY, "valueFrom": { "fieldRef": {
                "fieldPath": format!("metadata.annotations['{}']", annotation::TOPOLOGY),
            }}},
            { "name": env::POD_CPUS, "value": limit(user, pod, "cpu", quantity::cpus) },
            { "name": env::POD_MEMORY, "value": limit(user, pod, "memory", quantity::mebibytes) },
        ],
        "ports": [{ "name": daemon, "containerPort": image::SLURMD_PORT, "protocol": "TCP" }],
        "securityContext": {
            "privileged": true,
            "capabilities": { "add": ["BPF", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE"] },
        },
        "lifecycle": { "preStop": { "exec": { "command": ["/usr/bin/sh", "-c", pre_stop_script()] } } },
        "volumeMounts": [
            { "name": volume::ETC, "mountPath": image::CONFIG_DIR, "readOnly": true },
            sidecar::mount(),
        ],
    });
    ssh::open(&mut base, nodeset, references);
    probe::add(&mut base, probe::slurmd(daemon));
    Ok(probe::without_idle(merge::container(base, user)))
}

/// The items in quotes, because the images parse their arguments as a shell does.
fn quoted(items: &str) -> String {
    format!("'{items}'")
}

/// The limit of the slurmd container, else that of the pod, else `0` for none.
fn limit(container: Option<&Raw>, pod: Option<&Raw>, resource: &str, read: fn(&str) -> Option<u64>) -> String {
    let of = |raw: Option<&Raw>| {
        let quantity = raw?.0.get("resources")?.get("limits")?.get(resource)?;
        quantity.as_str().map_or_else(|| read(&quantity.to_string()), read)
    };
    of(container).or_else(|| of(pod)).unwrap_or(0).to_string()
}
