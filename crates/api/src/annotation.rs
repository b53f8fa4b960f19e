//! Annotations and finalizers.

/// On a NodeSet with a scheduled update: its reservation in Slurm is deleted before it.
pub const RESERVATION_FINALIZER: &str = "nodeset.slinky.slurm.net/reservation";

/// On every NodeSet: its workers are deleted before it, without losing a job, and their records are removed from Slurm.
pub const JOBS_FINALIZER: &str = "nodeset.slipway.dev/jobs";

/// Container that `kubectl logs` and `kubectl exec` use.
pub const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// Prefixes of annotations in which tools keep their own data on a resource: a copy of the manifest, the release, a sync. They are never inherited,
/// or each use of the tool would look like a new pod template and restart a daemon.
pub const OF_TOOLS: [&str; 8] = [
    "kubectl.kubernetes.io/",
    "meta.helm.sh/",
    "helm.sh/",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "fluxcd.io/",
    "slipway.dev/",
];
/// Slurm topology of a worker, e.g. `topo-switch:s2,topo-block:b2`.
pub const TOPOLOGY: &str = "topology.slinky.slurm.net/spec";
/// On a worker pod: exactly `"true"` drains its Slurm node.
pub const POD_CORDON: &str = "nodeset.slinky.slurm.net/pod-cordon";
/// On a worker pod: a number; pods with a lower one are deleted first when the NodeSet is scaled in.
pub const POD_DELETION_COST: &str = "nodeset.slinky.slurm.net/pod-deletion-cost";
/// On a worker pod: the end of its last job, in RFC 3339.
pub const POD_DEADLINE: &str = "nodeset.slinky.slurm.net/pod-deadline";
/// On a worker pod or a NodeSet: a time in RFC 3339, or a duration such as `30m` from the start of the worker's drain. After it a worker that is to
/// be deleted is deleted and its running jobs are killed. The pod's value overrides its NodeSet's.
pub const DRAIN_DEADLINE: &str = "slipway.dev/drain-deadline";
/// On a worker pod or a NodeSet: with exactly `"true"`, a worker that is to be deleted is deleted at once and its running jobs are killed.
pub const FORCE_DELETE: &str = "slipway.dev/force-delete";
/// On a Kubernetes node: the drain reason while it is cordoned.
pub const NODE_CORDON_REASON: &str = "nodeset.slinky.slurm.net/node-cordon-reason";
/// On a Kubernetes node: the Slurm node name of the worker on it, in DaemonSet mode.
pub const HOSTNAME_OVERRIDE: &str = "nodeset.slinky.slurm.net/hostname-override";
/// On a Kubernetes node: features, separated by commas, that its Slurm node gets with [`crate::slurm_node::FEATURE_PREFIX`].
pub const FEATURES: &str = "features.slinky.slurm.net/spec";
/// SHA-256 of the auth/slurm Secret, on pod templates: a new key restarts the daemon.
pub const SLURM_KEY_HASH: &str = "slinky.slurm.net/slurm-key-hash";
/// SHA-256 of the auth/jwt Secret, likewise.
pub const JWT_KEY_HASH: &str = "slinky.slurm.net/jwt-key-hash";
/// SHA-256 of the generated configuration, likewise.
pub const SLURM_CONFIG_HASH: &str = "slinky.slurm.net/slurm-config-hash";
/// SHA-256 of slurmdbd's configuration, likewise.
pub const SLURMDBD_CONF_HASH: &str = "slinky.slurm.net/slurmdbd-conf-hash";
/// SHA-256 of sshd_config, on pods that run sshd.
pub const SSHD_CONF_HASH: &str = "slinky.slurm.net/sshd-conf-hash";
/// SHA-256 of sssd.conf, likewise.
pub const SSSD_CONF_HASH: &str = "slinky.slurm.net/sssd-conf-hash";
/// SHA-256 of the host keys of login nodes, likewise.
pub const SSH_HOST_KEYS_HASH: &str = "slinky.slurm.net/ssh-host-keys-hash";
/// On a slurmctld pod that is reconfigured in place: SHA-256 of the last published configuration. Writing it makes the kubelet sync the pod, which
/// delivers the files within a second or two instead of a minute.
pub const CONFIG_HASH: &str = "slipway.dev/config-hash";
/// On the same pod: the time of a second sync request. Only its change matters.
pub const CONFIG_TOLD_AGAIN: &str = "slipway.dev/config-told-again";
/// On the same pod: the time since when it could read those files, in RFC 3339.
pub const CONFIG_SINCE: &str = "slipway.dev/config-since";
/// On the ConfigMap with the configuration: SHA-256 of its slurm.conf as published. An edit of the ConfigMap does not change it.
pub const SLURM_CONF_HASH: &str = "slipway.dev/slurm-conf-hash";
/// SHA-256 of a child as last rendered. Nothing else on the live object shows that we stopped rendering a field; a changed hash makes us apply the
/// child again, which removes the field.
pub const RENDERED_HASH: &str = "slipway.dev/rendered-hash";
