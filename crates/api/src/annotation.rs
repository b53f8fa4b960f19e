//! Annotations, and the finalizer.

/// On a NodeSet with a scheduled update: its reservation in Slurm goes before it.
pub const RESERVATION_FINALIZER: &str = "nodeset.slinky.slurm.net/reservation";

/// On every NodeSet: its workers leave before it, without losing a job, and Slurm forgets them.
pub const JOBS_FINALIZER: &str = "nodeset.slipway.dev/jobs";

/// Which container `kubectl logs` and `kubectl exec` take.
pub const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// Prefixes of annotations by which tools keep their own books on a resource: a copy of the manifest, the release, a sync. They are never inherited,
/// or each use of the tool would look like a new pod template, and restart a daemon.
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
/// On a worker pod: a number; the lower, the sooner it leaves when the NodeSet shrinks.
pub const POD_DELETION_COST: &str = "nodeset.slinky.slurm.net/pod-deletion-cost";
/// On a worker pod: when the last of its jobs ends, as RFC 3339 writes it.
pub const POD_DEADLINE: &str = "nodeset.slinky.slurm.net/pod-deadline";
/// On a worker pod or a NodeSet: an RFC 3339 moment, or a length of time such as `30m` counted from when the worker's drain began, after which a
/// worker that is to leave leaves with its jobs. What a pod says counts before what its NodeSet says.
pub const DRAIN_DEADLINE: &str = "slipway.dev/drain-deadline";
/// On a worker pod or a NodeSet: exactly `"true"`: a worker that is to be deleted is deleted at once, and its running jobs are killed.
pub const FORCE_DELETE: &str = "slipway.dev/force-delete";
/// On a Kubernetes node: the reason to drain with while it is cordoned.
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
/// On a slurmctld pod that takes a new configuration in place: SHA-256 of the configuration that was last published. Writing it makes the kubelet
/// look at the pod, which brings the files within a second or two instead of a minute.
pub const CONFIG_HASH: &str = "slipway.dev/config-hash";
/// On the same pod: when it was told a second time. Only that it changes counts.
pub const CONFIG_TOLD_AGAIN: &str = "slipway.dev/config-told-again";
/// On the same pod: since when those files were there for it to read, as RFC 3339 writes it.
pub const CONFIG_SINCE: &str = "slipway.dev/config-since";
/// On the ConfigMap with the configuration: SHA-256 of its slurm.conf as it was published. Whoever edits the ConfigMap does not change this.
pub const SLURM_CONF_HASH: &str = "slipway.dev/slurm-conf-hash";
/// SHA-256 of a child as it was last rendered. A field that we stop rendering changes nothing else that a look at the live object could
/// show, so this is what makes us apply again and so removes it.
pub const RENDERED_HASH: &str = "slipway.dev/rendered-hash";
